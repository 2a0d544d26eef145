"""Names and addresses: nothing of the request leaves before a connection stands."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gateway.core.outcome import Delivered, Unreached
from gateway.upstream import dial
from gateway.upstream.hop import Hop
from tests.rig.deadline import eventually
from tests.upstream.requests import BODY, LONG, NO_BODY, Request, answers_ok, hop_to
from tests.upstream.scripted import ScriptedConsumer

SOON = 0.15
# Six labels of sixty letters: more than a name may have, so no name server is asked.
NO_NAME = ".".join(["a" * 60] * 6)
V4 = socket.AF_INET

with_and_without_body = pytest.mark.parametrize("request_", [BODY, NO_BODY], ids=["body", "none"])
both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


@pytest.fixture
def unanswered() -> Iterator[tuple[str, int]]:
    """An address whose SYNs are dropped, because its backlog is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address: tuple[str, int] = full.getsockname()
        with socket.create_connection(address):
            yield address


@pytest.mark.row(22)
@with_and_without_body
@both_kinds
async def test_a_consumer_that_refuses_connections_is_unreached(
    pooled: bool, request_: Request, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    if pooled:
        consumer.plays(answers_ok)
        await request_.over(hop)
    before = len(consumer.requests)
    await consumer.stop_listening()
    consumer.close_connections()

    assert await request_.over(hop) == Unreached("connect_refused")
    assert len(consumer.requests) == before
    assert (hop.in_use, hop.idle) == (0, 0)


@pytest.mark.row(22)
@pytest.mark.parametrize("name", [NO_NAME, "a..b", "x" * 64], ids=["long", "empty", "label"])
@with_and_without_body
async def test_a_name_that_is_not_found_is_unreached(
    name: str, request_: Request, hops: list[Hop]
) -> None:
    hop = hop_to(80, host=name)
    hops.append(hop)
    assert await request_.over(hop) == Unreached("name_not_found")
    assert await request_.over(hop) == Unreached("name_not_found")


@pytest.mark.row(22)
@with_and_without_body
async def test_a_consumer_that_does_not_answer_a_syn_is_unreached_in_time(
    request_: Request, unanswered: tuple[str, int], hops: list[Hop]
) -> None:
    hop = hop_to(unanswered[1], connect_timeout=SOON)
    hops.append(hop)
    assert await request_.over(hop) == Unreached("connect_timeout", timed_out=True)
    assert hop.in_use == 0


async def test_a_cancelled_connection_attempt_frees_its_slot(
    unanswered: tuple[str, int], hops: list[Hop]
) -> None:
    hop = hop_to(unanswered[1])
    hops.append(hop)
    send = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: hop.in_use == 1, within=LONG)
    send.cancel()
    with pytest.raises(asyncio.CancelledError):
        await send
    assert hop.in_use == 0


def is_known(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except socket.gaierror:
        return False
    return True


@pytest.mark.skipif(not is_known("localhost"), reason="no localhost in /etc/hosts")
async def test_a_consumer_is_found_by_its_name(consumer: ScriptedConsumer, hops: list[Hop]) -> None:
    hop = hop_to(consumer.port, host="localhost")
    hops.append(hop)
    consumer.plays(answers_ok)
    assert isinstance(await BODY.over(hop), Delivered)


async def test_however_many_dial_one_look_up_is_under_way_and_it_is_remembered_for_a_moment(
    consumer: ScriptedConsumer, hops: list[Hop], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def resolver(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        nonlocal asked
        asked += host == "orders.internal"  # uvloop asks it about addresses, too
        await asyncio.sleep(0.05)
        return [(V4, socket.SOCK_STREAM, 6, "", ("127.0.0.1", consumer.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    hop = hop_to(consumer.port, host="orders.internal")
    hops.append(hop)
    consumer.plays(*[answers_ok] * 6)

    await asyncio.gather(*[BODY.over(hop) for _ in range(5)])
    consumer.close_connections()
    await BODY.over(hop)

    assert asked == 1
    assert consumer.connections == 6


async def test_a_name_server_that_does_not_answer_is_a_connect_timeout(
    hops: list[Hop], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    answer = asyncio.Event()

    async def resolver(*_: object, **__: object) -> list[tuple[object, ...]]:
        nonlocal asked
        asked += 1
        await answer.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    hop = hop_to(80, host="orders.internal", connect_timeout=SOON)
    hops.append(hop)

    for _ in range(2):
        assert await BODY.over(hop) == Unreached("connect_timeout", timed_out=True)
    assert asked == 1
    answer.set()
    assert await BODY.over(hop) == Unreached("name_not_found")


async def test_a_second_address_is_tried_when_the_first_one_is_silent(
    consumer: ScriptedConsumer, unanswered: tuple[str, int]
) -> None:
    good: dial.Address = (V4, ("127.0.0.1", consumer.port))
    chosen = await asyncio.wait_for(dial.race([(V4, unanswered), good]), LONG)
    with chosen:
        assert chosen.getpeername()[1] == consumer.port


async def test_a_second_address_is_tried_at_once_when_the_first_one_refuses(
    consumer: ScriptedConsumer,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        refusing: dial.Address = (V4, gone.getsockname())
    good: dial.Address = (V4, ("127.0.0.1", consumer.port))
    begun = asyncio.get_running_loop().time()
    with await dial.race([refusing, good]) as chosen:
        assert chosen.getpeername()[1] == consumer.port
    assert asyncio.get_running_loop().time() - begun < dial.STAGGER

    with pytest.raises(ConnectionRefusedError):
        await dial.race([refusing, refusing])


async def test_a_race_that_is_called_off_leaves_no_socket_open(
    unanswered: tuple[str, int],
) -> None:
    race = asyncio.create_task(dial.race([(V4, unanswered), (V4, unanswered)]))
    await asyncio.sleep(dial.STAGGER * 1.5)
    race.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race


def test_families_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    found: list[dial.Address] = [
        (six, ("a",)),
        (six, ("b",)),
        (six, ("c",)),
        (four, ("d",)),
        (four, ("e",)),
    ]
    assert [a[0] for _, a in dial.interleaved(found)] == ["a", "d", "b", "e", "c"]
