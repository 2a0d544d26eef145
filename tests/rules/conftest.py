"""A scrape, once for all tests of a worker, and the rules that are tried on it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.rules import Watched, rules
from tests.rig.world import World, create_database, drop_database
from tests.rules.promtool import Promtool
from tests.rules.scrape import Scraped, scrape


@pytest.fixture(scope="session")
def scraped(postgres_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    place = tmp_path_factory.mktemp("scraped")

    async def made() -> Scraped:
        dsn = await create_database(postgres_dsn)
        try:
            return await scrape(World(dsn, place), place)
        finally:
            await drop_database(postgres_dsn, dsn)

    return asyncio.run(made())


@pytest.fixture(scope="session", params=["any gateway", "this file"])
def promtool(
    request: pytest.FixtureRequest, scraped: Scraped, tmp_path_factory: pytest.TempPathFactory
) -> Promtool:
    """With the rules for any gateway, and with those that are made from the gateway's file."""
    made = rules(Watched() if request.param == "any gateway" else scraped.watched)
    return Promtool(tmp_path_factory.mktemp("promtool"), request.param, made, scraped.samples)
