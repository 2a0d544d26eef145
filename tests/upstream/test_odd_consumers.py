"""Consumers that are legal and odd, and callers that give up at every moment."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Refused, Unreached
from gateway.upstream.cause import Cause
from gateway.upstream.hop import Hop
from gateway.upstream.wire import HEAD_LIMIT
from tests.upstream.requests import (
    BIG,
    BODY,
    NO_BODY,
    OK,
    answers_ok,
    hop_to,
    is_ok,
    warmed,
)
from tests.upstream.scripted import Act, Peer, ScriptedConsumer

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize("pooled", [False, True])
async def test_interim_replies_are_skipped_however_many_and_their_bytes_are_bounded(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)

    async def storms(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(CONTINUE * 1000 + b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK)

    async def never_stops(peer: Peer) -> None:
        await peer.read_request()
        try:
            while True:
                await peer.write(CONTINUE * 100)
        except ConnectionError:
            peer.close()

    consumer.plays(storms, never_stops)
    stormed = await BODY.over(hop)
    assert is_ok(stormed)
    assert isinstance(stormed, Delivered)
    assert b"Link" not in dict(stormed.reply.headers)
    assert stormed.reply.reason == b"OK"
    assert await BODY.over(hop) == Ambiguous(Cause.HEAD_TOO_LARGE)
    assert hop.in_use == 0


@pytest.mark.parametrize(
    ("head", "wrap"),
    [
        (b"Content-Length: 3000\r\n", lambda body: body),
        (b"Transfer-Encoding: chunked\r\n", lambda body: b"bb8\r\n" + body + b"\r\n0\r\n\r\n"),
        (
            b"Transfer-Encoding: chunked\r\n",
            lambda body: b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n",
        ),
        (b"", lambda body: body),
    ],
    ids=["length", "chunked", "crumbs", "until close"],
)
@pytest.mark.parametrize("status", [200, 422, 500])
async def test_a_reply_over_the_limit_keeps_its_status_in_every_framing(
    status: int,
    head: bytes,
    wrap: Callable[[bytes], bytes],
    consumer: ScriptedConsumer,
    hops: list[Hop],
) -> None:
    hop = hop_to(consumer.port, max_reply=2999)
    hops.append(hop)

    async def says_much(peer: Peer) -> None:
        await peer.read_request()
        start = b"HTTP/1.1 %d X\r\n" % status
        try:
            await peer.write(start + head + b"\r\n" + wrap(b"x" * 3000))
        finally:
            peer.close()

    consumer.plays(says_much)
    outcome = await BODY.over(hop)
    if status == 200:
        assert isinstance(outcome, Delivered)
        assert not outcome.reply.complete
        assert outcome.reply.body == b""
    else:
        assert outcome == Ambiguous("reply_broken_off")
    assert hop.idle == 0
    assert hop.in_use == 0


@pytest.mark.parametrize("before", [True, False])
async def test_a_consumer_that_shuts_its_side_after_its_reply_is_delivered_and_not_used_again(
    before: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)

    async def shuts(peer: Peer) -> None:
        await (peer.read_head() if before else peer.read_request())
        await peer.write(OK)
        peer._connection.shutdown(socket.SHUT_WR)
        await peer.until_closed()
        peer.close()

    consumer.plays(shuts, answers_ok)
    assert is_ok(await BODY.over(hop))
    assert is_ok(await BODY.over(hop))
    assert consumer.served_by == [1, 2]


async def test_a_reply_while_a_large_body_is_still_going_out_is_taken_at_once(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)

    async def has_enough(peer: Peer) -> None:
        await peer.read_head()
        await peer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch")
        await peer.until_closed()
        peer.close()

    consumer.plays(has_enough, answers_ok)
    outcome = await BIG.over(hop)
    assert isinstance(outcome, Refused)
    assert not outcome.doubtful
    assert outcome.reply.body == b"much"
    assert is_ok(await NO_BODY.over(hop))


async def test_a_head_of_exactly_the_limit_is_read(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    start, end = b"HTTP/1.1 200 OK\r\nX: ", b"\r\nContent-Length: 2\r\n\r\n"

    def with_head_of(size: int) -> Act:
        async def answers(peer: Peer) -> None:
            await peer.read_request()
            await peer.write(start + b"v" * (size - len(start) - len(end)) + end + b"ok")

        return answers

    consumer.plays(with_head_of(HEAD_LIMIT), with_head_of(HEAD_LIMIT + 1))
    assert is_ok(await BODY.over(hop))
    assert await BODY.over(hop) == Ambiguous(Cause.HEAD_TOO_LARGE)


@pytest.mark.parametrize("limit", ["first_byte_timeout", "timeout"])
@pytest.mark.parametrize("pooled", [False, True])
async def test_a_reply_that_came_in_time_counts_though_our_loop_was_late_to_read_it(
    pooled: bool, limit: str, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    """A process that was stopped, or a body that took long to parse."""
    soon: dict[str, Any] = {limit: 0.5}
    hop = hop_to(consumer.port, **soon)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)

    async def answers_and_the_loop_stalls(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(OK)
        time.sleep(0.8)  # noqa: ASYNC251  # nothing else stalls a loop

    consumer.plays(answers_and_the_loop_stalls)
    assert is_ok(await BODY.over(hop))
    assert hop.idle == 1


async def test_a_consumer_that_drips_does_not_outlast_the_timeout_by_it(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, timeout=0.3)
    hops.append(hop)

    async def drips(peer: Peer) -> None:
        await peer.read_request()
        await peer.drip(b"HTTP/1.1 200 OK\r\nX: " + b"v" * 5000, every=0.001)
        peer.close()

    consumer.plays(drips)
    began = time.monotonic()
    assert await BODY.over(hop) == Ambiguous(Cause.TIMEOUT, timed_out=True)
    assert time.monotonic() - began < 2


async def test_a_drain_deadline_in_the_last_moment_before_the_first_byte_sends_nothing(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    aborts = []

    def at(step: str) -> None:
        if step == "before_send":
            aborts.append(hop.abort())
            aborts[0].send(None)  # as far as it goes without a turn of the loop

    hop = hop_to(consumer.port, at=at)
    hops.append(hop)
    assert await BODY.over(hop) == Unreached(Cause.SHUTTING_DOWN)
    aborts[0].close()
    assert hop.in_use == 0
    assert consumer.requests == []


@pytest.mark.parametrize("status", [204, 304])
async def test_a_coding_on_a_reply_that_has_no_body_makes_it_no_less_complete(
    status: int, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)

    async def answers(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 %d X\r\nTransfer-Encoding: gzip\r\n\r\n" % status)
        await peer.until_closed()
        peer.close()

    consumer.plays(answers)
    outcome = await BODY.over(hop)
    assert isinstance(outcome, Delivered | Refused)
    assert outcome.reply.complete


async def test_a_reply_that_has_begun_has_until_the_timeout(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, first_byte_timeout=1.0)
    hops.append(hop)

    async def begins_and_thinks(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(OK[:1])
        await asyncio.sleep(1.5)
        await peer.write(OK[1:])

    consumer.plays(begins_and_thinks)
    assert is_ok(await BODY.over(hop))


async def test_a_consumer_that_reads_for_a_while_and_stops_runs_into_the_write_timeout_too(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, write_timeout=1.0)
    hops.append(hop)
    gave_up = asyncio.Event()

    async def tires(peer: Peer) -> None:
        for _ in range(6):
            for _ in range(8):
                await peer.read(2**17)
            await asyncio.sleep(0.1)
        await gave_up.wait()
        await peer.until_closed()

    consumer.plays(tires)
    assert await BIG.over(hop) == Ambiguous(Cause.WRITE_TIMEOUT, timed_out=True)
    gave_up.set()
    assert len(consumer.requests[0]) > 2 * 2**20
