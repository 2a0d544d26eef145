"""kill -9 and pauses at every named step: what the next delivery is told, what the consumer saw.

Two kinds of time: leases are compared with the database's clock, so a test ends one by moving the
row; a holder's own deadline is monotonic, so the tests of paused holders wait for a real one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import history, sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# slot + connect + time-out + 5 s: the shortest lease that the configuration takes.
HASTY = {"timeout": "400ms", "connect_timeout": "200ms", "slot_timeout": "100ms"}
LEASE = 5.7
# How long a copy waits here for somebody else's result.
BUSY_WAIT = 1.0


def file(world: World) -> Settings:
    promise = {"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
    return world.file(world.route(upstream=HASTY, promise=promise))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    """A gateway on the same store that stays."""
    yield await world.gateway(file(world))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(world: World, survivor: Gateway) -> AsyncIterator[Gateway]:
    """A gateway that a test may do anything to."""
    gateway = Gateway(world.directory / fresh("victim"), file(world))
    yield gateway
    await gateway.end()


async def crash(victim: Gateway, failpoint: str, event: str) -> None:
    victim.env["DEDUP_FAILPOINT"] = f"{failpoint}:kill"
    await victim.start()
    assert await victim.attempt(sender.event(event)) is None
    assert await victim.died() == -signal.SIGKILL


async def until_success(world: World, event: str, *, within: float) -> sender.Reply:
    async def acknowledged() -> sender.Reply | None:
        reply = await world.deliver(event)
        assert reply.is_success or (reply.status == 503 and reply.retry_after), reply
        return reply if reply.is_success else None

    return await eventually(acknowledged, within=within, what=f"{event} acknowledged")


@pytest.mark.case("B006")
@pytest.mark.row(17, 44)
async def test_a_claim_whose_holder_died_before_sending_is_taken_over_when_its_lease_is_over(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    await crash(victim, "after_claim", event)
    assert not world.consumer.requests(event)
    busy = await world.deliver(event)
    assert (busy.status, busy.verdict) == (503, "busy")
    assert busy.retry_after > 0
    # The real lease, by the real clock.
    reply = await until_success(world, event, within=LEASE + 3)
    assert reply.verdict == "first"
    assert world.attempts(event) == [(2, True)]
    assert (await world.deliver(event)).verdict == "duplicate"


@pytest.mark.case("B006")
@pytest.mark.row(55)
async def test_a_holder_that_died_with_the_success_in_its_hands_costs_one_marked_double(
    world: World, victim: Gateway
) -> None:
    event, before = fresh(), await world.gateways[0].scrape()
    await crash(victim, "after_answer", event)
    assert [effect.marked for effect in world.consumer.effects(event)] == [False]
    assert (await world.deliver(event)).status == 503
    await world.database.lapse(event)
    assert (await world.deliver(event)).verdict == "first"
    assert [effect.marked for effect in world.consumer.effects(event)] == [False, True]
    assert (await world.deliver(event)).verdict == "duplicate"
    after = await world.gateways[0].scrape()
    assert after.since(before, "dedup_takeovers_total", route="orders") == 1


@pytest.mark.row(58)
async def test_a_holder_that_died_after_recording_leaves_a_plain_duplicate(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    await crash(victim, "after_settle", event)
    reply = await world.deliver(event)
    assert (reply.status, reply.verdict) == (200, "duplicate")
    assert [effect.marked for effect in world.consumer.effects(event)] == [False]


@pytest.mark.row(34)
async def test_a_crash_between_a_refusal_and_its_release_delays_the_genuine_event_and_loses_nothing(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=401), Says())
    await crash(victim, "after_answer", event)
    assert (await world.deliver(event)).status == 503
    await world.database.lapse(event)
    assert (await world.deliver(event)).status == 200
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.row(18)
async def test_a_holder_that_was_paused_past_its_lease_sends_nothing(
    world: World, victim: Gateway
) -> None:
    event = fresh()
    victim.env["DEDUP_FAILPOINT"] = "after_claim:stop"
    await victim.start()
    delivery = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await asyncio.sleep(LEASE + 0.5)  # monotonic time really has to pass
    victim.signal(signal.SIGCONT)
    reply = await delivery
    assert reply is not None
    assert not reply.is_success
    assert not world.consumer.requests(event)
    assert await world.database.becomes(event, "released") == Claim("released", False, 1)
    assert (await world.deliver(event)).verdict == "first"
    assert world.attempts(event) == [(2, False)]


@pytest.mark.row(19, 60)
async def test_a_holder_paused_in_the_gap_is_told_apart_by_its_attempt_number_only(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    """The one residual race: after the deadline check, before the write. README names it."""
    event, before = fresh(), await survivor.scrape()
    victim.env["DEDUP_FAILPOINT"] = "before_send:stop"
    await victim.start()
    delivery = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await world.database.lapse(event)
    assert (await world.deliver(event)).verdict == "first"
    victim.signal(signal.SIGCONT)
    reply = await delivery
    assert reply is not None
    assert reply.status == 200
    assert world.attempts(event) == [(2, True), (1, False)]
    assert (await world.database.claim(event)).state == "completed"  # type: ignore[union-attr]
    assert (await survivor.scrape()).since(before, "dedup_possible_doubles_total") == 1


@pytest.mark.row(20, 63)
async def test_a_late_holder_and_its_successor_may_both_act_and_one_of_them_is_marked(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(acts="after", delay=0.3), Says(acts="after", delay=0.1))
    victim.env["DEDUP_FAILPOINT"] = "before_send:stop"
    await victim.start()
    before = await survivor.scrape()
    delivery = asyncio.create_task(victim.attempt(sender.event(event), within=60))
    await victim.paused()
    await world.database.lapse(event)
    successor = asyncio.create_task(world.deliver(event))
    await eventually(lambda: world.consumer.requests(event), within=15)
    victim.signal(signal.SIGCONT)
    late, next_ = await delivery, await successor
    assert late is not None
    assert {late.status, next_.status} == {200}
    assert sorted(effect.marked for effect in world.consumer.effects(event)) == [False, True]
    assert (await world.database.claim(event)).state == "completed"  # type: ignore[union-attr]
    assert (await survivor.scrape()).since(before, "dedup_possible_doubles_total") == 1


@pytest.mark.row(73)
async def test_a_process_that_stood_still_for_longer_than_a_lease_goes_on_without_a_double(
    world: World, victim: Gateway
) -> None:
    """A stalled loop is to all clocks what a stopped process is."""
    await victim.start()
    before_pause = [fresh("still") for _ in range(10)]
    slow = fresh("slow")
    world.consumer.script(slow, Says(delay=0.3))
    flying = asyncio.create_task(victim.attempt(sender.event(slow), within=60))
    await eventually(lambda: world.consumer.requests(slow), within=15)
    victim.signal(signal.SIGSTOP)
    waiting = [
        asyncio.create_task(victim.attempt(sender.event(event), within=60))
        for event in before_pause
    ]
    await asyncio.sleep(LEASE + 0.5)  # monotonic time really has to pass
    victim.signal(signal.SIGCONT)
    replies = await asyncio.gather(flying, *waiting)
    assert all(reply is not None for reply in replies)
    events = [slow, *before_pause]
    for event in events:
        assert (await until_success(world, event, within=LEASE + 3)).is_success
    history.check(world.consumer, acknowledged=events, sent=events)


@pytest.mark.row(106)
async def test_connections_in_the_queue_of_a_killed_process_claim_nothing(
    world: World, victim: Gateway
) -> None:
    await victim.start()
    victim.signal(signal.SIGSTOP)
    events = [fresh("queued") for _ in range(20)]
    queued = [
        asyncio.create_task(victim.attempt(sender.event(event), within=30)) for event in events
    ]
    await asyncio.sleep(0.3)
    assert not any(task.done() for task in queued)
    victim.kill()
    assert set(await asyncio.gather(*queued)) == {None}
    for event in events:
        assert await world.database.claim(event) is None
        assert not world.consumer.requests(event)
