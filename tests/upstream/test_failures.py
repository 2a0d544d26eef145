"""Consumers that misbehave on script: the outcome beside the bytes that they really received.

Each failure meets a fresh and a pooled connection, with and without a body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Outcome, Reply
from gateway.upstream.hop import Hop
from tests.upstream.requests import BODY, LONG, NO_BODY, OK, Request, answers_ok, hop_to
from tests.upstream.scripted import Act, Peer, ScriptedConsumer

# A busy machine has to get a whole request through by then.
SOON = 0.5
"""A time-out that a test waits for."""


def says(*parts: bytes, then: str = "stays") -> Act:
    """Reads the request, writes, and then `closes`, `resets` or stays."""

    async def act(peer: Peer) -> None:
        await peer.read_request()
        for part in parts:
            await peer.write(part)
        if then == "closes":
            peer.close()
        elif then == "resets":
            peer.reset()
        else:
            await peer.until_closed()

    return act


def drips(at_once: bytes, slowly: bytes) -> Act:
    """Reads the request, writes one part at once and the other byte by byte."""

    async def act(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(at_once)
        await peer.drip(slowly, every=SOON / 5)
        peer.close()

    return act


async def closes_without_reading(peer: Peer) -> None:
    """RST, since the request is left unread."""
    peer.close()


async def reads_half_and_closes(peer: Peer) -> None:
    """Takes some of the request, then dies."""
    await peer.read(20)
    peer.close()


def reply(status: int, reason: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> Reply:
    """A complete reply."""
    return Reply(status, reason, headers, body, complete=True)


def broken(*headers: tuple[bytes, bytes]) -> Delivered:
    """A success whose body did not come whole."""
    return Delivered(Reply(200, b"OK", headers, b"", complete=False))


H = b"HTTP/1.1 200 OK\r\n"
CHUNKED = (b"Transfer-Encoding", b"chunked")
LENGTH_2 = (b"Content-Length", b"2")
TEN = (b"Content-Length", b"10")


@dataclass(frozen=True)
class Failure:
    """One way to misbehave, and what has to come of it."""

    act: Act
    outcome: Outcome
    received: int | None = None
    """How many bytes of the request the consumer really read; None for all."""
    limits: dict[str, Any] = field(default_factory=dict)


ENDINGS = {
    "closes without reading": Failure(closes_without_reading, Ambiguous("reset"), 0),
    "reads twenty bytes and closes": Failure(reads_half_and_closes, Ambiguous("reset"), 20),
    "closes after reading": Failure(says(then="closes"), Ambiguous("closed")),
    "resets after reading": Failure(says(then="resets"), Ambiguous("reset")),
    "closes in the middle of the head": Failure(
        says(H, b"Content-Le", then="closes"), Ambiguous("closed")
    ),
    "resets in the middle of the head": Failure(
        says(H, b"Content-Le", then="resets"), Ambiguous("reset")
    ),
    "closes after 100 Continue": Failure(
        says(b"HTTP/1.1 100 Continue\r\n\r\n", then="closes"), Ambiguous("closed")
    ),
}
BROKEN_BODIES = {
    "drips its body for longer than the whole time": Failure(
        drips(H + b"Content-Length: 10\r\n\r\n", b"0123456789"),
        broken(TEN),
        limits={"timeout": SOON},
    ),
    "closes in the middle of a body with a length": Failure(
        says(H + b"Content-Length: 10\r\n\r\n01234", then="closes"), broken(TEN)
    ),
    "resets in the middle of a body with a length": Failure(
        says(H + b"Content-Length: 10\r\n\r\n01234", then="resets"), broken(TEN)
    ),
    "resets in the middle of a body without one": Failure(
        says(H + b"\r\n01234", then="resets"), broken()
    ),
    "closes in the middle of a chunk": Failure(
        says(H + b"Transfer-Encoding: chunked\r\n\r\n5\r\n01", then="closes"), broken(CHUNKED)
    ),
    "closes before the last chunk": Failure(
        says(H + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", then="closes"), broken(CHUNKED)
    ),
    "writes a bad chunk": Failure(
        says(H + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n"), broken(CHUNKED)
    ),
    "writes trailers without end": Failure(
        says(H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"T: t\r\n" * 40_000),
        broken(CHUNKED),
        limits={"max_reply": 1000},
    ),
    "compresses as a transfer coding": Failure(
        says(H + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        broken((b"Transfer-Encoding", b"gzip, chunked")),
    ),
    "writes more than we take": Failure(
        says(H + b"Content-Length: 10\r\n\r\n0123456789"), broken(TEN), limits={"max_reply": 9}
    ),
}
UNREADABLE = {
    "writes garbage": Failure(says(b"\x16\x03\x01 hello\r\n\r\n"), Ambiguous("bad_reply")),
    "writes another protocol": Failure(says(b"SSH-2.0-x\r\n"), Ambiguous("bad_reply")),
    "frames by length and chunks": Failure(
        says(H + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        Ambiguous("bad_reply"),
    ),
    "frames by chunks and length": Failure(
        says(H + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        Ambiguous("bad_reply"),
    ),
    "names two lengths": Failure(
        says(H + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"), Ambiguous("bad_reply")
    ),
    "writes a header line of 70 KiB": Failure(
        says(H + b"X: " + b"x" * 70 * 1024 + b"\r\n\r\n"), Ambiguous("head_too_large")
    ),
    "writes heads without end": Failure(
        says(b"HTTP/1.1 102 Wait\r\n\r\n" * 4000), Ambiguous("head_too_large")
    ),
    "writes a name that is none": Failure(
        says(H + b"X y: 1\r\nContent-Length: 0\r\n\r\n"), Ambiguous("bad_reply")
    ),
}
OTHERS = {
    "never answers": Failure(
        says(),
        Ambiguous("first_byte_timeout", timed_out=True),
        limits={"first_byte_timeout": SOON},
    ),
    "never answers, and the whole time is shorter": Failure(
        says(), Ambiguous("timeout", timed_out=True), limits={"timeout": SOON}
    ),
    "drips its head for longer than the whole time": Failure(
        drips(b"", OK),
        Ambiguous("timeout", timed_out=True),
        limits={"timeout": SOON, "first_byte_timeout": LONG},
    ),
    "switches protocols": Failure(
        says(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        Ambiguous("switched_protocols"),
    ),
    "answers 999": Failure(says(b"HTTP/1.1 999 No\r\n\r\n"), Ambiguous("bad_status")),
    "answers 099": Failure(says(b"HTTP/1.1 099 No\r\n\r\n"), Ambiguous("bad_status")),
    "writes a body behind 204": Failure(
        says(b"HTTP/1.1 204 No Content\r\n\r\nhello"), Delivered(reply(204, b"No Content", b""))
    ),
    "breaks off the body of a failure": Failure(
        says(b"HTTP/1.1 500 Oh\r\nContent-Length: 10\r\n\r\n01", then="closes"),
        Ambiguous("reply_broken_off"),
    ),
    "writes two replies": Failure(says(OK + OK), Delivered(reply(200, b"OK", b"ok", LENGTH_2))),
}


def each(failures: dict[str, Failure]) -> pytest.MarkDecorator:
    """One test for each."""
    ids = [name.replace(" ", "_") for name in failures]
    return pytest.mark.parametrize("failure", failures.values(), ids=ids)


with_and_without_body = pytest.mark.parametrize("request_", [BODY, NO_BODY], ids=["body", "none"])
both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


async def until_one_is_kept(hop: Hop, request_: Request, consumer: ScriptedConsumer) -> None:
    """The limits under test are tight: on a busy machine they may end an honest exchange too."""
    consumer.plays(answers_ok)
    for _ in range(20):
        await request_.over(hop)
        if hop.idle:
            return
    raise AssertionError("no connection was kept")


async def meets(
    failure: Failure,
    request_: Request,
    hops: list[Hop],
    consumer: ScriptedConsumer,
    *,
    pooled: bool,
) -> None:
    """The request arrives once, on one connection, and the outcome is the right one."""
    hop = hop_to(consumer.port, **failure.limits)
    hops.append(hop)
    if pooled:
        await until_one_is_kept(hop, request_, consumer)
    requests, connections = len(consumer.requests), consumer.connections
    consumer.plays(failure.act)

    assert await request_.over(hop) == failure.outcome

    assert consumer.requests[-1] == request_.wire[: failure.received]
    assert len(consumer.requests) == requests + 1
    assert consumer.connections == (connections if pooled else 1)
    assert (hop.in_use, hop.idle) == (0, 0)


@pytest.mark.row(29)
@with_and_without_body
@both_kinds
@each(ENDINGS)
async def test_a_connection_that_ends_before_a_head_is_ambiguous_and_nothing_is_sent_again(
    failure: Failure,
    pooled: bool,
    request_: Request,
    consumer: ScriptedConsumer,
    hops: list[Hop],
) -> None:
    await meets(failure, request_, hops, consumer, pooled=pooled)


@pytest.mark.row(31)
@with_and_without_body
@both_kinds
@each(BROKEN_BODIES)
async def test_a_complete_head_with_success_is_delivered_whatever_becomes_of_the_body(
    failure: Failure,
    pooled: bool,
    request_: Request,
    consumer: ScriptedConsumer,
    hops: list[Hop],
) -> None:
    await meets(failure, request_, hops, consumer, pooled=pooled)


@pytest.mark.row(32)
@with_and_without_body
@both_kinds
@each(UNREADABLE)
async def test_a_reply_that_cannot_be_read_is_ambiguous(
    failure: Failure,
    pooled: bool,
    request_: Request,
    consumer: ScriptedConsumer,
    hops: list[Hop],
) -> None:
    await meets(failure, request_, hops, consumer, pooled=pooled)


@with_and_without_body
@both_kinds
@each(OTHERS)
async def test_a_consumer_that_is_slow_or_odd_gets_the_outcome_it_deserves(
    failure: Failure,
    pooled: bool,
    request_: Request,
    consumer: ScriptedConsumer,
    hops: list[Hop],
) -> None:
    await meets(failure, request_, hops, consumer, pooled=pooled)
