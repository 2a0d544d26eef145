"""What canaries tell of a memory: what was lost is seen, and nothing is that is well."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from gateway.core.canary import PLANTED_EVERY
from gateway.store.retention import CANARY
from tests.store.purgeable import RETENTION, begin
from tests.store.remembered import (
    HOUR,
    Process,
    claim,
    forget_all,
    kept,
    live,
    remembering,
    route,
    shift,
    start,
)
from tests.store.stores import DatabaseClock, Stores

FLOOR = 240
"""Hours."""


async def aged(stores: Stores, sql: asyncpg.Connection, hours: int) -> Process:
    """A process that was there for so long, with a canary for each hour."""
    process = await start(stores, kept(route()))
    await sql.execute(
        "with planted as (insert into dedup.canaries (route, planted, key)"
        " select 1, extract(epoch from now())::int4 - n * 3600 - 60, gen_random_uuid()"
        " from generate_series(1, $1::int4) as n returning *)"
        " insert into dedup.claims (key, first_seen, route, state, fingerprint)"
        " select key, planted, route, 'd', 'c' from planted",
        hours,
    )
    await sql.execute(
        "update dedup.routes set born = now() - $1::int4 * interval '3600 seconds'", hours
    )
    return process


async def test_a_canary_is_a_completed_claim_that_is_noted_and_one_an_hour_is_enough(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    one = await start(stores, kept(route()), kept(route("bills")))
    other = await start(stores, kept(route()), kept(route("bills")), who="host:2")
    rows = await sql.fetch(
        "select c.route, c.state, c.event_id, c.first_seen - k.planted, r.born is not null"
        " from dedup.claims c join dedup.canaries k using (key)"
        " join dedup.routes r on r.id = c.route order by c.route"
    )
    assert [tuple(row) for row in rows] == [
        (1, b"d", CANARY, 0, True),
        (2, b"d", CANARY, 0, True),
    ]
    await shift(sql, 0.9)
    for process in (one, other):
        await process.memory()
    assert await sql.fetchval("select count(*) from dedup.canaries") == 2
    born = await sql.fetchval("select born from dedup.routes where id = 1")
    await shift(sql, 0.1003)
    for process in (one, other):
        await process.memory()
    assert await sql.fetchval("select count(*) from dedup.canaries") == 4
    assert await sql.fetchval("select born from dedup.routes where id = 1") < born
    assert await sql.fetchval("select count(*) from dedup.claims") == 4


EXPIRED = "delete from dedup.claims where first_seen < extract(epoch from now()) - 50 * 3600"
LOST = {
    "delete from dedup.claims": (0, 1),
    "truncate dedup.claims": (0, 1),
    "truncate dedup.canaries": (0, 1),
    EXPIRED: (49, 50),
    "delete from dedup.claims where first_seen % 7 = 0": (0, 40),
    "delete from dedup.claims where route = 1": (0, 1),
}
"""How it is lost, and between how many hours the memory reaches then."""


async def test_what_is_lost_is_seen_at_the_next_look_by_every_process(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    for lost, (least, most) in LOST.items():
        process = await aged(stores, sql, 100)
        other = Process(process.store, remembering(process.store, "host:2"))
        await other.use(kept(route()))
        for one in (process, other):
            assert not await one.is_short()
        await sql.execute(lost)
        restarted = Process(process.store, remembering(process.store, "host:3"))
        await restarted.use(kept(route()))
        reaches = set()
        for one in (process, other, restarted):
            assert await one.is_short(), lost
            memory = await one.memory()
            assert least * HOUR - 60 <= memory.reach <= most * HOUR + 60, lost
            assert memory.expected == pytest.approx(100 * HOUR, abs=120)
            reaches.add(round(memory.reach / 60))
        assert max(reaches) - min(reaches) <= 1
        await live(process, sql, 2)
        assert await process.is_short(), lost
        await forget_all(sql)


async def test_a_memory_that_was_lost_is_well_again_when_it_reaches_the_floor(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await aged(stores, sql, 400)
    await sql.execute("truncate dedup.claims")
    for _ in range(2):
        assert await process.is_short()
        await shift(sql, FLOOR / 2 - 0.99)
    await shift(sql, 3)
    assert not await process.is_short()


async def test_a_young_route_is_not_short_nor_one_that_was_migrated_long_before_it_was_served(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """The row is there since the first release, or the migration ran by hand a day before."""
    await sql.execute(
        "insert into dedup.routes (id, name, recipe, since) values"
        " (1, 'orders', $1, now() - interval '90 days')",
        route().print,
    )
    process = await start(stores, kept(route()))
    await claim(sql, claims=5)
    for _ in range(4):
        memory = await process.memory()
        assert memory.reach == pytest.approx(memory.expected, abs=3)
        await live(process, sql, 1)
    assert memory.expected == pytest.approx(3 * HOUR, abs=60)


async def test_a_process_knows_the_age_of_a_route_whose_record_is_lost_with_its_claims(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await aged(stores, sql, 100)
    await process.memory()
    await sql.execute("truncate dedup.claims, dedup.canaries")
    await sql.execute("update dedup.routes set born = null")
    assert await process.is_short()


@pytest.mark.parametrize("short", [False, True])
async def test_a_memory_that_is_meant_to_be_short_has_to_reach_as_far_as_it_is_kept(
    short: bool, stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await aged(stores, sql, 400)
    await process.use(kept(route(retention=timedelta(hours=48)), short=short))
    assert (await process.memory()).expected == (48 if short else FLOOR) * HOUR
    await sql.execute(
        "delete from dedup.claims where first_seen < extract(epoch from now()) - 49 * 3600"
    )
    assert await process.is_short() is not short
    assert (await process.memory()).retention == 48 * HOUR


async def test_a_retention_that_another_process_made_shorter_shows_in_all(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """Its file differs, and all purge by the latest."""
    process = await start(stores, kept(route(retention=timedelta(days=13))))
    assert (await process.memory()).retention == 13 * 86400
    other = await start(stores, kept(route(retention=timedelta(days=2))), who="host:2")
    for one in (process, other):
        assert (await one.memory()).retention == 2 * 86400
    await process.begin(kept(route(retention=timedelta(days=13))))
    assert (await process.memory()).retention == 13 * 86400
    assert (await other.memory()).retention == 2 * 86400


async def test_a_healthy_memory_is_never_short_through_purges_and_hours_without_gateways(
    clock: DatabaseClock, stores: Stores, sql: asyncpg.Connection, database: str
) -> None:
    """Its retention is the floor to the second, and a purge comes as soon as anything is over."""
    process = await start(stores, kept(route(retention=timedelta(hours=FLOOR))))
    timed = await asyncpg.connect(database)
    hours = [1.0] * 30 + [5.0, 0.3] + [1.0] * 20 + [7.5] + [1.003] * 230 + [FLOOR * 3.0] + [1.0] * 9
    try:
        run, purged = await begin(timed), 0
        for count, passed in enumerate(hours):
            await clock.set(clock.now + passed * HOUR + 7)
            if count % 2:
                for _, claims, _ in await timed.fetch(RETENTION["purge"], "(0,0)", "(999,0)", run):
                    purged += claims
                await timed.execute(RETENTION["forget"])
            assert not await process.is_short(), (count, await process.memory())
            if count % 10 == 0:
                await process.begin(kept(route(retention=timedelta(hours=FLOOR))))
    finally:
        await timed.close()
    assert purged > 250
    notes = await sql.fetchval("select count(*) from dedup.canaries")
    assert notes < 60
    assert await sql.fetchval("select min(planted) from dedup.canaries") < clock.now - 30 * HOUR
    assert PLANTED_EVERY == HOUR
