"""Slots: how many forwards at a time, and what becomes of those who wait or give up."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.outcome import OURS, Unreached
from gateway.upstream.cause import Cause
from gateway.upstream.hop import Hop
from gateway.upstream.slots import Slots
from tests.rig.deadline import eventually
from tests.upstream.requests import (
    BODY,
    LONG,
    NO_BODY,
    OK,
    Gate,
    Request,
    answers_ok,
    hop_to,
    is_ok,
    never_answers,
    warmed,
)
from tests.upstream.scripted import Peer, ScriptedConsumer

SOON = 0.15
"""A time-out that a test waits for."""

both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


def test_what_is_ours_and_not_the_consumers_has_the_words_that_the_hop_uses() -> None:
    assert {Cause.NO_SLOT, Cause.LEASE_OVER, Cause.SHUTTING_DOWN} == OURS


@pytest.mark.row(22)
async def test_who_finds_no_slot_in_time_is_unreached_and_nothing_left(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1, slot_timeout=SOON)
    hops.append(hop)
    gate = Gate()
    consumer.plays(gate)
    first = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests, within=LONG)

    assert await NO_BODY.over(hop) == Unreached("no_slot", timed_out=True)
    assert repr(hop) == f"<Hop 127.0.0.1:{consumer.port} in_use=1 idle=0>"

    gate.opened.set()
    assert is_ok(await first)
    assert consumer.requests == [BODY.wire]
    assert (hop.in_use, hop.idle) == (0, 1)


async def test_slots_are_given_in_the_order_of_asking_and_never_more_than_there_are(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=2)
    hops.append(hop)
    at_once = 0

    async def counts(peer: Peer) -> None:
        nonlocal at_once
        await peer.read_request()
        at_once = max(at_once, hop.in_use)
        await peer.write(OK)

    consumer.plays(*[counts] * 10)
    requests = [Request(b"", target=f"/{n}") for n in range(10)]
    outcomes = await asyncio.gather(*[request.over(hop) for request in requests])

    assert all(is_ok(outcome) for outcome in outcomes)
    assert at_once == 2
    seen = [int(bytes(raw).split()[1][1:]) for raw in consumer.requests]
    assert all(abs(place - number) <= 1 for place, number in enumerate(seen))


async def test_who_stops_waiting_for_a_slot_is_passed_over(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    gate = Gate()
    consumer.plays(gate, answers_ok)
    first = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests, within=LONG)
    leaves, stays = (asyncio.create_task(NO_BODY.over(hop)) for _ in range(2))
    await asyncio.sleep(0)

    leaves.cancel()
    gate.opened.set()
    assert is_ok(await first)
    assert is_ok(await stays)
    assert consumer.requests == [BODY.wire, NO_BODY.wire]
    assert hop.in_use == 0


async def test_a_slot_given_to_somebody_who_is_cancelled_in_that_moment_is_not_lost() -> None:
    slots = Slots(1)
    assert slots.take()
    waits = asyncio.create_task(slots.wait(LONG))
    await asyncio.sleep(0)

    slots.give_back()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert slots.in_use == 0
    assert slots.take()
    assert not await slots.wait(0)


@both_kinds
async def test_a_cancelled_forward_frees_its_slot_and_drops_its_connection(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    consumer.plays(never_answers, answers_ok)
    send = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests[-1:] == [BODY.wire], within=LONG)

    send.cancel()
    with pytest.raises(asyncio.CancelledError):
        await send
    assert (hop.in_use, hop.idle) == (0, 0)
    assert is_ok(await BODY.over(hop))
