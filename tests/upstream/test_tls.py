"""TLS to the consumer: who proves what to whom, and what had left when that failed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Outcome, Reply, Unreached
from gateway.core.route import Tls
from gateway.upstream.hop import Hop
from tests.rig.deadline import eventually
from tests.upstream.authority import FAR_AHEAD, Authority, Pair
from tests.upstream.requests import BODY, LONG, Request, hop_to
from tests.upstream.scripted import Peer, ScriptedConsumer
from tests.upstream.tls_consumer import tls_consumer

SOON = 0.15
PAST = datetime(2021, 1, 1, tzinfo=UTC)
BIG = Request(bytes(20 * 2**20) + b"the end")


@pytest.fixture(autouse=True)
async def localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without /etc/hosts has no such name, and certificates are for names."""

    async def resolver(_: str, port: int, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the configuration names."""
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("theirs"), "theirs")


def tls_hop(port: int, tls: Tls, **limits: Any) -> Hop:
    """A hop to localhost over TLS."""
    return hop_to(port, scheme="https", host="localhost", tls=tls, **limits)


def trusting(authority: Authority, pair: Pair | None = None) -> Tls:
    """What a route says."""
    if pair is None:
        return Tls(authority.cert, None, None)
    return Tls(authority.cert, pair.cert, pair.key)


def is_ok(outcome: Outcome) -> bool:
    """Delivered, and whole."""
    return isinstance(outcome, Delivered) and outcome.reply.body == b"ok"


async def test_a_request_crosses_tls_and_its_connection_is_kept(
    ours: Authority, hops: list[Hop]
) -> None:
    with tls_consumer(ours.signs("localhost")) as consumer:
        hop = tls_hop(consumer.port, trusting(ours))
        hops.append(hop)
        assert hop.certificate_expires is None

        assert is_ok(await BODY.over(hop))
        assert is_ok(await BODY.over(hop))

        assert consumer.received == BODY.wire * 2
        assert consumer.connections == 1
        assert consumer.names == ["localhost"]
        assert hop.certificate_expires == FAR_AHEAD.timestamp()


@pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])
async def test_large_bodies_cross_tls_whole(pooled: bool, ours: Authority, hops: list[Hop]) -> None:
    with tls_consumer(ours.signs("localhost")) as consumer:
        hop = tls_hop(consumer.port, trusting(ours))
        hops.append(hop)
        if pooled:
            await BODY.over(hop)
        assert is_ok(await BIG.over(hop))
        assert consumer.received.endswith(BIG.wire)
        assert hop.idle == 1


async def test_a_consumer_that_stops_reading_over_tls_runs_into_the_write_timeout(
    ours: Authority, hops: list[Hop]
) -> None:
    with tls_consumer(ours.signs("localhost")) as consumer:
        hop = tls_hop(consumer.port, trusting(ours), write_timeout=SOON)
        hops.append(hop)
        consumer.reads.clear()
        assert await BIG.over(hop) == Ambiguous("write_timeout", timed_out=True)
        consumer.reads.set()
        assert len(consumer.received) < len(BIG.wire)


async def test_a_body_until_close_crosses_tls(ours: Authority, hops: list[Hop]) -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\nok"
    with tls_consumer(ours.signs("localhost"), answer=answer, closes=True) as consumer:
        hop = tls_hop(consumer.port, trusting(ours))
        hops.append(hop)
        assert await BODY.over(hop) == Delivered(Reply(200, b"OK", (), b"ok"))
        assert hop.idle == 0


@pytest.mark.parametrize("flaw", ["authority", "name", "date"])
@pytest.mark.parametrize("body", [BODY, Request(b"")], ids=["body", "no_body"])
async def test_a_consumer_that_cannot_prove_itself_is_sent_nothing(
    flaw: str, body: Request, ours: Authority, theirs: Authority, hops: list[Hop]
) -> None:
    pair = {
        "authority": theirs.signs("localhost"),
        "name": ours.signs("elsewhere.example"),
        "date": ours.signs("localhost", until=PAST),
    }[flaw]
    with tls_consumer(pair) as consumer:
        hop = tls_hop(consumer.port, trusting(ours))
        hops.append(hop)
        assert await body.over(hop) == Unreached("certificate")
        assert not consumer.received
        assert hop.in_use == 0


async def test_we_prove_ourselves_where_the_consumer_asks_for_it(
    ours: Authority, hops: list[Hop]
) -> None:
    with tls_consumer(ours.signs("localhost"), clients=ours.cert) as consumer:
        hop = tls_hop(consumer.port, trusting(ours, ours.signs("gateway")))
        hops.append(hop)
        assert is_ok(await BODY.over(hop))
        assert consumer.received == BODY.wire


@pytest.mark.parametrize("shows", ["nothing", "a certificate of somebody else"])
@pytest.mark.parametrize(
    ("newest", "outcome"),
    [
        (ssl.TLSVersion.TLSv1_2, Unreached("tls")),
        # 1.3 lets us write before the consumer has looked at our certificate.
        (ssl.TLSVersion.TLSv1_3, Ambiguous("tls")),
    ],
    ids=["1.2", "1.3"],
)
async def test_a_consumer_that_refuses_our_certificate_processes_nothing(
    shows: str,
    newest: ssl.TLSVersion,
    outcome: Outcome,
    ours: Authority,
    theirs: Authority,
    hops: list[Hop],
) -> None:
    pair = None if shows == "nothing" else theirs.signs("gateway")
    server = tls_consumer(ours.signs("localhost"), clients=ours.cert, newest=newest)
    with server as consumer:
        hop = tls_hop(consumer.port, trusting(ours, pair))
        hops.append(hop)
        assert await BODY.over(hop) == outcome
        assert not consumer.received
        assert (hop.in_use, hop.idle) == (0, 0)


async def test_a_consumer_that_speaks_plain_http_is_unreached(
    consumer: ScriptedConsumer, ours: Authority, hops: list[Hop]
) -> None:
    async def answers_in_the_clear(peer: Peer) -> None:
        await peer.read()
        await peer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        peer.close()

    consumer.plays(answers_in_the_clear)
    hop = tls_hop(consumer.port, trusting(ours))
    hops.append(hop)
    assert await BODY.over(hop) == Unreached("tls")
    assert BODY.wire not in consumer.requests[0]


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_consumer_that_hangs_up_in_the_handshake_is_unreached(
    how: str, consumer: ScriptedConsumer, ours: Authority, hops: list[Hop]
) -> None:
    async def hangs_up(peer: Peer) -> None:
        await peer.read()
        if how == "closes":
            peer.close()
        else:
            peer.reset()

    consumer.plays(hangs_up)
    hop = tls_hop(consumer.port, trusting(ours))
    hops.append(hop)
    assert await BODY.over(hop) == Unreached("tls")


async def test_a_handshake_that_stalls_is_a_connect_timeout(
    consumer: ScriptedConsumer, ours: Authority, hops: list[Hop]
) -> None:
    async def says_nothing(peer: Peer) -> None:
        await peer.until_closed()

    consumer.plays(says_nothing)
    hop = tls_hop(consumer.port, trusting(ours), connect_timeout=SOON)
    hops.append(hop)
    assert await BODY.over(hop) == Unreached("connect_timeout", timed_out=True)
    await eventually(lambda: consumer.requests, within=LONG)
    assert hop.in_use == 0


async def test_plain_http_to_a_consumer_that_speaks_tls_is_ambiguous_and_reveals_nothing_to_its_app(
    ours: Authority, hops: list[Hop]
) -> None:
    with tls_consumer(ours.signs("localhost")) as consumer:
        hop = hop_to(consumer.port)
        hops.append(hop)
        assert isinstance(await BODY.over(hop), Ambiguous)
        assert not consumer.received


@pytest.mark.parametrize("what", ["ca", "cert"])
async def test_a_file_that_cannot_be_used_is_known_before_the_first_request(
    what: str, ours: Authority, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    pair = ours.signs("gateway")
    for path in (str(empty), str(tmp_path / "missing.pem")):
        tls = Tls(path, None, None) if what == "ca" else Tls(ours.cert, path, pair.key)
        with pytest.raises(OSError, match=r".*"):
            tls_hop(1, tls)
