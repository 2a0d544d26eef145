"""What is known before the store knows it: postponed settlements, lost claims, bypassed events."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.answer import Answered, Busy, Duplicate, Verdict
from gateway.core.claim import Claim, State
from gateway.core.outcome import Ambiguous, Delivered, Outcome
from gateway.core.retention import Shape
from gateway.core.route import OnStoreDown, ReplayReply, StandardReply
from gateway.flow import record
from tests.flow.consumer import Gate, reply, says
from tests.flow.world import PROMISE, MakeWorld, World, answered, forwarded


async def test_a_settlement_that_nobody_has_room_for_does_not_block_its_event_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_PENDING", 0)
    world.consumer.answers(says(401), says(200))
    world.shop.settle_away = True
    await world.deliver()
    world.shop.settle_away = False
    assert len(world.flights) == 0
    world.wait(1000)  # the lease is over
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST


async def test_a_success_that_nobody_has_room_for_reaches_its_waiters(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_PENDING", 0)
    gate, first = await world.forwarding(says(200, b"shipped"))
    second = world.delivering()
    await asyncio.sleep(0)
    world.shop.settle_away = True
    gate.open()
    await first
    assert await second == Answered(reply(200, b"shipped"), Verdict.DUPLICATE)
    assert len(world.consumer.received) == 1


async def test_no_flight_is_left_once_everything_is_recorded(world: World) -> None:
    world.shop.settle_away = True
    for n in range(5):
        await world.deliver(f"evt_{n}")
    assert len(world.flights) == 5
    world.shop.settle_away = False
    await world.settled()
    await asyncio.sleep(0)
    assert len(world.flights) == 0


async def test_a_postponed_success_answers_at_once_where_nobody_may_wait(
    make_world: MakeWorld,
) -> None:
    no_time = replace(PROMISE, timeout=timedelta(seconds=1))
    world = make_world(promise=no_time)
    world.shop.settle_away = True
    await world.deliver()
    assert forwarded(await world.deliver()).verdict is Verdict.DUPLICATE


async def test_a_bypassed_success_is_not_forwarded_again_while_the_store_is_away(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    await world.deliver()
    assert await world.deliver() == Duplicate(StandardReply(), None)
    assert len(world.consumer.received) == 1
    assert world.counted["delivery", Verdict.DUPLICATE] == 1


async def test_a_bypassed_success_is_not_sent_again_unmarked_when_the_store_returns(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    await world.deliver()
    world.shop.away, world.shop.settle_away = False, True  # back for claims, not recorded yet
    assert isinstance(await world.deliver(), Duplicate)
    assert len(world.consumer.received) == 1


async def test_a_genuine_copy_is_not_told_what_a_forged_one_was_while_the_store_is_away(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    gate, forged = await world.forwarding(says(401, b"bad signature"), says(200, b"welcome"))
    genuine = world.delivering()
    await asyncio.sleep(0)
    gate.open()
    assert answered(await forged).reply.status == 401
    assert await genuine == Answered(reply(200, b"welcome"), Verdict.BYPASSED)


async def test_a_claim_that_was_made_without_our_knowing_is_held_while_we_bypass(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    other = make_world(shop=world.shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    world.shop.replies_lost = 1
    bypassing = world.delivering()
    await gate.reached.wait()
    await asyncio.sleep(0.05)
    assert isinstance(await other.deliver(), Busy)
    assert other.consumer.received == []
    gate.open()
    assert forwarded(await bypassing).verdict is Verdict.BYPASSED
    await world.settled()
    assert isinstance(await other.deliver(), Duplicate)


@pytest.mark.parametrize(("outcome", "marked"), [(Ambiguous("reset"), True), (says(401), False)])
async def test_what_became_of_a_bypassed_forward_is_settled_where_its_claim_was_made(
    make_world: MakeWorld, outcome: Outcome, marked: bool
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.consumer.answers(outcome, says(200))
    world.shop.replies_lost = 1
    await world.deliver()
    await world.settled()
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, marked)


async def test_a_cancelled_holders_postponed_release_leaves_the_next_ones_flight_alone(
    world: World,
) -> None:
    gate = Gate(says(200))

    async def stuck() -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    world.consumer.answers(stuck, gate)
    first = world.delivering()
    while not world.consumer.received:
        await asyncio.sleep(0)
    world.shop.settle_away = True
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    world.shop.claims.rows[World.key("evt_1").digest] = released(world)
    second = world.delivering()
    await gate.reached.wait()
    mine = world.flights.find(World.key("evt_1").digest)
    world.shop.settle_away = False
    await world.settled()
    await asyncio.sleep(0)
    assert world.flights.find(World.key("evt_1").digest) is mine
    gate.open()
    await second


def released(world: World) -> Claim:
    """The row as somebody else's release leaves it."""
    row = world.shop.claims.rows[World.key("evt_1").digest]
    return replace(row, state=State.RELEASED, doubtful=True, token=None, lease_until=None)


async def test_a_reply_that_is_no_success_to_a_provider_is_not_replayed(
    make_world: MakeWorld,
) -> None:
    world = make_world(duplicate_reply=ReplayReply())
    world.consumer.answers(Delivered(reply(409, b"known")))
    assert answered(await world.deliver()).reply.status == 409
    assert await world.deliver() == Duplicate(ReplayReply(), None)


@pytest.mark.parametrize("failure", [says(500), Ambiguous("reset"), says(401)])
async def test_a_failure_that_is_not_recorded_yet_is_nobody_elses_answer(
    world: World, failure: Outcome
) -> None:
    world.consumer.answers(failure, says(200))
    world.shop.settle_away = True
    await world.deliver()
    later = world.delivering()
    await asyncio.sleep(0.05)
    assert not later.done()
    world.shop.settle_away = False
    assert forwarded(await later).verdict is Verdict.FIRST


async def test_a_late_success_is_counted_when_it_is_recorded_late_too(world: World) -> None:
    gate, task = await world.forwarding(says(200))
    world.shop.settle_away = True
    del world.shop.claims.rows[World.key("evt_1").digest]  # an operator's TRUNCATE, a failover
    gate.open()
    await task
    world.shop.settle_away = False
    await world.settled()
    assert world.counted["late_success"] == 1


async def test_a_bypassed_success_counts_as_an_event_and_its_duplicates_as_such(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    await world.deliver(type="order.paid")
    await world.deliver(type="order.paid")
    assert world.counted["event", "order.paid"] == 1
    assert world.counted["duplicate", "order.paid", Shape.CONCURRENT] == 1


async def test_the_end_of_the_last_settlement_ends_the_drain(world: World) -> None:
    world.shop.settle_away = True
    await world.deliver()
    world.shop.settle_away = False
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await world.recorder.drain(30) == 0
    assert loop.time() - began < 5
