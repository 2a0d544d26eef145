"""What the statements about memory do is what the core says, over whole tables of every kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.canary import PLANTED_EVERY, reach
from gateway.core.purging import Purged
from tests.store.purgeable import RETENTION, Maker, begin, judged, register
from tests.store.stores import DatabaseClock, fresh_key

ROWS = 5000
HOUR = 3600


@pytest.fixture
async def timed(clock: DatabaseClock, database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session whose `now()` is the clock's."""
    session = await asyncpg.connect(database)
    yield session
    await session.close()


async def keys(sql: asyncpg.Connection) -> set[UUID]:
    return {row["key"] for row in await sql.fetch("select key from dedup.claims")}


async def walk(
    timed: asyncpg.Connection, run: int, dice: random.Random
) -> Counter[tuple[str, Purged]]:
    """Purges the whole table in steps of any size; how many of each route and kind that were."""
    told: Counter[tuple[str, Purged]] = Counter()
    pages, first = await timed.fetchval(RETENTION["pages"]), 0
    assert pages > 20
    while first < pages:
        end = first + dice.randint(1, 9)
        step = f"({first},0)", f"({end},0)"
        for name, claims, unresolved in await timed.fetch(RETENTION["purge"], *step, run):
            told[name, Purged.UNRESOLVED] += unresolved
            told[name, Purged.RESOLVED] += claims - unresolved
        first = end
    return +told


@pytest.mark.parametrize("seed", range(2))
async def test_what_is_purged_is_what_the_core_would_forget_page_by_page(
    seed: int, clock: DatabaseClock, sql: asyncpg.Connection, timed: asyncpg.Connection
) -> None:
    await register(sql)
    maker, dice = Maker(seed, clock.now), random.Random(seed)
    for _ in range(ROWS):
        maker.make()
    await maker.put(sql)
    before = await keys(sql)
    forgotten = await judged(sql, maker.owed(), clock.now)
    assert {kind for _, kind in forgotten.values()} == set(Purged)
    assert ROWS * 0.2 < len(forgotten) < ROWS * 0.8
    run = await begin(timed)
    told = await walk(timed, run, dice)
    assert before - await keys(sql) == forgotten.keys()
    assert told == Counter((f"route{route}", kind) for route, kind in forgotten.values())
    recorded = await sql.fetch(
        "select r.name, p.purged, p.unresolved, p.who from dedup.purges p"
        " join dedup.routes r on r.id = p.route where p.run = $1",
        run,
    )
    assert {tuple(row) for row in recorded} == {
        (
            name,
            told[name, Purged.UNRESOLVED] + told[name, Purged.RESOLVED],
            told[name, Purged.UNRESOLVED],
            "test",
        )
        for name, _ in told
    }
    assert await walk(timed, run, dice) == Counter()


async def test_how_far_memories_reach_is_what_the_core_says(
    clock: DatabaseClock, sql: asyncpg.Connection, timed: asyncpg.Connection
) -> None:
    dice, now = random.Random(1), int(clock.now)
    canaries = {}
    for route in range(1, 300):
        share = dice.choice((0.0, 0.5, 0.95, 1.0))
        canaries[route] = {
            now - dice.randrange(40 * HOUR): dice.random() < share
            for _ in range(dice.choice((0, 1, 2, 5, 40)))
        }
        await sql.execute(
            "insert into dedup.routes (id, name, recipe, born) values ($1, $2, '', $3)",
            *(route, str(route), None),
        )
    rows = [
        (route, at, UUID(fresh_key().digest), there)
        for route, planted in canaries.items()
        for at, there in planted.items()
    ]
    await sql.executemany(
        "insert into dedup.canaries (route, planted, key) values ($1, $2, $3)",
        [(route, at, key) for route, at, key, _ in rows],
    )
    await sql.executemany(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint)"
        " values ($1, $2, $3, 'd', 'c')",
        [(key, at, route) for route, at, key, there in rows if there],
    )
    found = await timed.fetch(
        RETENTION["memory"], [str(route) for route in canaries], int(PLANTED_EVERY)
    )
    assert {row["name"]: row["reach"] for row in found} == {
        str(route): reach([(float(at), there) for at, there in planted.items()], float(now))
        for route, planted in canaries.items()
    }
