"""Forged copies of a signed event: whatever they meet, the genuine ones fare as if alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.stripe_like import BOTH, FORGED, signed
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    late = {"late_delivery": "the consumer checks no time stamp"}
    yield await world.gateway(
        world.file(
            world.route(signature=BOTH),
            world.route("stored", mode="inbox", signature=BOTH, **late),
            world.route("open"),
        )
    )


@pytest.mark.row(108)
async def test_a_forged_copy_does_not_hold_up_the_genuine_one_that_is_under_way(
    world: World, gateway: Gateway
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    genuine = asyncio.create_task(gateway.send(signed(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    # A duplicate would wait for the first one's result; a forger gets no such wait, and no answer
    # that tells whether there is an event of that id.
    assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert not genuine.done()
    free.set()
    assert (await genuine).verdict == "first"
    assert world.attempts(event) == [(1, False)]


async def test_after_a_forged_one_the_genuine_one_is_first_and_not_marked(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    for _ in range(3):
        assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert (await gateway.send(signed(event))).verdict == "first"
    assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert (await gateway.send(signed(event))).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]


async def test_in_a_crowd_of_forged_copies_the_genuine_ones_are_one_event(
    world: World, gateway: Gateway
) -> None:
    for _ in range(ROUNDS):
        event = fresh("crowd")
        raws = [signed(event) for _ in range(5)]
        raws += [signed(event, secret=FORGED, of=number) for number in range(10)]
        random.shuffle(raws)
        replies = await sender.volley([gateway.address], raws)
        told = sorted(reply.verdict or str(reply.status) for reply in replies)
        assert told == ["401"] * 10 + ["duplicate"] * 4 + ["first"]
        dated = [reply for reply in replies if reply.header("Dedup-First-Seen")]
        assert [reply.verdict for reply in dated] == ["duplicate"] * 4
        assert world.attempts(event) == [(1, False)]


async def test_a_forged_copy_cannot_take_over_from_a_gateway_that_died(world: World) -> None:
    doomed = await world.gateway(world.file(world.route(signature=BOTH)))
    event = fresh("died")
    world.consumer.script(event, Says(until=asyncio.Event()), Says())
    sending = asyncio.create_task(doomed.attempt(signed(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    doomed.kill()
    assert await sending is None
    await world.database.lapse(event)
    next_one = await world.gateway(world.file(world.route(signature=BOTH)))
    assert (await next_one.send(signed(event, secret=FORGED))).status == 401
    claim = await world.database.claim(event)
    assert claim is not None
    assert (claim.state, claim.attempt) == ("claimed", 1)
    assert (await next_one.send(signed(event))).verdict == "first"
    assert world.attempts(event) == [(1, False), (2, True)]
    await next_one.end()


@pytest.mark.parametrize("path", ["/hooks/orders", "/hooks/stored", "/hooks/open"])
async def test_only_a_verified_provider_is_told_when_its_event_came_first(
    gateway: Gateway, path: str
) -> None:
    event = fresh()
    first, second = [await gateway.send(signed(event, path)) for _ in range(2)]
    assert (first.verdict, second.verdict) == ("first", "duplicate")
    assert first.header("Dedup-First-Seen") is None
    told = second.header("Dedup-First-Seen")
    assert (told is not None) == (path != "/hooks/open")
    assert told is None or (told.endswith("Z") and len(told) == len("2026-08-25T00:00:00Z"))
