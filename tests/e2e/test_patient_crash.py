"""acknowledge_after: the claim, the entry and the running forward stay one story through crashes.

As in test_crash.py, a lease ends by moving its row, or by waiting where a paused holder's own
deadline is what is looked at.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import OK, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import Claim, Entry, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# slot + connect + time-out + 5 s: the shortest lease that the configuration takes.
HASTY = {"timeout": "1s", "connect_timeout": "200ms", "slot_timeout": "100ms"}
LEASE = 6.3
PROMISE = {"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
PATIENT = {"mode": "forward", "acknowledge_after": "150ms"}
SLOW = Says(acts="before", delay=0.5)
ACKNOWLEDGED = b'{"received": true, "duplicate": false}'


def file(world: World, **more: Any) -> Settings:
    settings = {**PATIENT, "retry": RETRY, "promise": PROMISE, "upstream": HASTY, **more}
    # The same events, for a holder that is not to store them.
    plain = world.route("plain", scope="orders", promise=PROMISE)
    return world.file(world.route(**settings), plain)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    """A gateway on the same store that stays, and delivers what others leave behind."""
    yield await world.gateway(file(world))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(world: World, survivor: Gateway) -> AsyncIterator[Gateway]:
    """A gateway that a test may do anything to."""
    gateway = Gateway(world.directory / fresh("victim"), file(world))
    yield gateway
    await gateway.end()


async def starts(victim: Gateway, failpoint: str) -> None:
    victim.env["DEDUP_FAILPOINT"] = failpoint
    await victim.start()


async def test_a_slow_handlers_delivery_is_acknowledged_and_its_retry_is_never_provoked(
    world: World, survivor: Gateway
) -> None:
    event = fresh("slow")
    world.consumer.script(event, SLOW)
    reply = await world.deliver(event)
    assert (reply.status, reply.verdict, reply.body) == (200, "first", ACKNOWLEDGED)
    assert (await world.deliver(event)).verdict == "duplicate"
    assert await world.database.entry_becomes(event, "delivered") == Entry(
        "delivered", False, 1, None
    )
    assert world.attempts(event) == [(1, False)]


async def test_the_failure_of_a_forward_that_was_acknowledged_becomes_a_retry_of_ours(
    world: World, survivor: Gateway
) -> None:
    event = fresh("slow")
    world.consumer.script(event, Says(status=500, delay=0.4), Says(status=400), OK)
    assert (await world.deliver(event)).body == ACKNOWLEDGED
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False), (2, True), (3, True)]


async def test_a_death_before_the_delivery_is_stored_leaves_it_to_the_provider(
    world: World, victim: Gateway
) -> None:
    event = fresh("unstored")
    world.consumer.script(event, SLOW)
    await starts(victim, "forwarding:kill")
    assert await victim.attempt(sender.event(event)) is None
    assert await victim.died() == -signal.SIGKILL
    assert await world.database.entry(event) is None
    await world.database.lapse(event)
    assert (await world.deliver(event)).verdict == "first"
    await world.database.becomes(event, "completed")
    assert all(marked for attempt, marked in world.attempts(event) if attempt != 1)


async def test_a_death_between_storing_and_acknowledging_costs_one_marked_forward(
    world: World, victim: Gateway
) -> None:
    event = fresh("stored")
    world.consumer.script(event, SLOW)
    await starts(victim, "after_store:kill")
    assert await victim.attempt(sender.event(event)) is None
    assert await victim.died() == -signal.SIGKILL
    assert await world.database.claim(event) == Claim("stored", False, 1)
    assert (await world.deliver(event)).verdict == "duplicate"
    await world.database.lapse_entry(event)
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False), (2, True)]


async def test_a_holder_paused_beyond_the_lease_of_what_it_stored_brings_a_success_too_late(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    event = fresh("paused")
    world.consumer.script(event, SLOW, OK)
    await starts(victim, "after_store:stop")
    first = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    # The real lease, by the real clock.
    await world.database.entry_becomes(event, "delivered", within=LEASE + 15)
    victim.signal(signal.SIGCONT)
    reply = await first
    assert reply is not None
    assert (reply.status, reply.body) == (200, ACKNOWLEDGED)
    await victim.counts("dedup_forwards_total")
    assert world.attempts(event) == [(1, False), (2, True)]
    assert not await world.database.owes()


async def test_a_holder_paused_beyond_its_lease_sends_nothing_under_it_and_keeps_its_word(
    world: World, victim: Gateway
) -> None:
    """Nobody took over, so it may still store what is its own; only the forward is too late."""
    event = fresh("paused")
    await starts(victim, "after_claim:stop")
    first = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await asyncio.sleep(LEASE + 0.5)  # monotonic time really has to pass
    assert await world.database.claim(event) == Claim("claimed", False, 1)
    victim.signal(signal.SIGCONT)
    reply = await first
    assert reply is not None
    assert (reply.status, reply.body) == (200, ACKNOWLEDGED)
    await victim.counts("dedup_forwards_total", outcome="unreached")
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False)]


async def test_a_holder_paused_while_another_took_over_stores_nothing(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    event, gate = fresh("paused"), asyncio.Event()
    world.consumer.script(event, Says(until=gate))
    await starts(victim, "after_claim:stop")
    first = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await asyncio.sleep(LEASE + 0.5)  # monotonic time really has to pass
    successor = asyncio.create_task(world.deliver(event, path="/hooks/plain"))
    await eventually(lambda: world.consumer.requests(event), within=15)
    victim.signal(signal.SIGCONT)
    reply = await first
    assert reply is not None
    assert not reply.is_success
    assert await world.database.entry(event) is None
    assert await world.database.claim(event) == Claim("claimed", True, 2)
    gate.set()
    assert (await successor).verdict == "first"
    assert world.attempts(event) == [(2, True)]


@pytest.mark.row(104)
async def test_a_gateway_that_is_told_to_stop_waits_for_what_it_has_acknowledged(
    world: World, victim: Gateway
) -> None:
    event = fresh("stopped")
    world.consumer.script(event, SLOW)
    await victim.start()
    assert (await victim.send(sender.event(event))).body == ACKNOWLEDGED
    assert await victim.stop() == 0
    assert await world.database.entry(event) == Entry("delivered", False, 1, None)
    assert world.attempts(event) == [(1, False)]


async def test_a_failed_forward_of_former_days_is_stored_once_although_its_storing_was_killed(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    """The route has moved from forward mode to the inbox; the claim is open and must be won."""
    event = fresh("moved")
    world.consumer.script(event, Says(status=500), OK)
    assert (await world.deliver(event)).status == 500
    inbox = file(world, mode="inbox", acknowledge_after=None)
    victim.write(inbox)
    await starts(victim, "after_claim:kill")
    assert await victim.attempt(sender.event(event)) is None
    assert await victim.died() == -signal.SIGKILL
    assert await world.database.claim(event) == Claim("claimed", True, 2)
    assert await world.database.entry(event) is None
    await world.database.lapse(event)
    successor = Gateway(world.directory / fresh("successor"), inbox)
    try:
        await successor.start()
        reply = await successor.send(sender.event(event))
        assert (reply.status, reply.verdict) == (200, "first")
        await world.database.entry_becomes(event, "delivered")
    finally:
        await successor.end()
    assert world.attempts(event) == [(1, False), (3, True)]
