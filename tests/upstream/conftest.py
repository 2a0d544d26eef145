"""Everything in here runs on both loops: uvloop is shipped, asyncio is what it falls back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from gateway.upstream.hop import Hop
from tests.swallowed import watched_loop as watched_loop
from tests.upstream.scripted import ScriptedConsumer


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Told to pytest-asyncio, for this directory."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def consumer() -> AsyncIterator[ScriptedConsumer]:
    """A consumer that does what the test says, byte by byte."""
    async with ScriptedConsumer() as scripted:
        yield scripted


@pytest.fixture
async def hops() -> AsyncIterator[list[Hop]]:
    """Hops that are closed when the test ends."""
    made: list[Hop] = []
    yield made
    for hop in made:
        await hop.abort()
