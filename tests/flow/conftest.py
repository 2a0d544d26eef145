"""A world per test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.core.route import Mode
from tests.flow.world import MakeWorld, World
from tests.swallowed import watched_loop as watched_loop


@pytest.fixture
async def make_world() -> AsyncIterator[MakeWorld]:
    """Worlds with other policies, or more processes on one shop."""
    made: list[World] = []

    def make(**changes: Any) -> World:
        made.append(World(**changes))
        return made[-1]

    yield make
    for world in made:
        await world.end()


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world()


@pytest.fixture
async def inbox(make_world: MakeWorld) -> World:
    """A route that stores first."""
    return make_world(mode=Mode.INBOX)
