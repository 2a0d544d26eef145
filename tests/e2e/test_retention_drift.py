"""Drift on running gateways: what is deleted from outside, and files that differ."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
import pytest_asyncio

from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, Samples
from tests.rig.postgres import Server
from tests.rig.settings import Settings
from tests.rig.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = 3600
DAY = 24 * HOUR
FLOOR = 33 * DAY
# A look every quarter of a minute, and what a busy machine adds. A minute is promised.
SEEN_WITHIN = 50
MEMORY = (
    "dedup_retention_effective_seconds",
    "dedup_retention_expected_seconds",
    "dedup_purge_last_success_timestamp_seconds",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


def file(world: World, retention: str = "33d") -> Settings:
    """Exactly the floor."""
    return world.file(world.route(retention=retention), world.route("other", retention=retention))


def effective(scrape: Samples, route: str = "orders") -> float:
    return scrape.total("dedup_retention_effective_seconds", route=route)


def is_short(scrape: Samples, route: str = "orders") -> bool:
    """What the rule for it compares."""
    return effective(scrape, route) < (
        scrape.total("dedup_retention_expected_seconds", route=route) - HOUR
    )


async def both(
    gateways: list[Gateway], condition: Callable[[Samples], bool], what: str
) -> list[Samples]:
    """Waits until it holds on all instances."""

    async def holds() -> list[Samples] | None:
        scrapes = [await gateway.scrape() for gateway in gateways]
        return scrapes if all(map(condition, scrapes)) else None

    return await eventually(holds, within=SEEN_WITHIN, what=what)


async def age(world: World, hours: int) -> None:
    """Gateways have been there for so long, but for five hours in between."""
    await world.database.execute(f"""
        with planted as (
          insert into dedup.canaries (route, planted, key)
          select r.id, extract(epoch from now())::int4 - n * 3600 - 60, gen_random_uuid()
            from generate_series(1, {hours}) as n, dedup.routes r
           where n not between 9 and 13
          on conflict do nothing
          returning *
        )
        insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
        select key, planted, route, 'd', 'c', 'canary' from planted
    """)
    await world.database.execute(f"update dedup.routes set born = now() - interval '{hours} hours'")


@pytest.mark.timeout(240)
async def test_what_is_lost_or_shortened_shows_on_every_instance_within_a_minute(
    world: World, server: Server
) -> None:
    one, two = gateways = [await world.gateway(file(world)) for _ in range(2)]
    young = await both(gateways, lambda scrape: scrape.has(MEMORY[0]), "a first look")
    assert not any(is_short(scrape) for scrape in young)
    await age(world, 30)

    # A part is deleted, as somebody's job would, and one replica has another file.
    await world.database.execute(
        "delete from dedup.claims where first_seen < extract(epoch from now()) - 20 * 3600"
        " and route = (select id from dedup.routes where name = 'orders')"
    )
    two.write(file(world, "32d"))
    two.signal(signal.SIGHUP)
    shortened = await two.logged("retention_shortened", route="orders")
    assert (shortened["was"], shortened["now"]) == (FLOOR, FLOOR - DAY)
    assert "https://provider.example/docs" in shortened["source"]

    def seen(scrape: Samples) -> bool:
        kept = scrape.total("dedup_retention_seconds", route="orders")
        return is_short(scrape) and kept == FLOOR - DAY

    scrapes = await both(gateways, seen, "drift on both")
    reaches = [effective(scrape) for scrape in scrapes]
    assert all(19 * HOUR <= reach <= 21 * HOUR for reach in reaches)
    assert abs(reaches[0] - reaches[1]) < SEEN_WITHIN
    for scrape in scrapes:
        assert not is_short(scrape, "other")
        assert effective(scrape, "other") > 29 * HOUR
        assert scrape.total("dedup_retention_floor_seconds", route="orders") == FLOOR

    # All of it, while nobody is there to see it.
    await asyncio.gather(one.stop(), two.stop())
    await world.database.execute("truncate dedup.claims")
    await one.start()
    await both([one], lambda scrape: is_short(scrape) and is_short(scrape, "other"), "all lost")

    server.stop()
    await both(
        [one], lambda scrape: not any(scrape.has(name) for name in MEMORY), "silence while away"
    )
    assert (await one.scrape()).has("dedup_retention_seconds")
