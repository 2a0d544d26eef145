"""Releases on one schema: what an older one left is kept, and an older one runs on the newest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from gateway.core.claim import Ask, Held, Seen, State, Won
from gateway.core.inbox import Accepted, EntryState
from gateway.store import migrate as migrations
from gateway.store.migrate import migrate
from gateway.store.queries import named
from tests.store.batches import asks_for, fresh_items, offer_of, states
from tests.store.statements import CLAIMS, arrival, completion, ending, storing, take_over
from tests.store.stores import Stores, claim, entry, fresh_ask, fresh_offer, lapse

HERE = Path(__file__).parent
BEFORE_INBOX = HERE / "claims_before_inbox.sql"
BEFORE_BATCHES = [HERE / f"{name}_before_batches.sql" for name in ("claims", "inbox")]
ALL = [migration.name for migration in migrations.migrations()]


async def at_version(dsn: str, version: int) -> asyncpg.Connection:
    """A session on the schema as it was then."""
    old = await asyncpg.connect(dsn)
    await old.execute("create schema dedup")
    await old.execute(
        "create table dedup.migrations"
        " (version int primary key, name text not null, at timestamptz not null default now())"
    )
    for migration in migrations.migrations()[:version]:
        await old.execute(migration.sql)
        await old.execute(
            "insert into dedup.migrations values ($1, $2)", migration.version, migration.name
        )
    return old


def taking_over(ask: Ask, attempt: int, state: bytes) -> tuple[object, ...]:
    """What that statement took before it kept the id of whoever took over."""
    _, *columns, _, wait = take_over(ask, attempt, state)
    return (*columns, wait)


async def test_claims_of_the_first_schema_are_kept_by_the_one_with_an_inbox(
    dsn: str, stores_on_nothing: Stores
) -> None:
    old = await at_version(dsn, 1)
    statements = named(BEFORE_INBOX.read_text())
    done, busy = fresh_ask(), fresh_ask()
    for ask in (done, busy):
        _, *arguments = arrival(ask)
        await old.fetch(statements["arrive"].sql, *arguments)
    await old.fetch(*ending(done, b"d"))
    await old.close()
    assert await migrate(dsn) == ALL[1:]
    store = await stores_on_nothing.open(dsn)
    assert isinstance(await store.accept(fresh_offer(done.key)), Seen)
    assert await store.store(fresh_offer(busy.key, token=busy.token))
    assert len(await store.lease()) == 1


@pytest.mark.row(107)
async def test_a_gateway_from_before_the_inbox_runs_on_its_schema_and_respects_what_is_stored(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """What it completes late, the next lease closes."""
    statements = named(BEFORE_INBOX.read_text())

    async def old(name: str, *arguments: object) -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = await sql.fetch(statements[name].sql, *arguments)
        return found

    store = await stores.open()
    offer, ask, late = fresh_offer(), fresh_ask(), fresh_ask()
    await store.accept(offer)
    ((won, is_open, state, *_),) = await old("arrive", *arrival(fresh_ask(offer.key))[1:])
    assert (won, is_open, state) == (False, False, b"s")
    await old("arrive", *arrival(ask)[1:])
    await lapse(sql, ask.key)
    assert len(await old("take_over", *taking_over(fresh_ask(ask.key), 1, b"c"))) == 1
    assert await old("settle", *ending(ask, b"d")[1:]) == []
    for asked in (ask, late, fresh_ask(offer.key)):
        _, keys, routes, _, *rest = completion(asked)
        assert len(await old("complete", keys, routes, *rest)) == 1
        found = await claim(sql, asked.key)
        assert found is not None
        assert found.state is State.COMPLETED
    assert await store.lease() == []
    closed = await entry(sql, offer.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    assert set(statements) == set(CLAIMS)


@pytest.fixture
async def stores_on_nothing(dsn: str) -> AsyncIterator[Stores]:
    """Stores on a database without our schema."""
    opened = Stores(dsn)
    yield opened
    await opened.close()


async def test_what_the_release_before_batches_left_is_kept_and_batches_find_it(
    dsn: str, stores_on_nothing: Stores
) -> None:
    old = await at_version(dsn, 2)
    statements = named("\n".join(file.read_text() for file in BEFORE_BATCHES))
    done, busy, dead = fresh_ask(), fresh_ask(), fresh_ask()
    for ask in (done, busy, dead):
        _, *arguments = arrival(ask)
        await old.fetch(statements["arrive"].sql, *arguments)
    await old.fetch(*ending(done, b"d"))
    await old.execute("insert into dedup.routes (id, name, recipe) values (1, 'orders', 'recipe')")
    _, *arguments = storing(fresh_offer(dead.key, token=dead.token))
    await old.fetch(statements["store"].sql, *arguments)
    await old.execute("update dedup.entries set state = 'x', settled = now()")
    await old.close()
    assert await migrate(dsn) == ALL[2:]
    store = await stores_on_nothing.open(dsn)
    was_done, is_busy, is_dead, new = await store.arrive_all(
        asks_for([done.key, busy.key, dead.key, *fresh_items(1)])
    )
    assert isinstance(was_done, Seen)
    assert isinstance(is_busy, Held)
    assert isinstance(is_dead, Seen)
    assert is_dead.dead
    assert isinstance(new, Won)
    assert await store.inner.revive(offer_of(asks_for([dead.key])))
    (leased,) = await store.lease()
    assert (leased.key, leased.items) == (dead.key, ())


@pytest.mark.row(107)
async def test_a_gateway_from_before_batches_delivers_their_entries_and_respects_their_items(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    statements = named("\n".join(file.read_text() for file in BEFORE_BATCHES))
    texts = {name: statement.sql for name, statement in statements.items()}
    store = await stores.open()
    keys = fresh_items(2)
    asks = asks_for(keys)
    await store.arrive_all(asks)
    offer = offer_of(asks, EntryState.PENDING)
    await store.store(offer)
    ((won, is_open, state, *_),) = await sql.fetch(
        texts["arrive"], *arrival(fresh_ask(keys[0]))[1:]
    )
    assert (won, is_open, state) == (False, False, b"s")
    (leased,) = await sql.fetch(texts["lease"], 1, 10, 99, 30.0, 2**20)
    assert (leased["key"].bytes, leased["body"]) == (offer.key.digest, offer.delivery.body)
    delivered = fresh_ask(offer.key)._replace(token=99)
    _, *arguments = completion(delivered)
    assert len(await sql.fetch(texts["complete"], *arguments)) == 1
    closed = await entry(sql, offer.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    assert await states(sql, keys) == [(State.STORED, False)] * 2
    assert all(isinstance(told, Seen) for told in await store.arrive_all(asks_for(keys)))
    assert await store.lease() == []
    ask = fresh_ask()
    await sql.fetch(texts["arrive"], *arrival(ask)[1:])
    await lapse(sql, ask.key)
    assert len(await sql.fetch(texts["take_over"], *taking_over(ask, 1, b"c"))) == 1
    accepting = fresh_offer()
    assert isinstance(await store.accept(accepting), Accepted)
    await sql.execute("update dedup.entries set state = 'd', settled = now() - interval '1 day'")
    assert len(await sql.fetch(texts["forget"], 1, 60.0, 10)) == 2
    assert all(isinstance(told, Seen) for told in await store.arrive_all(asks_for(keys)))
