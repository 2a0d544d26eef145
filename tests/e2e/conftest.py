"""One database and one consumer per module; gateways are started by the module that needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig.postgres import Server
from tests.rig.world import World, create_database, drop_database


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(postgres_dsn: str) -> AsyncIterator[str]:
    dsn = await create_database(postgres_dsn)
    yield dsn
    await drop_database(postgres_dsn, dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Server]:
    """A server of the module's own, which it may stop and break."""
    started = Server()
    try:
        started.start()
        yield started
    finally:
        started.remove()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    database_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    built = World(database_dsn, tmp_path_factory.mktemp("world"))
    await built.consumer.start()
    yield built
    await built.close()
