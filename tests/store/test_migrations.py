"""The schema: from nothing, together, by hand; and the role that runs on it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from gateway.core.claim import Ending, Seen, Won
from gateway.core.inbox import Accepted, EntryEnding
from gateway.core.observing import Count, Noted, What
from gateway.core.outcome import Reply
from gateway.core.retention import Told
from gateway.store import migrate as migrations
from gateway.store.migrate import migrate
from gateway.store.multihost import NoWritableHost
from tests.rig.deadline import eventually
from tests.store.batches import asks_for, conclusion_of, fresh_items, offer_of
from tests.store.stores import (
    PATIENCE,
    ROUTE,
    OpenStore,
    Stores,
    conclusion,
    fresh_ask,
    fresh_offer,
    lapse,
)

ROLES = Path(__file__).parents[2] / "deploy" / "roles.sql"
USER = "dedup_gateway"
ALL = [migration.name for migration in migrations.migrations()]


async def schema_of(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """All that a migration could have made: columns, constraints, settings, remarks."""
    connection = await asyncpg.connect(dsn)
    try:
        found = {}
        for what, query in {
            "columns": "select attrelid::regclass::text, attname, atttypid::regtype::text,"
            " attnotnull, col_description(attrelid, attnum) from pg_attribute"
            " where attnum > 0 and attrelid in (select oid from pg_class"
            " where relnamespace = 'dedup'::regnamespace)",
            "constraints": "select conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
            " from pg_constraint where connamespace = 'dedup'::regnamespace",
            "tables": "select relname, reloptions::text, obj_description(oid) from pg_class"
            " where relnamespace = 'dedup'::regnamespace",
            "migrations": "select version, name from dedup.migrations",
        }.items():
            rows = await connection.fetch(f"{query} order by 1, 2")
            found[what] = [tuple(row) for row in rows]
        return found
    finally:
        await connection.close()


async def test_an_empty_database_gets_everything_once(dsn: str) -> None:
    assert await migrate(dsn) == ALL
    before = await schema_of(dsn)
    assert await migrate(dsn) == []
    assert await schema_of(dsn) == before
    assert [version for version, _ in before["migrations"]] == list(range(1, len(ALL) + 1))


async def test_of_many_that_start_together_one_migrates(dsn: str) -> None:
    applied = await asyncio.gather(*(migrate(dsn) for _ in range(8)))
    assert sorted(applied) == [[]] * 7 + [ALL]


async def test_the_printed_script_makes_what_migrating_makes(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(migrations.script())
    by_hand = await schema_of(dsn)
    assert await migrate(dsn) == []
    await connection.execute("drop schema dedup cascade")
    await connection.close()
    await migrate(dsn)
    assert await schema_of(dsn) == by_hand


async def test_a_migration_that_fails_leaves_nothing_behind(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("create schema dedup; create table dedup.replies (nonsense int)")
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrate(dsn)
    assert await connection.fetchval("select to_regclass('dedup.claims') is null")
    assert await connection.fetchval("select to_regclass('dedup.migrations') is null")
    await connection.execute("drop table dedup.replies")
    await connection.close()
    assert await migrate(dsn) == ALL


async def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(NoWritableHost):
        await migrate("postgresql://nobody@127.0.0.1:1/nothing")


@pytest.fixture
async def role_dsn(database: str, sql: asyncpg.Connection) -> str:
    """The database, as the role of deploy/roles.sql. The role is the server's, so it stays."""
    await sql.execute(ROLES.read_text())
    return as_user(database, USER)


async def test_the_role_suffices_for_all_that_a_gateway_does(
    stores: Stores, role_dsn: str, sql: asyncpg.Connection
) -> None:
    store = await stores.open(role_dsn)
    ask, gone = fresh_ask(), fresh_ask()
    assert isinstance(await store.arrive(ask), Won)
    await lapse(sql, ask.key)
    heir = fresh_ask(ask.key)
    assert isinstance(await store.arrive(heir), Won)
    assert (await store.settle(heir, Ending.COMPLETE)).changed
    assert isinstance(await store.arrive(fresh_ask(ask.key)), Seen)
    assert (await store.settle(gone, Ending.COMPLETE)).late
    await store.inner.keep(ask.key, Reply(200, b"OK", (), b"done"))
    assert await store.inner.recall(ask.key)
    await store.inner.note(1, [Noted(Count(ROUTE, bytes(16), What.NEW, ""), 1, 0.0, "evt_1")])
    assert await store.inner.forget_notes(1) == 0
    await live_an_entrys_life(store, sql)
    await live_a_batchs_life(store, sql)
    await live_a_memorys_life(store, sql)
    assert not store.errors
    assert await sql.fetchval("select count(*) from pg_stat_activity where usename = $1", USER)


@pytest.mark.parametrize("table", ["entries", "entry_items"])
async def test_a_role_that_lacks_what_a_migration_brought_is_named_before_a_delivery_comes(
    table: str, stores: Stores, role_dsn: str, sql: asyncpg.Connection
) -> None:
    """Else a rollout that forgot roles.sql would be ready, and turn away everything."""
    await sql.execute(f"revoke all on dedup.{table} from {USER}")
    store = await stores.open(role_dsn, up=False)
    await store.inner.first_look(PATIENCE)
    assert f"the role lacks select on dedup.{table}" in (store.inner.problem or "")
    await sql.execute(ROLES.read_text())
    await store.up()


async def live_an_entrys_life(store: OpenStore, sql: asyncpg.Connection) -> None:
    """Every statement of the inbox once."""
    held = fresh_ask()
    await store.arrive(held)
    assert await store.store(fresh_offer(held.key, token=held.token))
    (leased,) = await store.lease()
    assert (await store.conclude(conclusion(leased, EntryEnding.BURY))).changed
    assert await store.inner.revive(fresh_offer(held.key))
    (leased,) = await store.lease(newest=True)
    assert (await store.conclude(conclusion(leased, EntryEnding.DELIVER))).changed
    assert isinstance(await store.accept(fresh_offer()), Accepted)
    assert await store.inner.due([ROUTE]) == {ROUTE}
    assert len(await store.inner.waiting()) == 1
    assert await store.inner.orphans([]) == {ROUTE: 1}
    await sql.execute(
        "update dedup.entries set settled = now() - interval '1 day' where state = 'd'"
    )
    assert await store.inner.forget(ROUTE, 60, 10) == 1


async def live_a_batchs_life(store: OpenStore, sql: asyncpg.Connection) -> None:
    """Every statement about items once."""
    asks = asks_for(fresh_items(2))
    await store.arrive_all(asks)
    offer = offer_of(asks)
    assert await store.store(offer)
    assert (await store.conclude(conclusion_of(offer, EntryEnding.BURY))).changed
    assert await store.inner.revive(offer)
    assert (await store.conclude(conclusion_of(offer, EntryEnding.DELIVER))).changed
    await sql.execute(
        "update dedup.entries set settled = now() - interval '1 day' where state = 'd'"
    )
    assert await store.inner.forget(ROUTE, 60, 10) == 1
    assert await sql.fetchval("select count(*) from dedup.entry_items") == 0


async def live_a_memorys_life(store: OpenStore, sql: asyncpg.Connection) -> None:
    """Every statement about retention, with something to do for each."""
    retention = store.inner.retention
    assert await retention.is_on_record()
    assert await retention.on_record([ROUTE], [])
    assert await retention.remembering([ROUTE]) == {ROUTE}
    for seconds in (7200, 3600):
        assert await retention.register([Told(ROUTE, seconds, "/", "a test")], "me")
    assert await retention.shortened([ROUTE])
    assert await retention.renew({ROUTE: b"another"}) == [ROUTE]
    await retention.leave([ROUTE])
    await retention.plant([ROUTE])
    await sql.execute("""
        update dedup.claims set first_seen = 1 where token is null;
        update dedup.canaries set planted = 1;
        insert into dedup.canaries (route, planted, key) select 1, 2, gen_random_uuid();
        insert into dedup.purges (began, who) select now() - interval '2 years', 'me';
        delete from dedup.jobs;
    """)
    assert ROUTE in await retention.memories([ROUTE])
    run = await retention.take_purge(1, 60.0, "me")
    assert run is not None
    assert await retention.keep_purge(1, 60.0)
    for _ in range(2):
        await retention.purge(run, 0, await retention.pages())
    assert await sql.fetchval("select sum(purged) from dedup.purges where run = $1", run)
    assert await retention.end_purge(1, 3600.0, run)
    assert await retention.last_purge()
    assert await sql.fetchval("select count(*) from dedup.canaries") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "drop table dedup.claims",
        "create table dedup.mine ()",
        "create schema mine",
        "create table public.mine ()",
        "truncate dedup.claims",
        "delete from dedup.routes",
        "delete from dedup.jobs",
        "update dedup.canaries set planted = 0",
        "delete from dedup.retentions",
        "update dedup.purges set who = 'me'",
        "update dedup.actions set who = 'me'",
        "delete from dedup.actions",
        "truncate dedup.entries",
        "truncate dedup.entry_items",
        "alter table dedup.claims add column mine int",
        "update dedup.routes set name = 'mine'",
        "insert into dedup.migrations (version, name) values (99, 'mine')",
    ],
)
async def test_the_role_can_do_nothing_else(statement: str, role_dsn: str) -> None:
    connection = await asyncpg.connect(role_dsn)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_store_that_may_migrate_does_so_and_one_that_may_not_names_the_command(
    dsn: str, stores_on_nothing: Stores
) -> None:
    admin = await asyncpg.connect(dsn)
    name = f"poor_{uuid.uuid4().hex[:8]}"
    await admin.execute(f"create role {name} login")
    try:
        poor = await stores_on_nothing.open(as_user(dsn, name), up=False)
        await eventually(lambda: "migrate" in (poor.inner.problem or ""), within=PATIENCE)
        assert poor.inner.problem is not None
        assert poor.inner.problem.startswith(
            f"schema is at version 0, this release needs {len(ALL)}: run `dedup-gateway migrate`"
        )
        assert await admin.fetchval("select to_regnamespace('dedup') is null")
        rich = await stores_on_nothing.open(dsn)
        assert isinstance(await rich.arrive(fresh_ask()), Won)
        await admin.execute(f"grant usage on schema dedup to {name}")
        await admin.execute(f"grant all on all tables in schema dedup to {name}")
        await poor.up()
        assert isinstance(await poor.arrive(fresh_ask()), Won)
    finally:
        await stores_on_nothing.close()
        await admin.execute(f"drop owned by {name}")
        await admin.execute(f"drop role {name}")
        await admin.close()


def as_user(dsn: str, user: str) -> str:
    parts = urlsplit(dsn)
    netloc = f"{quote(user)}@" + parts.netloc.rpartition("@")[2]
    query = "&".join(p for p in parts.query.split("&") if p and not p.startswith("user="))
    return parts._replace(netloc=netloc, query=query).geturl()


@pytest.fixture
async def stores_on_nothing(dsn: str) -> AsyncIterator[Stores]:
    """Stores on a database without our schema."""
    opened = Stores(dsn)
    yield opened
    await opened.close()


@pytest.mark.row(107)
async def test_a_newer_schema_is_accepted_by_this_release(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    await sql.execute("insert into dedup.migrations (version, name) values (99, 'later')")
    await sql.execute("alter table dedup.claims add column later text")
    store = await stores.open()
    assert isinstance(await store.arrive(fresh_ask()), Won)
    assert await migrate(stores.dsn) == []
