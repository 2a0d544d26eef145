"""A bulk redrive through an inbox route spares the consumer what it has, and never floods it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import OK, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.providers import nothing_owed
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The field case redrives 40,000; the rest of them is left to `make soak`.
REDRIVEN, REDRIVEN_IN_SOAK = 4_000, 40_000
CONCURRENCY = 8
# Of a hundred: unknown to the gateway, and given up by it before.
NEW, DEAD = 8, 1
SLOWLY = Says(delay=0.02)
# Deliveries a second on the busiest machine that is not called broken.
SLOWEST = 40
REFUSES = Says(status=400)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    def inbox(name: str, give_up: str) -> Settings:
        retry = {"base": "50ms", "cap": "50ms", "give_up": give_up}
        return world.route(name, mode="inbox", retry=retry, upstream={"concurrency": CONCURRENCY})

    yield await world.gateway(world.file(inbox("orders", "200ms"), inbox("gathered", "1h")))


async def told(
    gateway: Gateway, events: list[str], path: str = "/hooks/orders"
) -> dict[str, str | None]:
    raws = [sender.event(event, path) for event in events]
    replies = await sender.sweep(gateway.address, raws)
    assert {reply.status for reply in replies} == {200}
    return {event: reply.verdict for event, reply in zip(events, replies, strict=True)}


async def redrive(world: World, gateway: Gateway, count: int) -> None:
    stem = fresh("redriven")
    events = [f"{stem}_{number}" for number in range(count)]
    new, dead = set(events[: count * NEW // 100]), set(events[-count * DEAD // 100 :])
    before = [event for event in events if event not in new]
    for event in dead:
        world.consumer.script(event, REFUSES)
    assert set((await told(gateway, before)).values()) == {"first"}
    await nothing_owed(world, within=count / SLOWEST)
    ends = await world.database.ends()
    assert {event for event in before if ends[event][1] == "dead"} == dead
    done = [event for event in before if event not in dead]
    refused = {event: len(world.consumer.requests(event)) for event in dead}

    for event in dead | new:
        world.consumer.script(event, *[SLOWLY] * (refused.get(event, 0) + 1))
    world.consumer.most_inside = 0
    again = random.sample(events, count)
    verdicts = await told(gateway, again)
    await nothing_owed(world, within=count / SLOWEST)
    assert {event for event in again if verdicts[event] == "first"} == new
    assert {len(world.consumer.requests(event)) for event in done} == {1}
    assert {len(world.consumer.effects(event)) for event in events} == {1}
    assert {tuple(world.attempts(event)) for event in new} == {((1, False),)}
    assert all(len(world.consumer.requests(e)) == refused[e] + 1 for e in dead)
    assert 1 < world.consumer.most_inside <= CONCURRENCY


async def test_of_a_mixed_redrive_the_consumer_gets_what_it_lacks_and_never_more_than_it_takes(
    world: World, gateway: Gateway
) -> None:
    await redrive(world, gateway, REDRIVEN)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_of_forty_thousand_redriven_events_the_consumer_gets_what_it_lacks(
    world: World, gateway: Gateway
) -> None:
    await redrive(world, gateway, REDRIVEN_IN_SOAK)


@pytest.mark.row(86)
async def test_what_gathered_while_the_consumer_was_away_reaches_it_at_its_own_pace(
    world: World, gateway: Gateway
) -> None:
    port = world.consumer.port
    await world.consumer.stop()
    events = [fresh("gathered") for _ in range(100)]
    await told(gateway, events, "/hooks/gathered")
    await gateway.counts("dedup_breaker_open", route="gathered")
    world.consumer.otherwise, world.consumer.most_inside = SLOWLY, 0
    try:
        await world.consumer.start(port)
        # The breaker asks again after five seconds, and after ten if that was too soon.
        await nothing_owed(world, within=60)
    finally:
        world.consumer.otherwise = OK
    assert {tuple(world.attempts(event)) for event in events} == {((1, False),)}
    assert 1 < world.consumer.most_inside <= CONCURRENCY
    await eventually(lambda: not world.consumer.inside, within=5)
