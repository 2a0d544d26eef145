"""A world per test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.route import Mode, OnDoubt, Probe
from tests import routes
from tests.flow.seals import SIGNATURE, Seals
from tests.flow.world import GIVE_UP, MakeWorld, World
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


PROBE = Probe(replace(routes.UPSTREAM, host="app.example"), "/known?id={event_id}", GIVE_UP)


@pytest.fixture
def doubting(make_world: MakeWorld) -> MakeWorld:
    """Routes with a way of their own with doubt, in whatever mode."""

    def make(on_doubt: OnDoubt, mode: Mode = Mode.FORWARD, **changes: Any) -> World:
        probe = PROBE if on_doubt is OnDoubt.PROBE else None
        return make_world(on_doubt=on_doubt, probe=probe, mode=mode, **changes)

    return make


@pytest.fixture
def signed(make_world: MakeWorld) -> MakeWorld:
    """Routes that check signatures."""

    def make(mode: Mode = Mode.FORWARD, **changes: Any) -> World:
        seals = Seals()
        settings = {"signature": SIGNATURE, **changes}
        signer = seals if settings["signature"].resign else None
        return make_world(verifier=seals, signer=signer, mode=mode, **settings)

    return make
