"""Sessions that the server ends, cancels, or turns read-only."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import asyncpg
import pytest

from gateway.core.claim import Ending, Seen, StoreAway, Won
from gateway.store.multihost import parse
from gateway.store.queries import Statement
from gateway.store.session import Aborted, Remedy, Sessions
from tests.rig.deadline import eventually
from tests.store.stores import PATIENCE, Stores, fresh_ask, waiting_for_a_lock

ROUNDS = 6


async def test_backends_that_are_terminated_in_a_storm_lose_and_double_nothing(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    wins: list[Won] = []
    storm = True

    async def terminate() -> None:
        while storm:
            await sql.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'dedup-gateway'"
                " order by state = 'active' desc, random() limit 1"
            )
            await asyncio.sleep(0.1)

    async def deliver() -> None:
        for _ in range(ROUNDS):
            ask = fresh_ask()
            won = await store.arrive(ask, PATIENCE)
            assert isinstance(won, Won)
            wins.append(won)
            while True:
                try:
                    await store.settle(ask, Ending.COMPLETE)
                    break
                except StoreAway:
                    await asyncio.sleep(0.05)
            assert isinstance(await store.arrive(fresh_ask(ask.key), PATIENCE), Seen)

    terminator = asyncio.ensure_future(terminate())
    await asyncio.gather(*(deliver() for _ in range(8)))
    storm = False
    await terminator
    assert {(won.attempt, won.doubtful) for won in wins} == {(1, False)}
    assert store.errors["connection"] > 0
    assert await sql.fetchval("select count(*) from dedup.claims where state = 'd'") == 8 * ROUNDS


async def test_sessions_with_a_demoted_server_are_dropped_and_the_store_says_why(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    before = await _backends(sql)

    async def refused() -> bool:  # the setting reaches a backend between two statements
        try:
            return not await store.arrive(fresh_ask())
        except StoreAway:
            return True

    await _demote(sql, read_only=True)
    try:
        await eventually(refused, within=PATIENCE)
        assert store.errors["read_only"] > 0
        assert "read" in (store.inner.problem or "")
    finally:
        await _demote(sql, read_only=False)
    await store.up()
    assert isinstance(await store.arrive(fresh_ask()), Won)
    assert not before & await _backends(sql)


async def test_a_session_with_a_demoted_server_is_never_put_back(
    database: str, sql: asyncpg.Connection
) -> None:
    errors: list[str] = []
    sessions = Sessions(parse(database), time.monotonic, errors.append, lambda *_: None)
    idle, busy = await sessions.take(), await sessions.take()
    sessions.give_back(idle)
    await _demote(sql, read_only=True)
    try:
        for session in (idle, busy):
            await eventually(partial(_refuses, session), within=PATIENCE)
        write = Statement("write", "insert into dedup.routes values (1, 'x', '', now())")
        with pytest.raises(Aborted) as aborted:
            await sessions.run(busy, write, (), 1)
        assert aborted.value.remedy is Remedy.AGAIN
        assert errors == ["read_only"]
        assert busy.is_closed()
        assert idle.is_closed()
    finally:
        await _demote(sql, read_only=False)
        await sessions.close()


async def _demote(sql: asyncpg.Connection, *, read_only: bool) -> None:
    setting = "= on" if read_only else "= off"
    await sql.execute("set default_transaction_read_only = off")
    await sql.execute(f"alter system set default_transaction_read_only {setting}")
    await sql.execute("select pg_reload_conf()")


async def _refuses(session: asyncpg.Connection) -> bool:
    """Whether the setting has reached its backend, which it does between two statements."""
    return bool(await session.fetchval("show transaction_read_only") == "on")


async def _backends(sql: asyncpg.Connection) -> set[int]:
    found = await sql.fetch(
        "select pid from pg_stat_activity"
        " where datname = current_database() and application_name = 'dedup-gateway'"
    )
    return {pid for (pid,) in found}


async def test_a_cancelled_statement_is_run_again(stores: Stores, sql: asyncpg.Connection) -> None:
    store = await stores.open()
    ask = fresh_ask()
    blocker = await asyncpg.connect(stores.dsn)
    async with blocker.transaction():
        await blocker.execute("lock table dedup.claims in exclusive mode")
        asked = asyncio.ensure_future(store.arrive(ask, PATIENCE))
        pid = await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
        await sql.execute("select pg_cancel_backend($1)", pid)
    await blocker.close()
    assert isinstance(await asked, Won)
