"""Batches that are only observed, and those that wait for a person."""

from __future__ import annotations

import pytest

from gateway.core.answer import Duplicate, Verdict
from gateway.core.batch import key_of
from gateway.core.claim import State
from gateway.core.event import EventKey, Part
from gateway.core.inbox import EntryState
from gateway.core.route import Mode, OnDoubt, OnStale
from gateway.flow.observe import OBSERVE_WITHIN
from tests.flow.batched import (
    FILTER,
    WHOLE,
    bring,
    bringing,
    claim,
    entries,
    hold,
    key,
    sent,
    states,
)
from tests.flow.consumer import Gate, says
from tests.flow.told import STORED
from tests.flow.world import LEASE, MakeWorld, World, answered
from tests.rig.deadline import eventually

COMPLETED, RELEASED = State.COMPLETED, State.RELEASED


def kinds(world: World) -> list[EntryState]:
    return [entry.state for entry in entries(world)]


def held(world: World) -> EventKey:
    rows = world.shop.claims.entries.values()
    (offer,) = (row.offer for row in rows if row.entry.state is EntryState.HELD)
    return offer.key


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_one_stale_item_holds_the_batch_where_the_route_wants_a_look(
    make_world: MakeWorld, mode: Mode
) -> None:
    world = make_world(batch=FILTER, mode=mode, on_stale=OnStale.HOLD)
    answer = await bring(world, {"id": "a", "at": "2020-01-01T00:00:00Z"}, "b")
    assert answer == STORED
    await world.settled()
    assert kinds(world) == [EntryState.HELD]
    assert sent(world) == []
    assert isinstance(await bring(world, "a", "b"), Duplicate)


async def test_a_mixed_batch_that_would_go_whole_waits_for_a_person_where_doubt_does(
    make_world: MakeWorld,
) -> None:
    for mode in (Mode.FORWARD, Mode.INBOX):
        world = make_world(batch=WHOLE, mode=mode, on_doubt=OnDoubt.HOLD)
        await bring(world, "a")
        await world.settled()
        assert await bring(world, "a", "b") == STORED
        await world.settled()
        assert sent(world) == [["a"]]
        world.shop.claims.redrive(held(world))
        await world.work()
        assert sent(world) == [["a"], ["a", "b"]]
        assert world.consumer.last.marked


async def test_a_persons_order_for_an_entry_of_a_batch_is_none_for_the_next_delivery(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, on_doubt=OnDoubt.HOLD)
    world.consumer.answers(says(500), says(200))
    await bring(world, "a", "b")
    batch_key = key_of([Part(key("a"), 0), Part(key("b"), 0)])
    world.shop.claims.orders.add((batch_key.digest, 1))
    assert await bring(world, "a", "b") == STORED
    assert kinds(world) == [EntryState.HELD]


async def test_an_observer_forwards_each_batch_as_it_came_and_claims_its_items(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    for names in (["a", "b"], ["b", "c", "c"], ["a", "b", "c"]):
        answer = answered(await bring(world, *names))
        assert not answer.visible
        await world.settled()
    assert sent(world) == [["a", "b"], ["b", "c", "c"], ["a", "b", "c"]]
    assert not any(request.header("Dedup-Attempt") for request in world.consumer.received)
    assert states(world, "a", "b", "c") == [COMPLETED] * 3
    assert [world.counted["delivery", v] for v in (Verdict.FIRST, Verdict.DUPLICATE)] == [2, 1]
    assert [world.counted["items", v] for v in (Verdict.FIRST, Verdict.DUPLICATE)] == [3, 5]
    assert world.counted["event", None] == 3


async def test_an_observer_has_nothing_to_settle_of_a_batch_that_is_completed(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    await bring(world, "a", "b")
    await world.settled()
    await bring(world, "b", "a")
    assert world.recorder.pending == 0


async def test_an_observer_settles_what_it_won_and_only_success_for_others(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    await hold(world, "held")
    world.consumer.answers(says(500), says(200))
    await bring(world, "a", "held")
    await world.settled()
    assert states(world, "a", "held") == [RELEASED, State.CLAIMED]
    assert claim(world, "a").doubtful
    answer = answered(await bring(world, "held", {"n": 1}))
    await world.settled()
    assert answer.verdict is Verdict.UNKEYED
    assert states(world, "a", "held") == [RELEASED, COMPLETED]
    assert claim(world, "held").state is COMPLETED
    world.shop.away = True
    assert answered(await bring(world, "x")).verdict is Verdict.BYPASSED
    world.shop.away = False
    await world.settled()
    assert states(world, "x") == [COMPLETED]


async def test_an_observer_forwards_before_a_slow_store_has_said_what_is_new(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    world.shop.slowness = OBSERVE_WITHIN * 2
    gate = Gate(says(200))
    world.consumer.answers(gate)
    bringing_it = bringing(world, "a", "b")
    await gate.reached.wait()
    assert states(world, "a", "b") == [None, None]
    await eventually(lambda: states(world, "a", "b") == [State.CLAIMED] * 2, within=4)
    gate.open()
    assert answered(await bringing_it).verdict is Verdict.FIRST
    await world.settled()
    assert states(world, "a", "b") == [COMPLETED] * 2


@pytest.mark.parametrize(("status", "state"), [(200, COMPLETED), (400, None)])
async def test_an_observers_reply_waits_for_no_slow_store(
    make_world: MakeWorld, status: int, state: State | None
) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    world.shop.slowness = 3600.0
    world.consumer.answers(says(status))
    answer = answered(await bring(world, "a", "b"))
    assert (answer.reply.status, answer.verdict) == (status, Verdict.BYPASSED)
    world.pass_by(LEASE)
    await world.settled()
    assert states(world, "a", "b") == [state] * 2
