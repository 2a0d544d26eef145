"""Doubt: what a route does before it sends an event that may have had its effect."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from gateway.core.answer import Reason, Verdict
from gateway.core.claim import State
from gateway.core.inbox import EntryEnding, EntryState
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.route import Mode, OnDoubt, OnStale
from tests.flow.consumer import says
from tests.flow.shop import Failure
from tests.flow.told import SEEN, STORED, refusal
from tests.flow.world import LEASE, MakeWorld, World, dies, forwarded, in_doubt

OLD = 1_700_000_000
"""Epoch seconds of an event older than any retention here."""
DOUBTFUL = [says(500), says(502), Ambiguous("timeout", timed_out=True), Ambiguous("reset")]
CLEAR = [says(401), says(422), Unreached("connect_refused")]


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_retry_sends_again_marked(doubting: MakeWorld, mode: Mode) -> None:
    world = doubting(OnDoubt.RETRY, mode)
    await in_doubt(world)
    await (world.deliver() if mode is Mode.FORWARD else world.work())
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.counted["possible_double"] == 1
    assert world.prober.received == []


@pytest.mark.parametrize("doubt", DOUBTFUL, ids=str)
async def test_hold_stores_and_acknowledges_the_next_delivery_and_sends_nothing(
    doubting: MakeWorld, doubt: Outcome
) -> None:
    world = doubting(OnDoubt.HOLD)
    world.consumer.answers(doubt, says(200))
    await world.deliver()
    assert await world.deliver(amount=2) == STORED
    assert (world.claim().state, world.claim().doubtful) == (State.STORED, True)
    entry = world.entry()
    assert (entry.state, entry.doubtful, entry.attempt) == (EntryState.HELD, True, 1)
    assert await world.deliver() == SEEN
    await world.work()
    assert len(world.consumer.received) == 1
    assert world.counted["concluded", EntryEnding.HOLD] == 1
    assert world.counted["stale"] == 0


@pytest.mark.parametrize("clear", CLEAR, ids=str)
async def test_hold_sends_again_what_had_no_effect(doubting: MakeWorld, clear: Outcome) -> None:
    world = doubting(OnDoubt.HOLD)
    world.consumer.answers(clear, says(200))
    await world.deliver()
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert not world.consumer.last.marked


async def test_a_released_event_is_sent_once_whatever_the_doubt(doubting: MakeWorld) -> None:
    world = doubting(OnDoubt.HOLD)
    await in_doubt(world)
    world.shop.claims.orders.add((world.key("evt_1").digest, 1))
    world.consumer.answers(says(500))
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert await world.deliver() == STORED
    assert len(world.consumer.received) == 2


async def test_a_release_of_another_attempt_orders_nothing(doubting: MakeWorld) -> None:
    world = doubting(OnDoubt.HOLD)
    await in_doubt(world)
    world.shop.claims.orders.add((world.key("evt_1").digest, 2))
    assert await world.deliver() == STORED


async def test_a_store_that_cannot_tell_of_a_release_has_not_told_of_one(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.HOLD)
    await in_doubt(world)
    world.shop.claims.orders.add((world.key("evt_1").digest, 1))
    world.shop.releases_away = True
    assert await world.deliver() == STORED


async def test_hold_holds_what_a_dead_holder_left(doubting: MakeWorld) -> None:
    world = doubting(OnDoubt.HOLD)
    await dies(world)
    world.wait(LEASE + 1)
    assert await world.deliver() == STORED
    assert world.entry().state is EntryState.HELD
    assert world.consumer.received == []


@pytest.mark.parametrize("doubt", DOUBTFUL, ids=str)
async def test_hold_holds_an_entry_after_one_attempt_in_doubt(
    doubting: MakeWorld, doubt: Outcome
) -> None:
    world = doubting(OnDoubt.HOLD, Mode.INBOX)
    world.consumer.answers(doubt, says(200))
    await world.deliver()
    await world.settled()
    world.pass_by(5)
    await world.work()
    entry = world.entry()
    assert (entry.state, entry.doubtful, entry.attempt) == (EntryState.HELD, True, 1)
    assert (len(world.consumer.received), world.room.filled) == (1, 0)
    assert world.counted["concluded", EntryEnding.HOLD] == 1
    assert await world.deliver() == SEEN


@pytest.mark.parametrize("how", Failure)
async def test_what_may_not_be_held_is_not_acknowledged(doubting: MakeWorld, how: Failure) -> None:
    world = doubting(OnDoubt.HOLD)
    await in_doubt(world)
    world.shop.storing_fails = how
    assert refusal(await world.deliver()) is Reason.STORE_AWAY
    world.shop.storing_fails = None
    assert await world.deliver() == (SEEN if how is Failure.REPLY_LOST else STORED)
    assert world.entry().state is EntryState.HELD
    assert len(world.consumer.received) == 1


async def test_those_who_wait_for_what_is_held_are_told_so_too(doubting: MakeWorld) -> None:
    world = doubting(OnDoubt.HOLD)
    await in_doubt(world)
    world.shop.slowness = 0.05
    answers = await asyncio.gather(*(world.deliver() for _ in range(3)))
    assert answers == [STORED, SEEN, SEEN]


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_what_a_person_sends_again_is_sent_once_and_marked(
    doubting: MakeWorld, mode: Mode
) -> None:
    world = doubting(OnDoubt.HOLD, mode)
    await in_doubt(world)
    await (world.deliver() if mode is Mode.FORWARD else world.work())
    world.consumer.answers(Ambiguous("timeout"))
    world.shop.claims.redrive(World.key("evt_1"))
    await world.work()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    world.pass_by(10)
    await world.work()
    assert len(world.consumer.received) == 2
    assert world.entry().state is EntryState.HELD


async def test_what_a_person_sends_again_and_nobody_is_reached_with_is_tried_again(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.HOLD, Mode.INBOX)
    await in_doubt(world)
    await world.work()
    world.consumer.answers(Unreached("connect_refused"), says(200))
    world.shop.claims.redrive(World.key("evt_1"))
    await world.work()
    world.pass_by(10)
    await world.work()
    assert world.entry().state is EntryState.DELIVERED


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_a_stale_event_is_sent_marked(doubting: MakeWorld, mode: Mode) -> None:
    world = doubting(OnDoubt.HOLD, mode, retention=timedelta(days=1))
    await world.deliver(at=OLD)
    await world.settled()
    assert world.consumer.last.marked
    assert world.claim().state is State.COMPLETED
    assert world.counted["stale"] == 1


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_a_stale_event_is_held_where_the_route_says_so(
    doubting: MakeWorld, mode: Mode
) -> None:
    world = doubting(OnDoubt.RETRY, mode, retention=timedelta(days=1), on_stale=OnStale.HOLD)
    assert await world.deliver(at=OLD) == STORED
    await world.settled()
    assert world.consumer.received == []
    assert world.counted["stale"] == 1
    entry = world.entry()
    assert (entry.state, entry.doubtful, entry.attempt) == (EntryState.HELD, True, 0)
    world.shop.claims.redrive(World.key("evt_1"))
    await world.work()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (1, True)


async def test_a_stale_event_that_cannot_be_held_is_not_left_in_doubt(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.RETRY, retention=timedelta(days=1), on_stale=OnStale.HOLD)
    world.shop.storing_fails = Failure.AWAY
    assert refusal(await world.deliver(at=OLD)) is Reason.STORE_AWAY
    assert (world.claim().state, world.claim().doubtful) == (State.RELEASED, False)


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_a_route_that_holds_stale_events_sends_fresh_ones(
    doubting: MakeWorld, mode: Mode
) -> None:
    world = doubting(OnDoubt.RETRY, mode, retention=timedelta(days=1), on_stale=OnStale.HOLD)
    await world.deliver(at=world.shop.claims.now - 3600)
    await world.settled()
    assert (world.consumer.last.marked, world.claim().state) == (False, State.COMPLETED)
