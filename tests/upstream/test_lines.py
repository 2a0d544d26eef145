"""A hop of few slots: who waits, who leaves, and what comes back when forwards end anyhow."""

from __future__ import annotations

import asyncio
import random

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Refused, Unreached
from gateway.upstream.cause import Cause
from gateway.upstream.hop import Hop
from tests.rig.deadline import eventually
from tests.upstream.requests import (
    BODY,
    LONG,
    OK,
    Gate,
    answers_ok,
    hop_to,
    is_ok,
    never_answers,
)
from tests.upstream.scripted import Peer, ScriptedConsumer


@pytest.mark.parametrize("seed", range(4))
async def test_whenever_a_forward_is_cancelled_its_slot_and_its_connection_come_back(
    seed: int, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=2)
    hops.append(hop)
    dice = random.Random(seed)

    async def dawdles(peer: Peer) -> None:
        try:
            await peer.read_request()
            await asyncio.sleep(dice.random() / 200)
            await peer.write(OK[:30])
            await asyncio.sleep(dice.random() / 200)
            await peer.write(OK[30:])
        except ConnectionError:
            peer.close()

    consumer.plays(*[dawdles] * 200)
    tasks = [asyncio.ensure_future(BODY.over(hop)) for _ in range(60)]
    for task in dice.sample(tasks, 45):
        await asyncio.sleep(dice.random() / 300)
        task.cancel()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    left = [t for t in told if not isinstance(t, asyncio.CancelledError)]
    assert left
    assert all(not isinstance(t, BaseException) and is_ok(t) for t in left)
    assert hop.in_use == 0
    assert hop.idle <= 2
    assert is_ok(await BODY.over(hop))
    assert not hop._busy
    await eventually(lambda: len(consumer._open) <= hop.idle + 1, within=LONG)


async def test_one_slot_serves_a_line_through_every_kind_of_end(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1, first_byte_timeout=1.0)
    hops.append(hop)

    async def resets(peer: Peer) -> None:
        await peer.read_head()
        peer.reset()

    async def hangs_up(peer: Peer) -> None:
        await peer.read_request()
        peer.close()

    async def babbles(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"\x16\x03\x01\r\n\r\n")
        peer.close()

    async def refuses(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")

    consumer.plays(resets, answers_ok, hangs_up, refuses, never_answers, babbles, answers_ok)
    told = await asyncio.gather(*(BODY.over(hop) for _ in range(7)))
    kinds = [type(t) for t in told]
    assert kinds == [Ambiguous, Delivered, Ambiguous, Refused, Ambiguous, Ambiguous, Delivered]
    assert hop.in_use == 0


async def test_a_closed_hop_serves_its_line_to_the_end(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    """A reload replaces a hop while forwards wait for its only slot."""
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    gate = Gate()
    consumer.plays(gate, answers_ok, answers_ok)
    calls = [asyncio.ensure_future(BODY.over(hop)) for _ in range(3)]
    await eventually(lambda: consumer.requests, within=LONG)
    await hop.close()
    gate.opened.set()
    assert all(is_ok(t) for t in await asyncio.gather(*calls))
    assert (hop.idle, hop.in_use) == (0, 0)
    assert consumer.connections == 3


async def test_an_aborted_hop_ends_its_line_unsent(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    consumer.plays(never_answers)
    calls = [asyncio.ensure_future(BODY.over(hop)) for _ in range(5)]
    await eventually(lambda: consumer.requests, within=LONG)
    await hop.abort()
    told = await asyncio.gather(*calls)
    assert told == [Ambiguous(Cause.SHUTTING_DOWN), *[Unreached(Cause.SHUTTING_DOWN)] * 4]
    assert len(consumer.requests) == 1
    assert hop.in_use == 0
