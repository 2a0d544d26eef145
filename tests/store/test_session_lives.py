"""Sessions: which one serves a statement, and which never does again."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from gateway.core.claim import Seen, StoreAway, Won
from gateway.store import session
from gateway.store.multihost import parse
from gateway.store.queries import Statement
from gateway.store.session import Sessions
from tests.rig.deadline import eventually
from tests.store.stores import (
    PATIENCE,
    Stores,
    fresh_ask,
    fresh_key,
)

ONE = Statement("one", "select 1")


class Hands:
    """A clock that moves by assignment."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_session_that_is_too_old_serves_nobody(database: str) -> None:
    clock = Hands()
    sessions = Sessions(parse(database), clock, lambda _: None, lambda *_: None)
    old, busy = await sessions.take(), await sessions.take()
    sessions.give_back(old)
    clock.now = session.MAX_AGE
    fresh = await sessions.take()
    assert fresh is not old
    assert old.is_closed()
    await sessions.run(busy, ONE, (), 1)  # its statement is not cut off
    assert busy.is_closed()
    await sessions.run(fresh, ONE, (), 1)
    assert await sessions.take() is fresh
    sessions.give_back(fresh)
    await sessions.close()


async def test_a_session_whose_statement_was_left_serves_no_other(database: str) -> None:
    sessions = Sessions(parse(database), time.monotonic, lambda _: None, lambda *_: None)
    busy = await sessions.take()
    left = asyncio.ensure_future(sessions.run(busy, Statement("long", "select pg_sleep(9)"), (), 1))
    await asyncio.sleep(0)  # it has been sent
    left.cancel()
    await asyncio.wait([left])
    assert busy.is_closed()
    assert await sessions.take() is not busy
    await sessions.close()


async def test_a_session_opened_while_all_expire_serves_its_one_statement_and_no_other(
    database: str,
) -> None:
    sessions = Sessions(parse(database), time.monotonic, lambda _: None, lambda *_: None)
    busy = await sessions.take()
    sessions.expire()
    await sessions.run(busy, ONE, (), 1)
    assert busy.is_closed()
    taken = await sessions.take()
    assert taken is not busy
    sessions.give_back(taken)
    await sessions.close()


async def test_a_closed_store_leaves_no_session_behind(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    keys = [fresh_key() for _ in range(20)]
    calls = [asyncio.ensure_future(store.arrive(fresh_ask(key))) for key in keys]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await store.inner.stop()
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(t, StoreAway | Won | Seen) for t in told)

    async def nobody_is_left() -> bool:
        left = await sql.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'dedup-gateway'"
        )
        return bool(left == 0)

    await eventually(nobody_is_left, within=PATIENCE)
