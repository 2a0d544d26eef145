"""What waits in the inbox is shown, and there is an end to how much may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.balancer import free_port
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, Samples
from tests.rig.postgres import Server
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = 10
RETRY = {"base": "100ms", "cap": "100ms", "give_up": "1h"}
NOWHERE = {"url": f"http://127.0.0.1:{free_port()}"}
ENTRIES = "dedup_inbox_entries"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    def inbox(name: str, **more: object) -> Settings:
        return world.route(name, **{"mode": "inbox", "retry": RETRY, "high_water": MARK, **more})

    yield await world.gateway(
        world.file(
            inbox("orders", upstream={"concurrency": 4}),
            inbox("away", upstream=NOWHERE),
            inbox("hopeless", retry={**RETRY, "give_up": "100ms"}),
        )
    )


async def shows(gateway: Gateway, route: str, **entries: int) -> Samples:
    """Waits until the gauges have these figures, by state."""

    async def shown() -> Samples | None:
        now = await gateway.scrape()
        found = {state: now.total(ENTRIES, route=route, state=state) for state in entries}
        return now if found == entries and now.has(ENTRIES) else None

    return await eventually(shown, within=15, what=f"{route}: {entries}")


async def fill(gateway: Gateway, route: str) -> list[str]:
    """Delivers new events until one is refused; those that were taken."""
    taken: list[str] = []
    while True:
        event = fresh()
        reply = await gateway.send(sender.event(event, f"/hooks/{route}"))
        if reply.status != 200:
            break
        assert reply.verdict == "first"
        taken.append(event)
    assert reply.status == 503
    assert reply.retry_after
    # One that is stored in the moment of a look may count twice until the next.
    assert MARK - 1 <= len(taken) <= MARK
    return taken


async def test_at_the_high_water_mark_new_events_are_refused_and_known_ones_are_not(
    world: World, gateway: Gateway
) -> None:
    go_on, before = asyncio.Event(), await gateway.scrape()
    world.consumer.otherwise = Says(until=go_on)
    try:
        taken = await fill(gateway, "orders")
        assert (await world.deliver(taken[-1])).verdict == "duplicate"
        full = await shows(gateway, "orders", leased=4, pending=len(taken) - 4)
        assert full.since(before, "dedup_rejected_total", reason="inbox_full") == 1
        assert full.total("dedup_inbox_oldest_entry_age_seconds", route="orders") > 0
        assert full.total("dedup_inbox_oldest_entry_age_seconds", route="away") == 0
    finally:
        world.consumer.otherwise = Says()
        go_on.set()
    empty = await shows(gateway, "orders", leased=0, pending=0)
    assert empty.total("dedup_inbox_oldest_entry_age_seconds", route="orders") == 0
    assert empty.since(before, "dedup_inbox_concluded_total", ending="deliver") == len(taken)
    assert (await world.deliver(fresh())).verdict == "first"


async def test_a_mark_is_about_what_waits_and_not_about_how_much_passes(
    world: World, gateway: Gateway
) -> None:
    for _ in range(5 * MARK):
        event = fresh()
        assert (await world.deliver(event)).verdict == "first"
        await eventually(partial(world.consumer.effects, event), within=10)


@pytest.mark.row(85)
async def test_a_consumer_that_is_down_opens_the_breaker_and_events_are_taken_up_to_the_mark(
    gateway: Gateway,
) -> None:
    taken = await fill(gateway, "away")

    async def is_open() -> Samples | None:
        now = await gateway.scrape()
        return now if now.total("dedup_breaker_open", route="away") else None

    now = await eventually(is_open, within=15, what="an open breaker")
    assert now.total("dedup_breaker_open") == 1
    await shows(gateway, "away", pending=len(taken), leased=0, dead=0)


async def test_an_event_that_was_tried_for_long_enough_is_shown_as_dead(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=500))
    assert (await gateway.send(sender.event(event, "/hooks/hopeless"))).verdict == "first"
    dead = await shows(gateway, "hopeless", dead=1, pending=0, leased=0)
    assert dead.total("dedup_inbox_concluded_total", route="hopeless", ending="bury") == 1
    assert dead.total("dedup_inbox_oldest_entry_age_seconds", route="hopeless") == 0


async def test_what_waits_is_not_said_to_be_nothing_while_the_store_is_away(
    gateway: Gateway, server: Server
) -> None:
    before = await gateway.scrape()
    assert before.has(ENTRIES)
    server.stop()
    try:

        async def unknown() -> bool:
            return not (await gateway.scrape()).has(ENTRIES)

        await eventually(unknown, within=15, what="no word of the inbox")
    finally:
        server.start()
    await shows(gateway, "away", pending=int(before.total(ENTRIES, route="away")))
