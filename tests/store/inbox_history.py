"""Random histories of claims and entries, lived by a store and by the core model side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ask, Ending, Settlement, State
from gateway.core.event import EventKey
from gateway.core.inbox import EntryEnding, EntryState, Offer
from tests.store.inbox_model import Model
from tests.store.stores import (
    DatabaseClock,
    OpenStore,
    as_claim,
    as_entry,
    at_once,
    conclusion,
    fresh_ask,
    fresh_key,
    fresh_offer,
    fresh_token,
    settlement,
)

KEYS = 4
STEPS = 150
# A quarter of a second is exact in floats and in Postgres.
TICK = 0.25
LEASES = [1 * TICK, 4 * TICK, 40 * TICK]
STORED = [EntryState.LEASED, EntryState.PENDING, EntryState.HELD]
OPEN = (EntryState.PENDING, EntryState.LEASED)
# A delivered event's story is over, so few are.
ENDINGS = {
    EntryEnding.RETRY: 3,
    EntryEnding.HAND_BACK: 2,
    EntryEnding.BURY: 3,
    EntryEnding.HOLD: 1,
    EntryEnding.DELIVER: 1,
}


class History:
    """One of them. Every step compares answers, and all rows after it."""

    def __init__(
        self,
        seed: int,
        store: OpenStore,
        sql: asyncpg.Connection,
        clock: DatabaseClock,
        keys: int = KEYS,
    ) -> None:
        self.dice = random.Random(seed)
        self.store, self.sql, self.clock = store, sql, clock
        self.keys = [fresh_key(f"evt_{seed}_{n}") for n in range(keys)]
        self.model = Model(self.keys)
        self.tokens: dict[EventKey, list[int]] = {key: [] for key in self.keys}
        self.steps: list[str] = []

    async def live(self) -> None:
        steps: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self.arrive: 7,
            self.settle: 5,
            self.accept: 7,
            self.store_some: 6,
            self.lease: 8,
            self.conclude: 10,
            self.revive: 4,
            self.wait: 9,
            self.lose: 3,
            self.forget: 3,
        }
        for _ in range(STEPS):
            await self.dice.choices(list(steps), list(steps.values()))[0]()
            await self.compare()

    async def arrive(self) -> None:
        await self.ask_for([self.ask(key, 0.2) for key in self.some()])

    async def settle(self) -> None:
        """Present and past holders end their claims."""
        endings = self.dice.choices(list(Ending), [1, 2, 2], k=len(self.keys))
        asks = [self.ask(key, 1.0) for key in self.some()]
        await self.end([settlement(*both) for both in zip(asks, endings, strict=False)])

    async def accept(self) -> None:
        wishes = [(self.offer(key, 0.2), self.dice.random() < 0.9) for key in self.some()]
        self.note("accept", [offer.key for offer, _ in wishes], wishes)
        told = await at_once(
            self.store.accept(offer, has_room=has_room) for offer, has_room in wishes
        )
        for (offer, has_room), real in zip(wishes, told, strict=True):
            assert real == self.model.accept(offer, self.now, has_room=has_room), self.steps

    async def store_some(self) -> None:
        """Present and past holders give their claims to the inbox."""
        offers = [self.offer(key, 1.0) for key in self.some()]
        self.note("store", [offer.key for offer in offers], offers)
        told = await at_once(self.store.store(offer) for offer in offers)
        for offer, real in zip(offers, told, strict=True):
            assert real == self.model.store(offer, self.now), self.steps

    async def lease(self) -> None:
        token, seconds = fresh_token(), self.dice.choice(LEASES)
        self.note("lease", self.keys, seconds)
        leased = await self.store.lease(
            len(self.keys), token, seconds, newest=self.dice.random() < 0.5
        )
        taken = {entry.key: entry for entry in leased}
        for key in self.keys:
            before = self.model.lease(key, token, seconds, self.now)
            real = taken.pop(key, None)
            after = self.model.entries[key]
            if before is None or after is None:
                assert real is None, self.steps
                continue
            assert real is not None, self.steps
            assert (real.attempt, real.doubtful) == (after.attempt, after.doubtful), self.steps
            assert (real.age, real.now) == (self.now - after.since, self.now), self.steps
            assert real.took_over == (before.state is EntryState.LEASED), self.steps
            self.tokens[key].append(token)
        assert not taken

    async def conclude(self) -> None:
        """Present and past workers end their attempts."""
        ends = [
            conclusion(
                fresh_offer(key, token=self.used(key, 1.0)),
                self.dice.choices(list(ENDINGS), list(ENDINGS.values()))[0],
                doubtful=self.dice.random() < 0.3,
                pause=self.dice.choice([0, 1, 8]) * TICK,
            )
            for key in self.some()
        ]
        self.note("conclude", [end.key for end in ends], ends)
        told = await at_once(self.store.conclude(end) for end in ends)
        for end, real in zip(ends, told, strict=True):
            assert real == self.model.conclude(end, self.now), self.steps

    async def revive(self) -> None:
        key = self.dice.choice(self.keys)
        self.note("revive", [key])
        expected = self.model.revive(key, self.now)
        assert await self.store.inner.revive(fresh_offer(key)) == expected, self.steps

    async def wait(self) -> None:
        """Until just before, exactly at, or just after the end of some lease or pause."""
        claims, entries = self.model.claims.values(), self.model.entries.values()
        ends = [c.lease_until for c in claims if c and c.lease_until is not None]
        ends = [end for end in ends + [e.due for e in entries if e] if end >= self.now + TICK]
        until = self.now + self.dice.choice([TICK, 3700.0])
        if ends and self.dice.random() < 0.9:
            until = self.dice.choice(ends) + self.dice.choice([-TICK, 0.0, TICK])
        self.note("wait", [], until - self.now)
        await self.clock.set(until)

    async def lose(self) -> None:
        """A failover loses a claim and not its entry; the event may come and go in forward mode."""
        entries = self.model.entries
        owed = [key for key, entry in entries.items() if entry and entry.state in OPEN]
        key = self.dice.choice(owed or self.keys)
        self.note("lose", [key])
        await self.delete(key, "claims")
        self.model.claims[key] = None
        if self.dice.random() < 0.5:
            ask = self.ask(key, 0.0)
            await self.ask_for([ask])
            await self.end([settlement(ask, Ending.COMPLETE)])

    async def forget(self) -> None:
        """What is over, or the histories would soon be."""
        for key, claim in self.model.claims.items():
            if claim is not None and claim.state is State.COMPLETED:
                self.note("forget", [key])
                await self.delete(key, "claims", "entries")
                self.model.claims[key] = self.model.entries[key] = None

    async def ask_for(self, asks: list[Ask]) -> None:
        self.note("arrive", [ask.key for ask in asks], asks)
        told = await at_once(self.store.arrive(ask) for ask in asks)
        for ask, real in zip(asks, told, strict=True):
            assert real == self.model.arrive(ask, self.now), self.steps

    async def end(self, ends: list[Settlement]) -> None:
        self.note("settle", [end.key for end in ends], ends)
        told = await at_once(self.store.inner.settle(end) for end in ends)
        for end, real in zip(ends, told, strict=True):
            assert real == self.model.settle(end, self.now), self.steps

    async def compare(self) -> None:
        claims = {c["key"].bytes: c for c in await self.sql.fetch("select * from dedup.claims")}
        entries = {e["key"].bytes: e for e in await self.sql.fetch("select * from dedup.entries")}
        for key in self.keys:
            claim, entry = claims.get(key.digest), entries.get(key.digest)
            assert (claim and as_claim(claim)) == self.model.claim(key), self.steps
            assert (entry and as_entry(entry)) == self.model.entries[key], self.steps

    async def delete(self, key: EventKey, *tables: str) -> None:
        for table in tables:
            await self.sql.execute(f"delete from dedup.{table} where key = $1", UUID(key.digest))

    @property
    def now(self) -> float:
        return self.clock.now

    def some(self) -> list[EventKey]:
        return self.dice.sample(self.keys, self.dice.randint(1, len(self.keys)))

    def used(self, key: EventKey, again: float) -> int:
        """A token for this key, an old one as often as `again` says."""
        known = self.tokens[key]
        if known and self.dice.random() < again:
            return known[-1] if self.dice.random() < 0.6 else self.dice.choice(known[-4:])
        known.append(fresh_token())
        return known[-1]

    def ask(self, key: EventKey, again: float) -> Ask:
        lease, fingerprint = self.dice.choice(LEASES), self.dice.choice([0, 255])
        return fresh_ask(key, lease=lease, fingerprint=fingerprint)._replace(
            token=self.used(key, again)
        )

    def offer(self, key: EventKey, again: float) -> Offer:
        return fresh_offer(
            key,
            self.dice.choice(STORED),
            token=self.used(key, again),
            lease=self.dice.choice(LEASES),
            fingerprint=self.dice.choice([0, 255]),
            doubtful=self.dice.random() < 0.2,
        )

    def note(self, step: str, keys: list[EventKey], *more: object) -> None:
        self.steps.append(f"{step} {[self.keys.index(key) for key in keys]} {more or ''}")
