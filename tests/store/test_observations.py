"""Notes of routes in observe: totals of series, whoever stores them and however often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import StoreAway
from gateway.core.observing import Count, Noted, Observed, What
from gateway.store.operator import desk
from gateway.store.queries import read
from tests.fault_proxy import FaultProxy, Wire
from tests.store.stores import ROUTE, Stores

RECIPE, OTHER = b"r" * 16, b"o" * 16
NOTE = read("observations.sql")["note"].sql


def noted(
    number: int,
    what: What = What.NEW,
    detail: str = "",
    *,
    age: float = 0.0,
    example: str | None = None,
    recipe: bytes = RECIPE,
) -> Noted:
    return Noted(Count(ROUTE, recipe, what, detail), number, age, example)


async def told(dsn: str, since: float = 0.0, route: str = ROUTE) -> Observed:
    """What a report reads."""
    async with desk(dsn) as opened:
        return await opened.observed(route, RECIPE, since)


async def test_the_totals_of_all_series_add_up(stores: Stores, database: str) -> None:
    one, other = await stores.open(), await stores.open()
    await one.inner.note(1, [noted(3), noted(2, What.DURABLE, "retry", age=9.5, example="evt_1")])
    await other.inner.note(2, [noted(4), noted(1, What.DURABLE, "retry", age=70.0)])
    third = await stores.open()
    await third.inner.note(3, [noted(1, What.DURABLE, "retry", age=1.0, example="evt_9")])
    await one.inner.note(1, [noted(5)])
    found = await told(database)
    assert found.number(What.NEW) == 9
    assert found.by_detail(What.DURABLE) == {"retry": 4}
    assert found.oldest is not None
    assert (found.oldest.greatest, found.example(What.DURABLE)) == (70.0, "evt_9")
    assert found.deliveries == 13


async def test_a_total_that_is_stored_twice_or_late_counts_once(
    stores: Stores, database: str
) -> None:
    store = await stores.open()
    for number in (1, 5, 5, 3):
        await store.inner.note(1, [noted(number, example=f"evt_{number}")])
    found = await told(database)
    assert (found.number(What.NEW), found.example(What.NEW)) == (5, "evt_5")


async def test_a_reply_that_was_lost_counts_nothing_twice(
    stores: Stores, database: str, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    await store.inner.note(1, [noted(1)])
    wire.set(Wire.CUT_REPLIES)
    with pytest.raises(StoreAway) as caught:
        await store.inner.note(1, [noted(2)])
    assert caught.value.undecided
    wire.set(Wire.PASS)
    assert await sql.fetchval("select number from dedup.observations") == 2
    await store.up()
    await store.inner.note(1, [noted(2)])
    assert (await told(database)).number(What.NEW) == 2


async def test_many_processes_store_at_once_and_none_of_it_is_lost(
    stores: Stores, database: str
) -> None:
    opened = [await stores.open() for _ in range(4)]

    async def live(series: int) -> None:
        for number in range(1, 26):
            batch = [noted(number, what) for what in (What.NEW, What.AGAIN, What.PASSED)]
            await opened[series].inner.note(series, batch if series % 2 else batch[::-1])

    await asyncio.gather(*map(live, range(4)))
    assert (await told(database)).deliveries == 4 * 3 * 25


async def test_what_another_key_got_wrong_is_counted_apart(stores: Stores, database: str) -> None:
    store = await stores.open()
    wrong = [noted(7, recipe=OTHER), noted(6, What.MISMATCH, recipe=OTHER)]
    await store.inner.note(1, [*wrong, noted(2)])
    found = await told(database)
    assert (found.deliveries, found.number(What.MISMATCH), found.other_keys) == (2, 0, 7)


async def test_only_what_was_noted_since_then_is_told(
    stores: Stores, database: str, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.inner.note(1, [noted(3)])
    await sql.execute(
        "update dedup.observations set since = now() - interval '8 days',"
        " until = now() - interval '8 days' + interval '1 hour'"
    )
    await store.inner.note(2, [noted(4)])
    now = float(await sql.fetchval("select extract(epoch from now())::float8"))
    assert (await told(database, now - 7 * 86400)).deliveries == 4
    whole = await told(database)
    assert whole.deliveries == 7
    assert whole.until - whole.since == pytest.approx(8 * 86400, abs=60)


async def test_notes_are_deleted_after_90_days_so_many_at_a_time(
    stores: Stores, database: str, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.inner.note(1, [noted(1, what) for what in What])
    await sql.execute("update dedup.observations set since = now() - interval '90 days 1 second'")
    await store.inner.note(2, [noted(2)])
    await sql.execute(
        "update dedup.observations set since = now() - interval '89 days' where series = 2"
    )
    deleted = []
    while some := await store.inner.forget_notes(6):
        deleted.append(some)
    assert deleted[0] == 6
    assert sum(deleted) == len(What)
    assert (await told(database)).deliveries == 2


async def test_no_id_is_kept_as_an_example_where_ids_are_not_kept(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open(keep_ids=False)
    await store.inner.note(1, [noted(1, example="evt_1")])
    assert await sql.fetchval("select example from dedup.observations") is None


async def test_an_example_is_what_the_database_can_keep_of_an_id(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.inner.note(1, [noted(1, detail="json:/\ud800", example="a\x00" + "é" * 300)])
    row = await sql.fetchrow("select detail, example from dedup.observations")
    assert row is not None
    assert (row["detail"], row["example"]) == ("json:/\ufffd", "a\ufffd" + "é" * 253)


async def test_more_than_fit_into_a_statement_are_stored_all_the_same(
    stores: Stores, database: str
) -> None:
    store = await stores.open()
    await store.inner.note(1, [noted(1, detail=f"json:/{number}") for number in range(1201)])
    assert store.sizes("note") == [1, 1, 1]
    assert (await told(database)).deliveries == 1201


async def test_adding_to_a_total_touches_no_index(sql: asyncpg.Connection) -> None:
    """A busy process does so every five seconds, for months."""
    columns: Sequence[Any] = [[1], [UUID(RECIPE)], ["new"], [""], [1], [0.0], [None]]
    async with sql.transaction():
        for number in range(1, 4):
            columns[4][0] = number
            await sql.execute(NOTE, 1, *columns)
        hot = await sql.fetchval(
            "select pg_stat_get_xact_tuples_hot_updated('dedup.observations'::regclass)"
        )
    assert hot == 2


async def test_a_route_that_was_never_seen_has_no_notes(stores: Stores, database: str) -> None:
    store = await stores.open()
    await store.inner.note(1, [noted(3)])
    found = await told(database, route="billing")
    assert (found.deliveries, found.since, found.oldest) == (0, 0.0, None)
