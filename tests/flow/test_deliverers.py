"""Delivering what the inbox owes: many entries, their slots, outages, and how it all ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.claim import State
from gateway.core.inbox import EntryEnding, EntryState
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.route import Mode
from gateway.flow import deliverers
from gateway.flow.deliverers import Deliverers
from tests import routes
from tests.flow.consumer import Gate, says
from tests.flow.told import SEEN, STORED
from tests.flow.world import MakeWorld, World
from tests.rig.deadline import eventually


def narrow(concurrency: int) -> dict[str, object]:
    """An inbox route whose consumer takes so many at once."""
    upstream = replace(routes.UPSTREAM, concurrency=concurrency)
    return {"mode": Mode.INBOX, "upstream": upstream}


def all_of(world: World) -> Deliverers:
    found = Deliverers(world.shared)
    found.use([world.deliverer])
    return found


async def minutes(world: World, seconds: int) -> None:
    """Time passes second by second, and each second somebody looks for what is due."""
    looking = all_of(world)
    for _ in range(seconds):
        world.pass_by(1)
        await looking.look_once()
        await world.settled()


def most_attempts(world: World) -> int:
    return max(row.entry.attempt for row in world.shop.claims.entries.values())


def delivered(world: World) -> int:
    rows = world.shop.claims.entries.values()
    return sum(row.entry.state is EntryState.DELIVERED for row in rows)


async def test_a_consumer_never_gets_more_at_once_than_the_route_says(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(3))
    world.owes(*(f"old_{n}" for n in range(40)))
    under_way = most = 0

    async def counting() -> Outcome:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return says(200)

    world.consumer.answers(counting)
    world.deliverer.wake()
    for n in range(20):
        assert await world.deliver(f"fresh_{n}") == STORED
    await world.settled()
    assert delivered(world) == 60
    assert most == 3
    assert world.deliverer.busy == 0


async def test_an_event_stored_while_a_lease_is_on_its_way_does_not_wait_for_the_next_look(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(1))
    world.shop.slowness = 0.2
    world.deliverer.wake()
    await eventually(lambda: world.shop.leases, within=2)  # it has seen nothing
    assert await world.deliver() == STORED
    assert world.entry().state is EntryState.PENDING
    await world.settled()
    assert world.entry().state is EntryState.DELIVERED


async def test_a_route_leases_once_at_a_time_however_often_it_is_woken(inbox: World) -> None:
    inbox.shop.slowness = 0.05
    for _ in range(5):
        inbox.deliverer.wake()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inbox.shop.leases == 1
    await inbox.settled()
    assert inbox.shop.leases == 2  # somebody may have stored something meanwhile


@pytest.mark.parametrize("failure", [Ambiguous("timeout"), says(503), Unreached("refused")])
async def test_ten_minutes_of_outage_cost_twenty_probes_and_no_entry_more_than_one_attempt(
    make_world: MakeWorld, failure: Outcome
) -> None:
    world = make_world(**narrow(8))
    world.owes(*(f"evt_{n}" for n in range(60)))
    world.consumer.answers(failure)
    await world.work()
    before = len(world.consumer.received)
    assert before <= 16
    assert world.deliverer.breaker_open
    await minutes(world, 600)
    assert 10 <= len(world.consumer.received) - before <= 20
    assert most_attempts(world) <= 1


async def test_what_was_under_way_when_the_breaker_tripped_makes_no_room_for_a_second_probe(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(8))
    world.owes(*(f"evt_{n}" for n in range(20)))
    old, probe = Gate(Ambiguous("timeout")), Gate(says(200))
    world.consumer.answers(*[Unreached("refused")] * 5, old, old, old, probe)
    world.deliverer.wake()
    await eventually(lambda: world.deliverer.busy == 3, within=2)
    world.pass_by(5)
    await all_of(world).look_once()
    await probe.reached.wait()
    old.open()
    await eventually(lambda: world.deliverer.busy == 1, within=2)
    await all_of(world).look_once()
    await asyncio.sleep(0.02)
    assert len(world.consumer.received) == 9
    probe.open()
    await world.settled()


async def test_a_consumer_that_is_back_gets_all_it_is_owed_within_a_minute(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(8))
    world.owes(*(f"evt_{n}" for n in range(60)))
    world.consumer.answers(Unreached("refused"))
    await world.work()
    await minutes(world, 300)
    world.consumer.answers(says(200))
    await minutes(world, 61)
    assert delivered(world) == 60
    assert not world.deliverer.breaker_open


async def test_while_a_consumer_is_down_what_is_new_is_stored_and_waits(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(8))
    world.owes(*(f"evt_{n}" for n in range(8)))
    world.consumer.answers(Unreached("refused"))
    await world.work()
    sent = len(world.consumer.received)
    assert await world.deliver("fresh") == STORED
    await world.settled()
    assert (world.entry("fresh").state, world.entry("fresh").attempt) == (EntryState.PENDING, 0)
    assert len(world.consumer.received) == sent
    assert all_of(world).open_breakers() == ["orders"]


async def test_a_deliverer_that_is_stopped_leases_nothing_and_ends_what_is_under_way(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(1))
    gate = Gate(says(200))
    world.consumer.answers(gate)
    world.owes("evt_1", "evt_2")
    world.deliverer.wake()
    await gate.reached.wait()
    looking = all_of(world)
    looking.stop()
    assert not await looking.wait_idle(0.03)
    gate.open()
    assert await looking.wait_idle(2)
    await world.settled()
    assert await world.deliver("evt_3") == STORED
    await looking.look_once()
    await world.settled()
    states = [world.entry(f"evt_{n}").state for n in (1, 2, 3)]
    assert states == [EntryState.DELIVERED, EntryState.PENDING, EntryState.PENDING]


async def test_a_replaced_deliverer_ends_what_it_began_and_leases_nothing_more(
    make_world: MakeWorld,
) -> None:
    world = make_world(**narrow(1))
    gate = Gate(says(200))
    world.consumer.answers(gate)
    world.owes("evt_1", "evt_2")
    looking = all_of(world)
    await looking.look_once()
    await gate.reached.wait()
    old, successor = world.deliverer, world.wired(world.route)[1]
    looking.use([successor])
    assert looking.busy == 1
    gate.open()
    await world.settled()
    assert (old.busy, looking.busy) == (0, 0)
    assert world.entry("evt_2").state is EntryState.PENDING
    assert await looking.look_once() == {"orders"}
    await world.settled()
    assert delivered(world) == 2


async def test_a_configuration_that_changes_during_the_drain_brings_no_new_work(
    make_world: MakeWorld,
) -> None:
    """A rollout swaps the ConfigMap and ends the pods in the same minute."""
    world = make_world(**narrow(1))
    world.owes("evt_1")
    looking = all_of(world)
    looking.stop()
    successor = world.wired(world.route)[1]
    looking.use([successor])
    await looking.look_once()
    await world.settled()
    assert world.entry("evt_1").state is EntryState.PENDING
    assert not successor.take(1)


async def test_a_store_that_is_away_while_leasing_costs_nothing_but_time(inbox: World) -> None:
    inbox.owes("evt_1")
    inbox.shop.leases_away = True
    await inbox.work()
    assert (inbox.deliverer.busy, inbox.consumer.received) == (0, [])
    inbox.shop.leases_away = False
    await all_of(inbox).look_once()
    await inbox.settled()
    assert inbox.entry().state is EntryState.DELIVERED


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(says(200), EntryState.DELIVERED), (says(422), EntryState.PENDING)],
)
async def test_an_ending_that_the_store_does_not_take_is_recorded_when_it_is_back(
    inbox: World, outcome: Outcome, state: EntryState
) -> None:
    inbox.consumer.answers(outcome)
    inbox.owes("evt_1")
    inbox.shop.settle_away = True
    inbox.deliverer.wake()
    await eventually(lambda: inbox.recorder.pending, within=2)
    assert inbox.entry().state is EntryState.LEASED
    assert inbox.counted["concluded", EntryEnding.DELIVER] == 0
    assert await inbox.deliver() == SEEN
    inbox.shop.settle_away = False
    await inbox.settled()
    assert inbox.entry().state is state
    assert inbox.counted["concluded", EntryEnding.DELIVER] == (state is EntryState.DELIVERED)
    assert len(inbox.consumer.received) == 1


async def test_an_entry_whose_event_is_completed_meanwhile_is_not_sent(inbox: World) -> None:
    inbox.owes("evt_1")
    row = inbox.claim()
    inbox.shop.claims.rows[World.key("evt_1").digest] = replace(row, state=State.COMPLETED)
    await inbox.work()
    assert inbox.consumer.received == []


async def test_whoever_watches_wakes_what_is_due_and_outlives_an_absent_store(
    inbox: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverers, "LOOK_EVERY", 0.01)
    watching = asyncio.ensure_future(all_of(inbox).watch())
    inbox.shop.away = True
    await asyncio.sleep(0.05)
    inbox.shop.away = False
    inbox.owes("evt_1")
    await eventually(lambda: inbox.entry().state is EntryState.DELIVERED, within=2)
    assert not watching.done()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_route_that_left_inbox_mode_delivers_what_it_had_acknowledged(
    make_world: MakeWorld,
) -> None:
    for mode in (Mode.FORWARD, Mode.OBSERVE):
        world = make_world(mode=mode)
        world.owes("evt_1")
        await world.work()
        assert world.entry().state is EntryState.DELIVERED
