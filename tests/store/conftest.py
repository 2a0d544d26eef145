"""A migrated database, a clock in it that moves by assignment, and stores on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway.store.migrate import migrate
from tests.fault_proxy import FaultProxy
from tests.store.batches import ClaimedBatch, claim_batch
from tests.store.stores import DatabaseClock, Stores


@pytest.fixture
async def database(dsn: str) -> str:
    """The DSN of a database that is at our version."""
    await migrate(dsn)
    return dsn


@pytest.fixture
async def sql(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A look at the tables that no store knows of."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
async def other(database: str) -> AsyncIterator[asyncpg.Connection]:
    """Another session, for what stands in the way."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
async def clock(sql: asyncpg.Connection) -> DatabaseClock:
    """Replaces `now()` for every session that begins later; so ask for it before `stores`."""
    clock = DatabaseClock(sql)
    await clock.install()
    return clock


@pytest.fixture
async def stores(database: str) -> AsyncIterator[Stores]:
    """Opens stores on the database, or on another DSN, and closes them."""
    opened = Stores(database)
    yield opened
    await opened.close()


@pytest.fixture
async def batch(stores: Stores) -> ClaimedBatch:
    """Three items, claimed together in a store of their own."""
    return await claim_batch(await stores.open())


@pytest.fixture
async def wire(database: str) -> AsyncIterator[FaultProxy]:
    """Between a store and Postgres: passes until it is told otherwise."""
    proxy = FaultProxy(database)
    await proxy.start()
    yield proxy
    await proxy.stop()
