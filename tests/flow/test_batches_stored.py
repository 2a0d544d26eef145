"""Batches that are stored: in inbox mode, for a slow consumer, and for a person."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Acknowledged, Busy, Reason, Rejected, Verdict
from gateway.core.claim import Ending, State
from gateway.core.inbox import EntryState
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.route import Mode, OnStoreDown
from tests.flow.batched import (
    FILTER,
    WHOLE,
    batch,
    bring,
    bringing,
    claim,
    end,
    entries,
    hold,
    sent,
    states,
)
from tests.flow.consumer import Gate, says
from tests.flow.shop import Failure
from tests.flow.told import SEEN, STORED
from tests.flow.world import LEASE, MakeWorld, World, forwarded
from tests.rig.deadline import eventually

OWED, COMPLETED, RELEASED = State.STORED, State.COMPLETED, State.RELEASED


@pytest.fixture
async def inbox(make_world: MakeWorld) -> World:
    return make_world(batch=FILTER, mode=Mode.INBOX)


def kinds(world: World) -> list[EntryState]:
    return [entry.state for entry in entries(world)]


async def test_a_new_batch_is_stored_acknowledged_and_delivered_as_it_came(inbox: World) -> None:
    gate = Gate(says(200))
    inbox.consumer.answers(gate)
    assert await bring(inbox, "a", "b") == STORED
    await gate.reached.wait()
    assert states(inbox, "a", "b") == [OWED] * 2
    assert kinds(inbox) == [EntryState.LEASED]
    gate.open()
    await inbox.settled()
    assert inbox.consumer.last.body == batch("a", "b").body
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (1, False)
    assert states(inbox, "a", "b") == [COMPLETED] * 2
    assert kinds(inbox) == [EntryState.DELIVERED]
    assert inbox.counted["delivery", Verdict.FIRST] == 1
    assert inbox.counted["items", Verdict.FIRST] == 2
    assert inbox.counted["event", None] == 2


async def test_of_a_mixed_batch_only_what_is_new_is_stored(inbox: World) -> None:
    inbox.consumer.answers(Unreached("refused"))
    await bring(inbox, "a", "b")
    assert await bring(inbox, "b", "a") == SEEN
    assert await bring(inbox, "a", "c", "c", {"n": 1}) == STORED
    await inbox.settled()
    inbox.consumer.received.clear()
    inbox.consumer.answers(says(200))
    inbox.pass_by(60)
    await inbox.work()
    assert sorted(sent(inbox), key=str) == [["a", "b"], ["c", None]]
    assert states(inbox, "a", "b", "c") == [COMPLETED] * 3
    assert [inbox.counted["items", v] for v in (Verdict.FIRST, Verdict.DUPLICATE)] == [3, 4]


async def test_or_it_is_stored_whole_and_every_forward_of_it_is_marked(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=WHOLE, mode=Mode.INBOX)
    await bring(world, "a")
    await world.settled()
    world.consumer.answers(Unreached("refused"), says(200))
    assert await bring(world, "a", "b") == STORED
    await world.settled()
    world.pass_by(60)
    await world.work()
    assert sent(world) == [["a"], ["a", "b"], ["a", "b"]]
    assert [request.marked for request in world.consumer.received] == [False, True, True]
    assert world.counted["possible_double"] == 1


async def test_a_batch_without_a_free_slot_is_delivered_by_whoever_is_next(
    make_world: MakeWorld,
) -> None:
    first = make_world(batch=FILTER, mode=Mode.INBOX)
    first.deliverer.stop()
    items = [{"id": "a", "type": "open"}, {"id": "b", "type": "click"}]
    assert await bring(first, *items) == STORED
    assert kinds(first) == [EntryState.PENDING]
    second = make_world(batch=FILTER, mode=Mode.INBOX, shop=first.shop)
    await second.work()
    assert sent(second) == [["a", "b"]]
    assert states(first, "a", "b") == [COMPLETED] * 2
    assert [second.counted["event", kind] for kind in ("open", "click")] == [1, 1]


async def test_an_entry_of_a_batch_outlives_its_routes_recipe(make_world: MakeWorld) -> None:
    first = make_world(batch=FILTER, mode=Mode.INBOX)
    first.deliverer.stop()
    await bring(first, {"id": "a", "type": "open"}, "b")
    second = make_world(batch=None, mode=Mode.INBOX, shop=first.shop)
    await second.work()
    assert sent(second) == [["a", "b"]]
    assert states(first, "a", "b") == [COMPLETED] * 2
    assert second.counted["event", None] == 2


@pytest.mark.parametrize("outcome", [says(500), Ambiguous("reset")])
async def test_an_attempt_that_may_have_had_its_effect_marks_the_next(
    inbox: World, outcome: Outcome
) -> None:
    inbox.consumer.answers(outcome, says(200))
    await bring(inbox, "a", "b")
    await inbox.settled()
    assert kinds(inbox) == [EntryState.PENDING]
    inbox.pass_by(60)
    await inbox.work()
    assert [request.marked for request in inbox.consumer.received] == [False, True]
    assert states(inbox, "a", "b") == [COMPLETED] * 2


async def test_a_worker_that_dies_leaves_a_lease_for_the_whole_batch(
    make_world: MakeWorld,
) -> None:
    first = make_world(batch=FILTER, mode=Mode.INBOX)
    first.consumer.answers(Gate(says(200)))
    await bring(first, "a", "b")
    await asyncio.sleep(0.01)
    second = make_world(batch=FILTER, mode=Mode.INBOX, shop=first.shop)
    second.pass_by(LEASE + 1)
    await second.work()
    assert second.counted["takeover"] == 1
    assert sent(second) == [["a", "b"]]
    assert second.consumer.last.marked
    assert states(first, "a", "b") == [COMPLETED] * 2


async def test_a_delivery_that_meets_dead_items_revives_them_and_is_a_duplicate(
    inbox: World,
) -> None:
    inbox.consumer.answers(says(500))
    await bring(inbox, "a", "b")
    await inbox.settled()
    for _ in range(99):
        inbox.pass_by(86400)
        await inbox.work()
    assert kinds(inbox) == [EntryState.DEAD]
    inbox.consumer.answers(says(200))
    inbox.consumer.received.clear()
    assert isinstance(await bring(inbox, "b", "c"), Acknowledged)
    await inbox.settled()
    assert sorted(sent(inbox)) == [["a", "b"], ["c"]]
    assert states(inbox, "a", "b", "c") == [COMPLETED] * 3


async def test_what_was_won_is_given_back_where_the_dead_cannot_be_revived(
    inbox: World,
) -> None:
    inbox.consumer.answers(says(500))
    await bring(inbox, "a")
    await inbox.settled()
    for _ in range(99):
        inbox.pass_by(86400)
        await inbox.work()
    inbox.shop.revivals_away = True
    refused = await bring(inbox, "a", "b")
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.STORE_AWAY
    await eventually(lambda: states(inbox, "a", "b") == [OWED, RELEASED], within=4)


async def test_a_batch_waits_for_a_busy_item_before_it_is_stored(inbox: World) -> None:
    token = await hold(inbox, "b")
    assert isinstance(await bring(inbox, "a", "b"), Busy)
    assert entries(inbox) == []
    waiting = bringing(inbox, "a", "b")
    await asyncio.sleep(0.05)
    await end(inbox, token, Ending.COMPLETE, "b")
    assert await waiting == STORED
    await inbox.settled()
    assert sent(inbox) == [["a"]]


async def test_a_full_inbox_takes_no_batch(inbox: World) -> None:
    inbox.room.full = True
    refused = await bring(inbox, "a", "b")
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.INBOX_FULL
    assert states(inbox, "a", "b") == [None, None]


@pytest.mark.parametrize("failure", list(Failure))
async def test_a_batch_that_may_be_stored_is_handed_back_and_comes_again(
    inbox: World, failure: Failure
) -> None:
    await bring(inbox, "seen")
    await inbox.settled()
    inbox.shop.storing_fails = failure
    refused = await bring(inbox, "seen", "a", "b")
    assert isinstance(refused, Rejected)
    inbox.shop.storing_fails = None
    for _ in range(20):
        await asyncio.sleep(0)
    assert await bring(inbox, "a", "b") in (STORED, SEEN)
    inbox.pass_by(60)
    await inbox.work()
    assert sent(inbox) == [["seen"], ["a", "b"]]
    assert not inbox.consumer.last.marked
    assert states(inbox, "a", "b") == [COMPLETED] * 2


async def test_a_batch_that_cannot_be_stored_is_forwarded_marked_where_the_route_wants_it(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.INBOX, on_store_down=OnStoreDown.FORWARD)
    world.shop.storing_fails = Failure.REPLY_LOST
    assert forwarded(await bring(world, "a", "b")).verdict is Verdict.BYPASSED
    await world.settled()
    assert world.consumer.last.marked
    assert states(world, "a", "b") == [COMPLETED] * 2
    assert kinds(world) == [EntryState.DELIVERED]


async def test_only_what_has_no_id_passes_through_an_inbox(inbox: World) -> None:
    await bring(inbox, "a", {"n": 1})
    await inbox.settled()
    assert forwarded(await bring(inbox, "a", {"n": 2})).verdict is Verdict.UNKEYED
    assert sent(inbox) == [["a", None], [None]]


async def test_a_slow_consumers_batch_is_stored_while_it_is_forwarded(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, acknowledge_after=0.01)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    assert await bring(world, "a", "b") == STORED
    assert states(world, "a", "b") == [OWED] * 2
    assert await bring(world, "b", "a") == SEEN
    gate.open()
    await world.settled()
    assert states(world, "a", "b") == [COMPLETED] * 2
    assert kinds(world) == [EntryState.DELIVERED]
    assert sent(world) == [["a", "b"]]


async def test_a_late_failure_leaves_the_batch_to_the_inbox(make_world: MakeWorld) -> None:
    world = make_world(batch=WHOLE, acknowledge_after=0.01)
    await bring(world, "seen")
    gate = Gate(Unreached("refused"))
    world.consumer.answers(gate, says(200))
    assert await bring(world, "seen", "a") == STORED
    gate.open()
    await world.settled()
    world.pass_by(60)
    await world.work()
    assert sent(world) == [["seen"], ["seen", "a"], ["seen", "a"]]
    assert [request.marked for request in world.consumer.received] == [False, True, True]
    assert states(world, "a") == [COMPLETED]


async def test_a_stored_item_is_no_longer_won_by_other_batches(inbox: World) -> None:
    inbox.consumer.answers(Unreached("refused"))
    await bring(inbox, "a", "b")
    await bring(inbox, "b", "c")
    await inbox.settled()
    assert sent(inbox) == [["a", "b"], ["c"]]
    assert not claim(inbox, "b").doubtful
