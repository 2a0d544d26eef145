"""SIGTERM: readiness, draining, and what becomes of whatever is in flight."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway()


async def refused(gateway: Gateway) -> bool:
    return await gateway.attempt(sender.event(fresh()), within=2) is None


@pytest.mark.row(100)
async def test_an_idle_gateway_turns_red_takes_requests_for_a_while_and_then_ends(
    world: World, survivor: Gateway
) -> None:
    gateway = await world.gateway(world.file(drain_delay="3s"))
    async with sender.Connection(gateway.address) as idle:
        assert (await idle.ask(sender.event(fresh()))).status == 200
        gateway.signal(signal.SIGTERM)

        async def red() -> bool:
            return not await gateway.is_ready()

        await eventually(red, within=2, what="red readiness")
        taken = await idle.ask(sender.event(fresh()))
        assert (taken.status, taken.verdict) == (200, "first")
        assert (taken.header("Connection") or "").lower() == "close"
    assert (await gateway.send(sender.event(fresh()))).status == 200
    assert await gateway.died(within=15) == 0
    assert await refused(gateway)


@pytest.mark.row(101)
async def test_a_forward_in_flight_is_finished_recorded_and_answered(
    world: World, survivor: Gateway
) -> None:
    gateway = await world.gateway()
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    flying = asyncio.create_task(gateway.send(sender.event(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    gateway.signal(signal.SIGTERM)
    await eventually(lambda: refused(gateway), within=5, what="closed listener")
    free.set()
    reply = await flying
    assert (reply.status, reply.verdict) == (200, "first")
    assert (reply.header("Connection") or "").lower() == "close"
    assert await gateway.died() == 0
    assert (await world.deliver(event, survivor)).verdict == "duplicate"


@pytest.mark.row(102)
async def test_a_body_that_is_still_arriving_at_the_end_claims_nothing(
    world: World, survivor: Gateway
) -> None:
    gateway = await world.gateway(world.file(limits={"body_timeout": "2s"}))
    event = fresh()
    raw = sender.event(event, filling="x" * 1000)
    async with sender.Connection(gateway.address) as connection:
        await connection.write(raw[:-500])
        gateway.signal(signal.SIGTERM)
        assert await gateway.died(within=20) == 0
    assert await world.database.claim(event) is None
    assert not world.consumer.requests(event)
    assert (await world.deliver(event, survivor)).verdict == "first"


@pytest.mark.row(103)
async def test_a_forward_that_outlasts_the_drain_is_cut_off_and_its_claim_given_back_doubtful(
    world: World, survivor: Gateway
) -> None:
    """Its body ended shortly before the patience did: slot + connect + upstream + a copy's wait."""
    patience = 0.5 + 0.5 + 2.0 + 2.0
    gateway = await world.gateway(world.file(world.route(upstream={"timeout": "2s"})))
    event, never = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=never), Says())
    raw = sender.event(event, filling="x" * 500)
    async with sender.Connection(gateway.address) as connection:
        await connection.write(raw[:-100])
        gateway.signal(signal.SIGTERM)
        await gateway.logged("draining")
        await asyncio.sleep(patience - 0.8)  # the drain deadline is a real one
        await connection.write(raw[-100:])
        await eventually(lambda: world.consumer.requests(event), within=2)
        reply = await connection.reply()
    assert (reply.status, reply.verdict) == (502, "first")
    assert await gateway.died(within=10) == 0
    never.set()
    assert await world.database.claim(event) == Claim("released", True, 1)
    assert (await world.deliver(event, survivor)).verdict == "first"
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.row(105)
async def test_a_power_cut_at_any_moment_leaves_a_lease_or_a_result(
    world: World, survivor: Gateway
) -> None:
    """kill -9 in the middle of a load, at no chosen point."""
    events = [fresh("cut") for _ in range(200)]
    told: dict[str, bool] = {}
    gateway = await world.gateway()

    async def lane(mine: list[str]) -> None:
        for event in mine:
            reply = await gateway.attempt(sender.event(event))
            told[event] = reply is not None and reply.is_success

    lanes = [asyncio.create_task(lane(events[n::8])) for n in range(8)]
    await eventually(lambda: len(world.consumer.received) and len(told) > 60, within=20)
    gateway.kill()
    await asyncio.gather(*lanes)
    await world.database.execute(
        "update dedup.claims set until = now() - interval '1 s' where state::text in ('c', 'C')"
    )
    for event in events:
        reply = await world.deliver(event, survivor)
        assert reply.is_success
        if told[event]:
            assert reply.verdict == "duplicate"
        effects = world.consumer.effects(event)
        assert effects
        assert sum(not effect.marked for effect in effects) <= 1
