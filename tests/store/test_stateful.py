"""The real SQL under steps that hypothesis picks, and cuts down to the fewest when they go wrong.

The histories of `test_entry_agreement` are long and many; these are short, and a failure comes as
the shortest story that still fails.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gateway.store.migrate import migrate
from tests.store.inbox_history import History
from tests.store.stores import DatabaseClock, OpenStore, Stores

DICE = st.randoms(use_true_random=False)


class Room:
    """A database of its own, and a loop to reach it from steps that are not coroutines."""

    def __init__(self, server: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.server = server
        self.name = f"test_{uuid.uuid4().hex}"
        self.sql: asyncpg.Connection
        self.clock: DatabaseClock
        self.stores: Stores
        self.store: OpenStore

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        await self.admin(f"create database {self.name}")
        dsn = urlsplit(self.server)._replace(path=f"/{self.name}").geturl()
        await migrate(dsn)
        self.sql = await asyncpg.connect(dsn)
        self.clock = DatabaseClock(self.sql)
        await self.clock.install()
        self.stores = Stores(dsn)
        self.store = await self.stores.open()

    async def close(self) -> None:
        await self.stores.close()
        await self.sql.close()
        await self.admin(f"drop database {self.name} with (force)")

    async def admin(self, statement: str) -> None:
        connection = await asyncpg.connect(self.server)
        await connection.execute(statement)
        await connection.close()


def machine(room: Room) -> type[RuleBasedStateMachine]:
    """One story in that room: whatever steps there are, in whatever order."""

    class Story(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            room.run(room.sql.execute("truncate dedup.claims, dedup.entries"))
            self.history = History(0, room.store, room.sql, room.clock, keys=1)

        def takes(self, step: str, dice: random.Random) -> None:
            self.history.dice = dice
            room.run(getattr(self.history, step)())

        @invariant()
        def rows_are_those_of_the_model(self) -> None:
            room.run(self.history.compare())

    for step in (
        "arrive", "settle", "accept", "store_some", "lease", "conclude", "revive", "wait", "lose",
    ):  # fmt: skip

        def take(self: Any, dice: random.Random, step: str = step) -> None:
            self.takes(step, dice)

        take.__name__ = step
        setattr(Story, step, rule(dice=DICE)(take))
    return Story


def live(server: str, examples: int, steps: int) -> None:
    room = Room(server)
    room.run(room.open())
    try:
        run_state_machine_as_test(
            machine(room),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert not room.store.errors
    finally:
        room.run(room.close())
        room.loop.close()


@pytest.mark.timeout(600)  # when it fails, hypothesis looks for the shortest story for minutes
def test_no_short_story_tells_the_sql_and_the_model_apart(postgres_dsn: str) -> None:
    live(postgres_dsn, examples=60, steps=25)


@pytest.mark.soak
def test_no_story_at_all_tells_the_sql_and_the_model_apart(postgres_dsn: str) -> None:
    live(postgres_dsn, examples=2_000, steps=40)
