"""The SQL and the core model agree: the same histories, the same rows, the same answers."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core import claim as model
from gateway.core.claim import Arrival, Ask, Claim, Ending, Seen, State, Won
from gateway.core.event import EventKey
from tests.store.stores import (
    DatabaseClock,
    OpenStore,
    Stores,
    as_claim,
    at_once,
    fresh_ask,
    fresh_key,
    row,
    settlement,
)

KEYS = 5
STEPS = 50
# A quarter of a second is exact in floats and in Postgres.
TICK = 0.25
# Settled later than this after the first delivery, a row keeps the time of settling.
REMEMBERED_AFTER = 3600


class History:
    """One random history, lived by the store and by the model side by side."""

    def __init__(
        self, seed: int, store: OpenStore, sql: asyncpg.Connection, clock: DatabaseClock
    ) -> None:
        self.dice = random.Random(seed)
        self.store, self.sql, self.clock = store, sql, clock
        self.keys = [fresh_key(f"evt_{seed}_{n}") for n in range(KEYS)]
        self.rows: dict[EventKey, Claim | None] = dict.fromkeys(self.keys)
        self.settled_at: dict[EventKey, float | None] = dict.fromkeys(self.keys)
        self.asks: dict[EventKey, list[Ask]] = {key: [] for key in self.keys}
        self.steps: list[str] = []

    async def live(self) -> None:
        for _ in range(STEPS):
            step = self.dice.choices(
                [self.arrive, self.settle, self.wait, self.vanish, self.into_the_inbox],
                [10, 8, 6, 1, 1],
            )[0]
            await step()
            await self.compare()

    def some(self) -> list[EventKey]:
        return self.dice.sample(self.keys, self.dice.randint(1, KEYS))

    async def arrive(self) -> None:
        """Some keys in one batch, now and then with a token that was used before."""
        asks = []
        for key in self.some():
            known = self.asks[key]
            again = known and self.dice.random() < 0.25
            ask = self.dice.choice(known) if again else self.new_ask(key)
            asks.append(ask)
            known.append(ask)
        self.steps.append(f"arrive {[(self.keys.index(a.key), a.token % 1000) for a in asks]}")
        told = await at_once(self.store.arrive(ask) for ask in asks)
        for ask, real in zip(asks, told, strict=True):
            before = self.rows[ask.key]
            after, expected = model.arrive(before, ask, self.clock.now)
            self.rows[ask.key] = after
            assert real == in_whole_seconds(expected), self.steps

    def new_ask(self, key: EventKey) -> Ask:
        lease = self.dice.choice([1, 4, 40]) * TICK
        return fresh_ask(key, lease=lease, fingerprint=self.dice.choice([0, 7, 255]))

    async def settle(self) -> None:
        """Present and past holders end their claims."""
        ends = [
            settlement(self.dice.choice(self.asks[key]), self.dice.choice(list(Ending)))
            for key in self.some()
            if self.asks[key]
        ]
        self.steps.append(f"settle {[(self.keys.index(s.key), s.ending) for s in ends]}")
        told = await at_once(self.store.inner.settle(end) for end in ends)
        for end, real in zip(ends, told, strict=True):
            before = self.rows[end.key]
            after, expected = model.settle(before, end, self.clock.now)
            self.rows[end.key] = after
            assert real == expected, self.steps
            if expected.changed and after is not None:
                old = self.clock.now > math.floor(after.first_seen) + REMEMBERED_AFTER
                self.settled_at[end.key] = self.clock.now if old else None

    async def wait(self) -> None:
        """Until just before, exactly at, or just after the end of some lease; or for hours."""
        ends = [r.lease_until for r in self.rows.values() if r and r.lease_until is not None]
        ends = [end for end in ends if end >= self.clock.now + TICK]
        if ends and self.dice.random() < 0.9:
            until = self.dice.choice(ends) + self.dice.choice([-TICK, 0.0, TICK])
        else:
            until = self.clock.now + self.dice.choice([TICK, 3600.0, 3700.0])
        self.steps.append(f"wait {until - self.clock.now}")
        await self.clock.set(until)

    async def vanish(self) -> None:
        """A purge, or a failover that lost the row."""
        key = self.dice.choice(self.keys)
        self.steps.append(f"vanish {self.keys.index(key)}")
        self.rows[key] = None
        await self.sql.execute("delete from dedup.claims where key = $1", UUID(key.digest))

    async def into_the_inbox(self) -> None:
        """What storing a delivery does to a live claim."""
        key = self.dice.choice(self.keys)
        before = self.rows[key]
        if before is None or before.state is not State.CLAIMED:
            return
        self.steps.append(f"store {self.keys.index(key)}")
        self.rows[key] = replace(before, state=State.STORED, token=None, lease_until=None)
        self.settled_at[key] = None
        await self.sql.execute(
            "update dedup.claims set token = null, until = null,"
            " state = (case state when 'c' then 's' else 'S' end)::\"char\" where key = $1",
            UUID(key.digest),
        )

    async def compare(self) -> None:
        for key, expected in self.rows.items():
            found = await row(self.sql, key)
            if expected is None:
                assert found is None, self.steps
                continue
            assert found is not None, self.steps
            expected = replace(expected, first_seen=float(math.floor(expected.first_seen)))
            assert as_claim(found) == expected, self.steps
            assert found["event_id"] == key.event_id
            if expected.state is not State.CLAIMED:
                until = found["until"]
                assert (until and until.timestamp()) == self.settled_at[key], self.steps


def in_whole_seconds(told: Arrival) -> Arrival:
    if isinstance(told, Seen | Won):
        return replace(told, first_seen=float(math.floor(told.first_seen)))
    return told


@pytest.mark.parametrize("seeds", [range(0, 6), range(6, 12), range(12, 18)], ids=str)
async def test_random_histories_leave_the_rows_and_answers_of_the_model(
    seeds: range, clock: DatabaseClock, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    for seed in seeds:
        await History(seed, store, sql, clock).live()
    assert not store.errors
