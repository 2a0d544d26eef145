"""Inbox mode beside forwards and an absent store: 200 only for what is known to be stored."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Acknowledged, Busy, Duplicate, Reason
from gateway.core.claim import State
from gateway.core.inbox import EntryState
from gateway.core.outcome import Ambiguous, Outcome
from gateway.core.retention import Shape
from gateway.core.route import Mode, OnStoreDown
from tests.flow.consumer import says
from tests.flow.shop import Failure
from tests.flow.told import SEEN, STORED, refusal
from tests.flow.world import LEASE, MakeWorld, World, dies


async def test_nothing_is_acknowledged_while_the_store_is_away(inbox: World) -> None:
    inbox.shop.away = True
    assert refusal(await inbox.deliver()) is Reason.STORE_AWAY
    assert inbox.deliverer.busy == 0
    inbox.shop.away = False
    assert await inbox.deliver() == STORED
    await inbox.settled()
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (1, False)


async def test_what_is_not_known_to_be_stored_is_not_acknowledged_and_the_retry_finds_it(
    inbox: World,
) -> None:
    inbox.shop.replies_lost = 1
    assert refusal(await inbox.deliver()) is Reason.STORE_AWAY
    assert inbox.consumer.received == []
    assert await inbox.deliver() == SEEN


async def test_what_was_stored_without_our_knowing_is_sent_at_once_and_unmarked(
    inbox: World,
) -> None:
    inbox.shop.replies_lost = 1
    await inbox.deliver()
    await inbox.settled()
    await inbox.work()
    (sent,) = inbox.consumer.received
    assert (sent.attempt, sent.marked) == (1, False)


async def test_what_was_not_stored_after_all_is_stored_by_the_retry(inbox: World) -> None:
    inbox.shop.requests_lost = 1
    assert refusal(await inbox.deliver()) is Reason.STORE_AWAY
    assert await inbox.deliver() == STORED
    assert inbox.deliverer.busy == 1


async def test_a_route_that_bypasses_an_absent_store_forwards_marked(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, on_store_down=OnStoreDown.FORWARD)
    world.shop.replies_lost = 1
    await world.deliver()
    assert world.consumer.last.marked
    await world.settled()
    assert (world.claim().state, world.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    await world.work()
    assert len(world.consumer.received) == 1


async def test_a_full_inbox_does_not_take_over_what_a_forward_left(
    make_world: MakeWorld, inbox: World
) -> None:
    forward = make_world(shop=inbox.shop)
    forward.consumer.answers(says(401))
    await forward.deliver()
    inbox.room.full = True
    assert refusal(await inbox.deliver()) is Reason.INBOX_FULL
    assert inbox.claim().state is State.RELEASED


async def test_an_event_that_a_forward_is_on_is_waited_for_and_then_known(
    make_world: MakeWorld, inbox: World
) -> None:
    gate, first = await make_world(shop=inbox.shop).forwarding(says(200))
    second = inbox.delivering()
    await asyncio.sleep(0.05)
    assert not second.done()
    gate.open()
    await first
    assert await second == SEEN
    assert inbox.counted["duplicate", None, Shape.CONCURRENT] == 1
    assert inbox.consumer.received == []


async def test_an_event_that_a_forward_stays_on_is_never_acknowledged(
    make_world: MakeWorld, inbox: World
) -> None:
    gate, first = await make_world(shop=inbox.shop).forwarding(says(200))
    assert isinstance(await inbox.deliver(), Busy)
    assert inbox.deliverer.busy == 0
    gate.open()
    await first


@pytest.mark.parametrize(
    ("failure", "marked"), [(says(401), False), (says(500), True), (Ambiguous("reset"), True)]
)
async def test_what_a_forward_released_is_stored_with_its_doubt_and_sent_as_the_next_attempt(
    make_world: MakeWorld, inbox: World, failure: Outcome, marked: bool
) -> None:
    forward = make_world(shop=inbox.shop)
    forward.consumer.answers(failure)
    await forward.deliver()
    assert await inbox.deliver() == STORED
    await inbox.settled()
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (2, marked)
    assert (inbox.claim().state, inbox.entry().attempt) == (State.COMPLETED, 2)


async def test_what_a_dead_forward_left_is_taken_over_and_sent_marked(inbox: World) -> None:
    await dies(inbox)
    inbox.wait(LEASE + 1)
    assert await inbox.deliver() == STORED
    await inbox.settled()
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (2, True)
    assert inbox.counted["takeover"] == 1


@pytest.mark.parametrize("how", Failure)
async def test_a_won_claim_that_may_not_be_stored_is_given_back(
    make_world: MakeWorld, inbox: World, how: Failure
) -> None:
    forward = make_world(shop=inbox.shop)
    forward.consumer.answers(says(401))
    await forward.deliver()
    inbox.shop.storing_fails = how
    assert refusal(await inbox.deliver()) is Reason.STORE_AWAY
    assert inbox.deliverer.busy == 0
    await inbox.settled()
    inbox.shop.storing_fails = None
    assert isinstance(await inbox.deliver(), Acknowledged | Duplicate)
    await inbox.work()
    (sent,) = inbox.consumer.received
    assert not sent.marked
    assert inbox.claim().state is State.COMPLETED
