"""The statements themselves: fences, lock waits, plans, and what they leave behind."""

from __future__ import annotations

import asyncio
import time
import uuid

import asyncpg
import pytest

from gateway.core.claim import Ending, Seen, State, Won
from tests.store.statements import CLAIMS, arrival, ending, take_over
from tests.store.stores import (
    PATIENCE,
    Stores,
    at_once,
    claim,
    fresh_ask,
    fresh_key,
    lapse,
    row,
)


async def test_a_delayed_copy_of_a_take_over_changes_nothing(sql: asyncpg.Connection) -> None:
    first, second, third = (fresh_ask(key) for key in [fresh_key()] * 3)
    await sql.fetch(*arrival(first))
    await sql.fetch(*ending(first, b"r"))
    assert len(await sql.fetch(*take_over(second, 1, b"r"))) == 1
    await sql.fetch(*ending(second, b"r"))  # released again: open, in the state that was seen
    before = await row(sql, first.key)
    assert await sql.fetch(*take_over(second, 1, b"r")) == []
    assert await row(sql, first.key) == before
    assert len(await sql.fetch(*take_over(third, 2, b"r"))) == 1


async def test_a_take_over_never_touches_a_live_lease(sql: asyncpg.Connection) -> None:
    holder = fresh_ask()
    await sql.fetch(*arrival(holder))
    before = await row(sql, holder.key)
    assert await sql.fetch(*take_over(fresh_ask(holder.key), 1, b"c")) == []
    assert await row(sql, holder.key) == before


async def test_a_take_over_fails_when_the_claim_was_released_after_the_look(
    sql: asyncpg.Connection,
) -> None:
    """Or it would be told as lapsed and doubtful what ended well."""
    holder = fresh_ask()
    await sql.fetch(*arrival(holder))
    await sql.fetch(*ending(holder, b"r"))
    assert await sql.fetch(*take_over(fresh_ask(holder.key), 1, b"c")) == []


@pytest.mark.parametrize("how", [b"r", b"R", b"d"])
async def test_a_holder_cannot_settle_twice_nor_after_its_claim_was_taken(
    how: bytes, sql: asyncpg.Connection
) -> None:
    first = fresh_ask()
    second = fresh_ask(first.key)
    await sql.fetch(*arrival(first))
    await lapse(sql, first.key)
    await sql.fetch(*take_over(second, 1, b"c"))
    assert await sql.fetch(*ending(first, how)) == []
    assert len(await sql.fetch(*ending(second, how))) == 1
    assert await sql.fetch(*ending(second, how)) == []


@pytest.mark.parametrize("name", ["take_over", "settle"])
async def test_a_statement_waits_for_a_lock_as_long_as_it_is_told_and_no_longer(
    name: str, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    holder = fresh_ask()
    await sql.fetch(*arrival(holder))
    await lapse(sql, holder.key)
    async with other.transaction():
        await other.execute("select from dedup.claims for update")
        statement = {
            "take_over": take_over(fresh_ask(holder.key), 1, b"c", wait="60ms"),
            "settle": ending(holder, b"d", wait="60ms"),
        }[name]
        began = time.monotonic()
        with pytest.raises(asyncpg.LockNotAvailableError):
            await asyncio.wait_for(sql.fetch(*statement), PATIENCE)
        assert time.monotonic() - began >= 0.05


async def test_the_bound_on_lock_waits_ends_with_its_statement(sql: asyncpg.Connection) -> None:
    """A pooler hands the session to a stranger next."""
    ask = fresh_ask()
    for statement in (arrival(ask), take_over(ask, 1, b"c"), ending(ask, b"d")):
        await sql.fetch(*statement)
        assert await sql.fetchval("show lock_timeout") == "0"


async def test_a_duplicate_does_not_wait_for_a_row_that_somebody_settles(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    holder = fresh_ask()
    await sql.fetch(*arrival(holder))
    async with other.transaction():
        await other.fetch(*ending(holder, b"d"))
        ((first, is_open, state, *_),) = await sql.fetch(
            *arrival(fresh_ask(holder.key), wait="1ms")
        )
        assert (first, is_open, state) == (False, False, b"c")


async def test_duplicates_write_no_wal_and_use_no_transaction_id(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    asks = [fresh_ask() for _ in range(200)]
    await at_once(store.arrive(ask) for ask in asks)
    await at_once(store.settle(ask, Ending.COMPLETE) for ask in asks)
    written = []
    for _ in range(8):  # the server itself writes now and then; not each time
        wal, xids = await _written(sql)
        told = await at_once(store.arrive(fresh_ask(ask.key)) for ask in asks)
        assert all(isinstance(t, Seen) for t in told)
        after_wal, after_xids = await _written(sql)
        written.append((after_wal - wal, after_xids - xids))
    assert min(written) == (0, 0)


async def _written(sql: asyncpg.Connection) -> tuple[int, int]:
    found = await sql.fetchrow(
        "select pg_current_wal_insert_lsn() - '0/0' as wal,"
        " txid_snapshot_xmax(txid_current_snapshot()) as xid"
    )
    return int(found["wal"]), int(found["xid"])


@pytest.mark.parametrize("size", [3, 64])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_every_statement_finds_its_rows_by_the_primary_key(
    mode: str, size: int, sql: asyncpg.Connection
) -> None:
    await sql.execute("""
        insert into dedup.claims (key, first_seen, route, state, fingerprint)
        select md5(i::text)::uuid, 1, 1, 'd', 'a' from generate_series(1, 100000) as i
    """)
    await sql.execute("vacuum analyze dedup.claims")
    await sql.execute(f"set plan_cache_mode = {mode}")

    def listed(value: str) -> str:
        return "'{" + ",".join([value] * size) + "}'"

    keys = "'{" + ",".join(str(uuid.uuid4()) for _ in range(size)) + "}'"
    ints, chars, leases, texts = listed("1"), listed("d"), listed("30"), listed("x")
    arguments = {
        "arrive": [keys, ints, ints, leases, chars, texts, "'1s'"],
        "take_over": [keys, ints, chars, ints, leases, chars, texts, "'1s'"],
        "settle": [keys, ints, chars, "'1s'"],
        "complete": [keys, ints, ints, chars, texts, "'1s'"],
    }
    for name, values in arguments.items():
        await sql.execute(f"prepare {name} as {CLAIMS[name]}")
        lines = await sql.fetch(f"explain (costs off) execute {name}({', '.join(values)})")
        plan = "\n".join(line[0] for line in lines)
        assert "Seq Scan on claims" not in plan, plan
        if name != "complete":  # an insert, which meets the key as a conflict
            assert "claims_pkey" in plan, plan


async def test_settling_is_a_heap_only_update(stores: Stores, sql: asyncpg.Connection) -> None:
    """An index on what settling changes would double a claim's size."""
    indexed = await sql.fetch(
        "select attname from pg_index join pg_attribute on attrelid = indrelid"
        " and attnum = any(indkey) where indrelid = 'dedup.claims'::regclass"
    )
    assert [name for (name,) in indexed] == ["key"]


@pytest.mark.parametrize(
    ("event_id", "kept"),
    [
        ("evt_1", "evt_1"),
        ("e" * 300, "e" * 255),
        ("é" * 300, "é" * 255),
        ("nul\x00in it", "nul\ufffdin it"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("'; drop table dedup.claims --", "'; drop table dedup.claims --"),
    ],
)
async def test_an_id_is_kept_for_people_as_far_as_postgres_can(
    event_id: str, kept: str, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    taken, gone = fresh_ask(fresh_key(event_id)), fresh_ask(fresh_key(event_id))
    assert isinstance(await store.arrive(taken), Won)
    assert (await store.settle(gone, Ending.COMPLETE)).late
    for ask in (taken, gone):
        found = await row(sql, ask.key)
        assert found is not None
        assert found["event_id"] == kept


async def test_without_keep_ids_no_id_is_stored(stores: Stores, sql: asyncpg.Connection) -> None:
    store = await stores.open(keep_ids=False)
    taken, gone = fresh_ask(), fresh_ask()
    await store.arrive(taken)
    await store.settle(gone, Ending.COMPLETE)
    assert await sql.fetchval("select count(*) from dedup.claims where event_id is null") == 2


async def test_the_table_refuses_what_is_no_claim(sql: asyncpg.Connection) -> None:
    ask = fresh_ask()
    await sql.fetch(*arrival(ask))
    for nonsense in (
        "state = 'x'",
        "token = null",
        "until = null",
        "attempt = 0",
        "attempt = null",
        "state = 'r'",  # released with a token
        "event_id = repeat('x', 256)",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            await sql.execute(f"update dedup.claims set {nonsense}")
    found = await claim(sql, ask.key)
    assert found is not None
    assert found.state is State.CLAIMED
