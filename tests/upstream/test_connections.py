"""What is written, and which connections are kept for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.core.outcome import Ambiguous
from gateway.upstream import wire
from gateway.upstream.connection import Connection
from gateway.upstream.hop import Hop
from tests.rig.deadline import eventually
from tests.upstream.requests import (
    BIG,
    BODY,
    LONG,
    NO_BODY,
    OK,
    Gate,
    Request,
    answers_ok,
    hop_to,
    is_ok,
    upstream,
    warmed,
)
from tests.upstream.scripted import Peer, ScriptedConsumer

SOON = 0.15
"""A time-out that a test waits for."""
IDEMPOTENT = [Request(BODY.body, method="PUT"), Request(b"", method="DELETE")]

both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


@both_kinds
async def test_a_consumer_that_stops_reading_makes_the_forward_ambiguous_after_the_write_timeout(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, write_timeout=SOON)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    gave_up = asyncio.Event()

    async def reads_a_little(peer: Peer) -> None:
        await peer.read(100)
        await gave_up.wait()
        await peer.until_closed()

    consumer.plays(reads_a_little)

    assert await BIG.over(hop) == Ambiguous("write_timeout", timed_out=True)
    gave_up.set()
    received = consumer.requests[-1]
    await eventually(lambda: len(received) > 100, within=LONG)
    assert 0 < len(received) < len(BIG.wire)
    assert BIG.wire.startswith(received)
    assert (hop.in_use, hop.idle) == (0, 0)


async def test_a_consumer_that_reads_slowly_but_steadily_is_written_to_in_the_end(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, write_timeout=SOON)
    hops.append(hop)

    async def reads_all(peer: Peer) -> None:
        missing = len(BIG.wire)
        while missing:
            missing -= len(await peer.read(2**20))
            if missing % 3 == 0:
                await asyncio.sleep(SOON / 5)
        await peer.write(OK)

    consumer.plays(reads_all)

    assert is_ok(await BIG.over(hop))
    assert consumer.requests[-1] == BIG.wire


@pytest.mark.row(25)
@both_kinds
async def test_an_upload_cut_halfway_is_ambiguous_and_not_sent_again(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)

    async def dies_halfway(peer: Peer) -> None:
        await peer.read(2**16)
        peer.close()

    consumer.plays(dies_halfway)

    outcome = await BIG.over(hop)
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason in {"reset", "closed"}
    assert BIG.wire.startswith(consumer.requests[-1])
    assert len(consumer.requests) == 1 + pooled


@pytest.mark.row(23)
@pytest.mark.parametrize("request_", [BODY, NO_BODY], ids=["body", "no_body"])
async def test_a_connection_that_died_while_idle_costs_nothing(
    request_: Request, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)
    consumer.plays(answers_ok)

    # The loop gets no turn between the consumer's FIN and our next request: only the kernel knows.
    consumer.close_connections()
    assert is_ok(await request_.over(hop))

    assert consumer.requests == [NO_BODY.wire, request_.wire]
    assert consumer.connections == 2


@pytest.mark.row(23)
async def test_a_connection_on_which_something_arrived_while_idle_is_not_used_again(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)

    async def speaks_unasked(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 204 OK\r\nKeep-Alive: timeout=60\r\n\r\n")
        await eventually(lambda: hop.idle == 1, within=LONG)
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
        await peer.until_closed()

    consumer.plays(speaks_unasked, answers_ok)

    await BODY.over(hop)
    await eventually(lambda: hop.idle == 0, within=LONG)
    assert is_ok(await BODY.over(hop))
    assert consumer.connections == 2


@pytest.mark.row(23)
@pytest.mark.row(24)
@pytest.mark.parametrize("request_", IDEMPOTENT, ids=["put", "delete"])
async def test_a_kept_connection_that_dies_on_the_request_is_ambiguous_and_nothing_is_sent_again(
    request_: Request, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)

    async def acts_and_dies(peer: Peer) -> None:
        await peer.read_request()
        peer.close()

    consumer.plays(acts_and_dies, answers_ok)

    assert await request_.over(hop) == Ambiguous("closed")
    assert consumer.requests == [NO_BODY.wire, request_.wire]
    assert consumer.connections == 1


async def test_an_idle_connection_is_closed_by_us_before_the_consumer_does_it(
    consumer: ScriptedConsumer, hops: list[Hop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "IDLE_SECONDS", 0.05)
    hop = hop_to(consumer.port)
    hops.append(hop)
    ended = asyncio.Event()

    async def answers_and_waits(peer: Peer) -> None:
        await answers_ok(peer)
        await peer.until_closed()
        ended.set()

    consumer.plays(answers_and_waits)
    await BODY.over(hop)
    assert hop.idle == 1
    await asyncio.wait_for(ended.wait(), LONG)
    assert hop.idle == 0


async def test_a_connection_idle_for_too_long_is_not_used_even_if_the_loop_was_too_late_to_close_it(
    consumer: ScriptedConsumer, hops: list[Hop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "IDLE_SECONDS", 0.05)
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)
    consumer.plays(answers_ok)

    time.sleep(0.1)  # noqa: ASYNC251 (a loop that is busy elsewhere)
    assert is_ok(await BODY.over(hop))
    assert consumer.connections == 2


async def test_the_connection_used_last_is_used_first(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    first, second = Gate(), Gate()
    consumer.plays(first, second)
    sends = [asyncio.create_task(BODY.over(hop)) for _ in range(2)]
    await eventually(lambda: len(consumer.requests) == 2, within=LONG)
    for gate in (first, second):
        gate.opened.set()
        await eventually(lambda: any(send.done() for send in sends), within=LONG)
    await asyncio.gather(*sends)
    assert hop.idle == 2

    consumer.plays(*[answers_ok] * 3)
    for _ in range(3):
        await BODY.over(hop)
    assert len(set(consumer.served_by[2:])) == 1
    assert hop.idle == 2
    assert consumer.connections == 2


@pytest.mark.row(23)
async def test_a_connection_that_has_told_of_its_end_counts_as_closed_at_once(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    open_at_the_end: list[bool] = []

    class Watched(Connection):
        def eof_received(self) -> None:
            super().eof_received()
            open_at_the_end.append(self.is_open())

    watched = Watched(upstream(consumer.port), lambda step: None)
    await asyncio.get_running_loop().create_connection(lambda: watched, "127.0.0.1", consumer.port)
    await eventually(lambda: consumer.connections == 1, within=LONG)
    consumer.close_connections()
    await eventually(lambda: open_at_the_end, within=LONG)
    assert open_at_the_end == [False]
