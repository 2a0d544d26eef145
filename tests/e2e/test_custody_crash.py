"""Deaths and pauses of those who hold what was acknowledged: inbox mode, and acknowledge_after.

As in test_crash.py, a lease ends by moving its row, or by waiting where a paused holder's own
deadline is what is looked at.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import OK, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import Entry, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Time to be held back for, and little of it: a test waits for a whole lease.
# slot + connect + time-out + 5 s: the shortest lease that the configuration takes.
HASTY = {"timeout": "3s", "connect_timeout": "200ms", "slot_timeout": "100ms"}
LEASE = 8.3
PROMISE = {"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}


def file(world: World, *, slots: int = 1, **more: Any) -> Settings:
    upstream = {**HASTY, "concurrency": slots}
    settings = {"mode": "inbox", "retry": RETRY, "promise": PROMISE, "upstream": upstream, **more}
    return world.file(world.route(**settings))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    """A gateway on the same store that stays, and delivers what others leave behind."""
    yield await world.gateway(file(world, slots=8))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(world: World, survivor: Gateway) -> AsyncIterator[Gateway]:
    """A gateway that a test may do anything to."""
    gateway = Gateway(world.directory / fresh("victim"), file(world))
    yield gateway
    await gateway.end()


@asynccontextmanager
async def away(gateway: Gateway) -> AsyncIterator[None]:
    """It takes nothing meanwhile."""
    gateway.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        gateway.signal(signal.SIGCONT)


async def starts(victim: Gateway, failpoint: str) -> None:
    victim.env["DEDUP_FAILPOINT"] = failpoint
    await victim.start()


async def pending_behind(world: World, victim: Gateway) -> tuple[str, asyncio.Event]:
    """An event that waits for the victim's one slot, and what frees it."""
    first, second, gate = fresh("first"), fresh("second"), asyncio.Event()
    world.consumer.script(first, Says(until=gate))
    assert (await victim.send(sender.event(first))).verdict == "first"
    await eventually(lambda: world.consumer.requests(first), within=15)
    assert (await victim.send(sender.event(second))).verdict == "first"
    return second, gate


@pytest.mark.row(76)
async def test_an_event_that_was_stored_and_never_acknowledged_is_delivered_and_then_a_duplicate(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    await starts(victim, "after_accept:kill")
    assert await victim.attempt(sender.event(event)) is None
    assert await victim.died() == -signal.SIGKILL
    assert await world.database.entry(event) == Entry("leased", False, 1, None)
    assert (await world.deliver(event)).verdict == "duplicate"
    await world.database.lapse_entry(event)
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(2, True)]


@pytest.mark.row(81)
async def test_a_worker_that_died_with_the_success_in_its_hands_costs_one_marked_double(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    event, before = fresh(), await survivor.scrape()
    await starts(victim, "after_answer:kill")
    await victim.attempt(sender.event(event))
    assert await victim.died() == -signal.SIGKILL
    assert [effect.marked for effect in world.consumer.effects(event)] == [False]
    await world.database.lapse_entry(event)
    await world.database.entry_becomes(event, "delivered")
    assert [effect.marked for effect in world.consumer.effects(event)] == [False, True]
    after = await survivor.scrape()
    assert after.since(before, "dedup_takeovers_total", route="orders") == 1
    assert after.since(before, "dedup_possible_doubles_total", route="orders") == 1


async def test_a_worker_that_died_after_recording_leaves_nothing_to_do(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    await starts(victim, "after_conclude:kill")
    await victim.attempt(sender.event(event))
    assert await victim.died() == -signal.SIGKILL
    assert (await world.database.entry(event)).state == "delivered"  # type: ignore[union-attr]
    assert (await world.deliver(event)).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]


@pytest.mark.row(80)
async def test_a_worker_paused_beyond_its_lease_sends_nothing_of_what_it_had_leased(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    await starts(victim, "after_lease:stop")
    async with away(survivor):
        event, gate = await pending_behind(world, victim)
        gate.set()
        await victim.paused()
        assert await world.database.entry(event) == Entry("leased", False, 1, None)
    # The real lease, by the real clock.
    await world.database.entry_becomes(event, "delivered", within=LEASE + 15)
    victim.signal(signal.SIGCONT)
    await victim.counts("dedup_forwards_total", outcome="unreached")
    assert world.attempts(event) == [(2, True)]
    assert (await world.database.entry(event)).state == "delivered"  # type: ignore[union-attr]


@pytest.mark.row(80)
async def test_a_worker_that_died_between_leasing_and_sending_has_its_attempt_counted(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    await starts(victim, "after_lease:kill")
    async with away(survivor):
        event, gate = await pending_behind(world, victim)
        gate.set()
        assert await victim.died() == -signal.SIGKILL
        await world.database.lapse_entry(event)
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(2, True)]


@pytest.mark.row(87)
@pytest.mark.parametrize(
    ("late", "successor"),
    [(OK, OK), (Says(status=500), OK), (OK, Says(status=500))],
    ids=["both succeed", "the late one fails", "the successor fails"],
)
async def test_what_a_late_worker_brings_counts_if_it_is_a_success_and_for_nothing_else(
    world: World, victim: Gateway, late: Says, successor: Says
) -> None:
    """Paused after its deadline check and before the write: the one gap that nobody can close."""
    event, gate = fresh(), asyncio.Event()
    world.consumer.script(event, replace(successor, until=gate), late, OK)
    await starts(victim, "before_send:stop")
    acknowledged = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await world.database.lapse_entry(event)
    await eventually(lambda: world.consumer.requests(event), within=15)
    victim.signal(signal.SIGCONT)
    assert (await acknowledged).is_success  # type: ignore[union-attr]
    assert await victim.stop() == 0  # by then it has told the store what it had to say
    found = await world.database.entry(event)
    assert found is not None
    assert (found.state, found.attempt) == ("delivered" if late.status == 200 else "leased", 2)
    gate.set()
    await world.database.entry_becomes(event, "delivered")
    assert not await world.database.owes()
    assert world.attempts(event) == [(2, True), (1, False)]
    assert (await world.deliver(event)).verdict == "duplicate"


@pytest.mark.row(104)
async def test_a_worker_that_is_told_to_stop_ends_what_is_under_way_and_leases_nothing_more(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    await victim.start()
    async with away(survivor):
        event, gate = await pending_behind(world, victim)
        victim.signal(signal.SIGTERM)
        await victim.logged("draining")
        gate.set()
        assert await victim.died() == 0
        assert await world.database.entry(event) == Entry("pending", False, 0, None)
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False)]
    assert not await world.database.owes()
