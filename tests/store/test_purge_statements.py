"""Purging beside deliveries: what it reads, that it waits for nothing, and what it never takes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending, Won
from gateway.core.event import EventKey
from tests.rig.deadline import eventually
from tests.store.purgeable import RETENTION, begin
from tests.store.statements import ending, storing, take_over
from tests.store.stores import (
    PATIENCE,
    OpenStore,
    Stores,
    at_once,
    entry,
    fresh_ask,
    fresh_key,
    fresh_offer,
    row,
)
from tests.store.test_items_statements import BACKLOG, LISTED, MEMORY, plan_of

ALL = ("(0,0)", "(4000000000,0)")
OLD = 60 * 86400
# Races: rounds, and events in each.
ROUNDS, CROWD = 60, 12


@pytest.fixture
async def run(sql: asyncpg.Connection) -> int:
    """A run on record; the route of `stores` keeps claims for ten days."""
    await sql.execute(
        "insert into dedup.routes (id, name, recipe, retention)"
        " values (1, 'orders', 'recipe', 864000)"
    )
    return await begin(sql)


async def old_claim(
    sql: asyncpg.Connection, key: EventKey, state: bytes = b"c", token: int = 1
) -> None:
    """One whose retention is over long ago: lapsed if it is claimed."""
    held = state in b"cC"
    await sql.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint, token, until,"
        " attempt) values ($1, extract(epoch from now())::int4 - $2::int4, 1, $3, 'a', $4,"
        " case when $4::int8 is not null then now() - interval '50 days' end, 1)",
        *(UUID(key.digest), OLD, state, token if held else None),
    )


async def purge(sql: asyncpg.Connection, run: int) -> int:
    return sum(claims for _, claims, _ in await sql.fetch(RETENTION["purge"], *ALL, run))


async def test_a_step_reads_its_pages_and_nothing_else_however_long_the_tables_are(
    sql: asyncpg.Connection, run: int
) -> None:
    for statement in (MEMORY, BACKLOG, LISTED):
        await sql.execute(statement)
    await sql.execute("""
        insert into dedup.replies (key, kept, status, body)
        select md5(i::text)::uuid, 1, 200, '' from generate_series(1, 60000) as i
    """)
    await sql.execute("""
        insert into dedup.canaries (route, planted, key)
        select 1 + i % 5, i, md5('canary ' || i)::uuid from generate_series(1, 7000) as i
    """)
    tables = ("claims", "entries", "entry_items", "replies", "canaries", "routes", "purges")
    await sql.execute(f"vacuum analyze {', '.join(f'dedup.{table}' for table in tables)}")
    long = ("claims", "entries", "entry_items", "replies")
    for mode in ("generic", "custom"):
        await sql.execute(f"set plan_cache_mode = force_{mode}_plan")
        for last in (32, 200):
            step = ["'(0,0)'", f"'({last},0)'"]
            plan = await plan_of(sql, f"purge_{mode}_{last}", RETENTION["purge"], [*step, str(run)])
            for table in long:
                assert f"Seq Scan on {table}" not in plan, plan
            assert "Tid Range Scan on claims" in plan, plan
            assert "Tid Range Scan on replies" in plan, plan
            assert "Tid Scan on claims" in plan, plan
            for index in ("entries_pkey", "entry_items_pkey", "replies_pkey"):
                assert index in plan, plan
            plan = await plan_of(
                sql, f"look_{mode}_{last}", RETENTION["claiming"], ["'{orders}'", *step]
            )
            assert "Seq Scan on claims" not in plan, plan
            assert "Tid Range Scan on claims" in plan, plan
        plan = await plan_of(sql, f"memory_{mode}", RETENTION["memory"], ["'{orders}'", "3600"])
        assert "Seq Scan on claims" not in plan, plan
        assert "claims_pkey" in plan, plan


async def test_a_claim_that_somebody_has_locked_is_left_alone_and_nothing_waits(
    sql: asyncpg.Connection, other: asyncpg.Connection, run: int
) -> None:
    busy, idle = fresh_key(), fresh_key()
    for key in (busy, idle):
        await old_claim(sql, key)
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for no key update", UUID(busy.digest)
        )
        await sql.execute("set lock_timeout = '1ms'")
        assert await purge(sql, run) == 1
    assert await row(sql, busy)
    assert not await row(sql, idle)
    assert await purge(sql, run) == 1


@pytest.fixture
async def slow(
    sql: asyncpg.Connection, database: str, run: int
) -> AsyncIterator[asyncpg.Connection]:
    """A session for which asking the time takes a moment, in which much can happen.

    Volatile: else it would be asked while the statement is planned, before it has its snapshot.
    """
    await sql.execute("""
        create schema slow;
        create function slow.now() returns timestamptz volatile language plpgsql as $$
        begin
            perform pg_sleep(0.3);
            return pg_catalog.now();
        end $$;
    """)
    session = await asyncpg.connect(database, server_settings={"search_path": "slow, pg_catalog"})
    yield session
    await session.close()


async def is_asleep(sql: asyncpg.Connection) -> bool:
    """Whether a statement has its snapshot, and sleeps."""
    return bool(
        await sql.fetchval(
            "select true from pg_stat_activity"
            " where datname = current_database() and wait_event = 'PgSleep'"
        )
    )


async def test_a_claim_that_changes_while_a_step_is_under_way_is_not_purged(
    sql: asyncpg.Connection, other: asyncpg.Connection, slow: asyncpg.Connection, run: int
) -> None:
    """Stored, it is as old as before, and the step does not see its entry."""
    for what in ("stored", "taken over", "completed", "released"):
        ask = fresh_ask()
        await old_claim(sql, ask.key, token=ask.token)
        statement = {
            "stored": storing(fresh_offer(ask.key, token=ask.token)),
            "taken over": take_over(fresh_ask(ask.key), 1, b"c"),
            "completed": ending(ask, b"d"),
            "released": ending(ask, b"R"),
        }[what]
        step = asyncio.ensure_future(purge(slow, run))
        await eventually(lambda: is_asleep(other), within=PATIENCE)
        assert len(await sql.fetch(*statement)) == 1
        assert not step.done()
        assert await asyncio.wait_for(step, PATIENCE) == 0, what
        assert await row(sql, ask.key), what
        await sql.execute("delete from dedup.claims; delete from dedup.entries")


async def deliver(store: OpenStore, sql: asyncpg.Connection, key: EventKey) -> None:
    """It takes the lapsed claim over, or makes a new one where that is gone."""
    ask = fresh_ask(key)
    assert isinstance(await store.arrive(ask), Won)
    found = await row(sql, key)
    assert found is not None
    assert found["token"] == ask.token


async def keep(store: OpenStore, sql: asyncpg.Connection, key: EventKey) -> None:
    """A holder that comes late stores its delivery, or learns that its claim is gone."""
    stored = await store.store(fresh_offer(key, token=1))
    assert stored == (await row(sql, key) is not None)
    assert stored == (await entry(sql, key) is not None)


async def complete(store: OpenStore, sql: asyncpg.Connection, key: EventKey) -> None:
    """A holder that comes late had success."""
    ask = fresh_ask(key)._replace(token=1)
    assert (await store.settle(ask, Ending.COMPLETE)).changed
    found = await row(sql, key)
    assert found is not None
    assert found["state"] in b"dD"


async def test_nothing_that_is_won_stored_or_completed_is_lost_to_a_purge_at_the_same_time(
    stores: Stores, database: str, other: asyncpg.Connection, run: int
) -> None:
    store, dice, purged = await stores.open(), random.Random(1), 0
    async with asyncpg.create_pool(database, min_size=1, max_size=4) as looks:
        for _ in range(ROUNDS):
            keys = [fresh_key() for _ in range(CROWD)]
            for key in keys:
                await old_claim(other, key, dice.choice((b"c", b"C")))
            late = [dice.choice((deliver, keep, complete))(store, looks, key) for key in keys]
            *_, gone = await at_once([*late, after(dice.random() * 0.006, purge(other, run))])
            purged += gone or 0
    assert 0 < purged < ROUNDS * CROWD
    assert not store.errors


async def after(seconds: float, work: Awaitable[int]) -> int:
    """Some turns of the loop later."""
    await asyncio.sleep(seconds)
    return await work
