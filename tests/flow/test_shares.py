"""What entries under way leave to others: memory, and slots of their consumer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.inbox import EntryState
from gateway.core.route import Mode
from gateway.flow.bodies import Bodies
from tests import routes
from tests.flow.consumer import Gate, says
from tests.flow.told import STORED
from tests.flow.world import MakeWorld, World, delivery

EVENTS = ("evt_1", "evt_2", "evt_3", "evt_4")
ONE = len(delivery("evt_1").body)


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """Four slots, and memory for two bodies."""
    world = make_world(mode=Mode.INBOX, upstream=replace(routes.UPSTREAM, concurrency=4))
    world.bodies.take(2**20 - 2 * ONE)
    return world


def under_way(world: World) -> int:
    return sum(world.entry(event_id).state is EntryState.LEASED for event_id in EVENTS)


async def test_what_is_fresh_waits_its_turn_while_there_is_no_memory_for_its_body(
    world: World,
) -> None:
    gate = Gate(says(200))
    world.consumer.answers(*(gate for _ in EVENTS))
    for event_id in EVENTS:
        assert await world.deliver(event_id) == STORED
    assert (under_way(world), world.deliverer.busy) == (2, 2)
    gate.open()
    await world.settled()
    assert len(world.consumer.received) == 4
    assert world.bodies.taken == 2**20 - 2 * ONE


async def test_a_backlog_is_leased_as_bodies_leave_the_memory(world: World) -> None:
    gate = Gate(says(200))
    world.consumer.answers(*(gate for _ in EVENTS))
    world.owes(*EVENTS)
    world.bodies.take(2 * ONE)  # as another route does
    world.deliverer.wake()
    await gate.reached.wait()
    assert (under_way(world), world.deliverer.busy) == (1, 1)  # so much is always there
    world.bodies.give_back(2 * ONE)
    gate.open()
    await world.settled()
    assert len(world.consumer.received) == 4


async def test_a_forward_that_became_an_entry_counts_until_it_ends(make_world: MakeWorld) -> None:
    world, gate = make_world(acknowledge_after=0.01), Gate(says(200))
    world.consumer.answers(gate)
    assert await world.deliver() == STORED
    assert world.bodies.taken == ONE
    gate.open()
    await world.settled()
    assert world.bodies.taken == 0


def test_a_body_fits_while_the_sum_stays_within_the_bound() -> None:
    bodies = Bodies(10)
    bodies.take(7)
    assert (bodies.has_room(3), bodies.has_room(4)) == (True, False)
    bodies.take(3)
    assert not bodies.has_room()


@pytest.mark.parametrize(("mode", "most"), [(Mode.INBOX, 4), (Mode.FORWARD, 2), (Mode.OBSERVE, 2)])
async def test_a_backlog_leaves_slots_to_deliveries_that_wait_for_the_same_consumer(
    make_world: MakeWorld, mode: Mode, most: int
) -> None:
    world = make_world(mode=mode, upstream=replace(routes.UPSTREAM, concurrency=4))
    gate = Gate(says(200))
    world.consumer.answers(*(gate for _ in EVENTS))
    world.owes(*EVENTS)
    world.deliverer.wake()
    await gate.reached.wait()
    assert (under_way(world), world.deliverer.busy) == (most, most)
    gate.open()
    await world.settled()
    assert len(world.consumer.received) == 4
