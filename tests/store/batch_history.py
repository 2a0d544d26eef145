"""Random histories with batches in them, lived by a store and by the fake side by side.

Batches overlap, and single deliveries carry their items, too: the stories of `inbox_history` are in
here again, with keys that belong to several entries.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ask, Ending, Seen, Settlement, State, Won
from gateway.core.inbox import Conclusion, EntryEnding, EntryState, Leased, Offer
from tests.fakes import MemoryClaims
from tests.store.batches import asks_for, conclusion_of, ending_of, fresh_items, offer_of
from tests.store.inbox_history import ENDINGS, LEASES, STORED, TICK
from tests.store.stores import (
    DatabaseClock,
    OpenStore,
    as_claim,
    as_entry,
    conclusion,
    fresh_ask,
    fresh_offer,
    fresh_token,
    settlement,
)

KEYS = 5
STEPS = 120
MOST = 100
OPEN = (EntryState.PENDING, EntryState.LEASED)
DEAD = (EntryState.DEAD,)

T = TypeVar("T")


class BatchHistory:
    """One of them. Every step compares answers, and all rows after it."""

    def __init__(
        self, seed: int, store: OpenStore, sql: asyncpg.Connection, clock: DatabaseClock
    ) -> None:
        self.dice = random.Random(seed)
        self.store, self.sql, self.clock = store, sql, clock
        self.fake = MemoryClaims()
        self.keys = fresh_items(KEYS)
        self.batches: list[list[Ask]] = []
        self.lone: list[Ask] = []
        self.leased: list[Leased | Offer] = []
        self.steps: list[str] = []
        self.seen: set[str] = set()
        """What came about at least once, so that a history cannot pass by being dull."""

    async def live(self) -> None:
        steps = {
            self.arrive: 10,
            self.arrive_alone: 3,
            self.settle: 6,
            self.settle_alone: 2,
            self.succeed_elsewhere: 2,
            self.store_batch: 9,
            self.store_alone: 2,
            self.accept: 2,
            self.lease: 9,
            self.conclude: 10,
            self.revive: 6,
            self.wait: 9,
            self.lose: 2,
            self.forget: 3,
        }
        for _ in range(STEPS):
            self.fake.now = self.clock.now
            await self.dice.choices(list(steps), list(steps.values()))[0]()
            await self.compare()

    async def arrive(self) -> None:
        known = self.batches and self.dice.random() < 0.2
        asks = self.dice.choice(self.batches[-4:]) if known else self.asks()
        self.batches.append(asks)
        self.note("arrive_all", asks)
        real = await self.store.arrive_all(asks)
        for one, told in zip(real, await self.fake.arrive_all(asks, within=1.0), strict=True):
            assert one == in_whole_seconds(told), self.steps
            if isinstance(one, Won) and one.took_over:
                self.seen.add("an item was taken over")
            if isinstance(one, Seen) and one.dead:
                self.seen.add("an item's dead entry was met")

    async def arrive_alone(self) -> None:
        ask = self.asks()[0]
        self.lone.append(ask)
        self.note("arrive", [ask])
        told = await self.fake.arrive(ask, within=1.0)
        assert await self.store.arrive(ask) == in_whole_seconds(told), self.steps

    async def settle(self) -> None:
        asks = self.a_batch()
        if asks:
            end = ending_of(asks, self.dice.choices(list(Ending), [1, 2, 2])[0])
            self.note("settle", asks, end.ending)
            await self.both_settle(end)

    async def settle_alone(self) -> None:
        if self.lone:
            ask = self.dice.choice(self.lone[-5:])
            end = settlement(ask, self.dice.choice(list(Ending)))
            self.note("settle", [ask], end.ending)
            await self.both_settle(end)

    async def succeed_elsewhere(self) -> None:
        """Late successes, one by one, of some or all items of an entry."""
        owed = [row.offer for row in self.fake.entries.values() if row.entry.state in OPEN]
        if owed:
            items = self.dice.choice(owed).items
            for part in items if self.dice.random() < 0.6 else items[:1]:
                ask = fresh_ask(part.key)
                self.note("succeed", [ask])
                await self.both_settle(settlement(ask, Ending.COMPLETE))

    async def both_settle(self, end: Settlement) -> None:
        told = await self.fake.settle(end)
        assert await self.store.inner.settle(end) == told, self.steps
        if end.items and told.late:
            self.seen.add("a batch succeeded late")

    async def store_batch(self) -> None:
        asks = self.a_batch()
        if asks:
            offer = self.in_some_state(offer_of(asks))
            offer = offer._replace(unkeyed=self.dice.random() < 0.3)
            self.note("store", asks, offer.state)
            await self.both_store(offer)

    async def store_alone(self) -> None:
        if self.lone:
            ask = self.dice.choice(self.lone[-5:])
            self.note("store", [ask])
            await self.both_store(self.in_some_state(fresh_offer(ask.key, token=ask.token)))

    async def both_store(self, offer: Offer) -> None:
        told = await self.fake.store(offer, within=1.0)
        assert await self.store.store(offer) == told, self.steps
        if told and offer.state is EntryState.LEASED:
            self.leased.append(offer)
        if told and offer.items:
            self.seen.add("a batch was stored")
            entry = self.fake.entry(offer.key)
            if entry is not None and entry.doubtful and not offer.doubtful:
                self.seen.add("an entry is doubtful for its items")

    async def accept(self) -> None:
        offer = self.in_some_state(fresh_offer(self.dice.choice(self.keys)))
        self.note("accept", [fresh_ask(offer.key)])
        told = await self.fake.accept(offer, has_room=True, within=1.0)
        assert await self.store.accept(offer) == in_whole_seconds(told), self.steps

    async def lease(self) -> None:
        token, seconds = fresh_token(), self.dice.choice(LEASES)
        self.note("lease", [], seconds)
        known = {digest: row.entry for digest, row in self.fake.entries.items()}
        expected = await self.fake.lease("orders", MOST, token, seconds, newest=False)
        real = await self.store.lease(MOST, token, seconds)
        assert in_any_order(real) == in_any_order(expected), self.steps
        self.leased += real
        for one in real:
            if one.items and one.doubtful and not known[one.key.digest].doubtful:
                self.seen.add("a batch is doubtful since it was leased")
        for digest, row in self.fake.entries.items():
            was_due = known[digest].is_due(self.fake.now)
            if row.offer.items and was_due and row.entry.state is EntryState.DELIVERED:
                self.seen.add("a batch was found over")

    async def conclude(self) -> None:
        """Present and past workers end their attempts."""
        if not self.leased:
            return
        leased = self.dice.choice(self.leased[-5:])
        ending = self.dice.choices(list(ENDINGS), list(ENDINGS.values()))[0]
        self.note("conclude", [fresh_ask(part.key) for part in leased.items], ending)
        end = self.end_of(leased, ending)
        told = await self.fake.conclude(end)
        assert await self.store.conclude(end) == told, self.steps
        if leased.items and told.changed:
            self.seen.add(ending)

    def end_of(self, leased: Leased | Offer, ending: EntryEnding) -> Conclusion:
        end = conclusion_of(leased, ending) if leased.items else conclusion(leased, ending)
        doubtful, pause = self.dice.random() < 0.3, self.dice.choice([0, 1, 8]) * TICK
        return end._replace(doubtful=doubtful, pause=pause)

    async def revive(self) -> None:
        dead = [row.offer for row in self.fake.entries.values() if row.entry.state in DEAD]
        keys = [part.key for offer in dead for part in offer.items] or self.keys
        if self.dice.random() < 0.4:
            offer = fresh_offer(self.dice.choice(keys))
        else:
            offer = offer_of(self.asks())
        self.note("revive", [fresh_ask(part.key) for part in offer.items])
        told = await self.fake.revive(offer)
        assert await self.store.inner.revive(offer) == told, self.steps
        if told:
            self.seen.add("revived by a batch" if offer.items else "revived by a lone delivery")

    async def wait(self) -> None:
        """Until just before, exactly at, or just after the end of some lease or pause."""
        now = self.clock.now
        ends = [row.lease_until for row in self.fake.rows.values() if row.lease_until is not None]
        ends += [row.entry.due for row in self.fake.entries.values()]
        ends = [end for end in ends if end >= now + TICK]
        until = now + self.dice.choice([TICK, 3700.0])
        if ends and self.dice.random() < 0.9:
            until = self.dice.choice(ends) + self.dice.choice([-TICK, 0.0, TICK])
        self.note("wait", [], until - now)
        await self.clock.set(until)

    async def lose(self) -> None:
        """A failover loses the claim of an item and not its entry."""
        key = self.dice.choice(self.keys)
        self.note("lose", [fresh_ask(key)])
        self.fake.rows.pop(key.digest, None)
        await self.sql.execute("delete from dedup.claims where key = $1", UUID(key.digest))

    async def forget(self) -> None:
        """What is over, or the histories would soon be."""
        for key in self.keys:
            row = self.fake.rows.get(key.digest)
            if row is not None and row.state is State.COMPLETED:
                self.note("forget", [fresh_ask(key)])
                del self.fake.rows[key.digest]
                await self.sql.execute("delete from dedup.claims where key = $1", UUID(key.digest))

    async def compare(self) -> None:
        claims = {c["key"].bytes: as_claim(c) for c in await self.rows_of("claims")}
        expected = {
            digest: replace(row, first_seen=float(math.floor(row.first_seen)))
            for digest, row in self.fake.rows.items()
        }
        assert claims == expected, self.steps
        entries = {e["key"].bytes: as_entry(e) for e in await self.rows_of("entries")}
        assert entries == {d: row.entry for d, row in self.fake.entries.items()}, self.steps
        items = {i["key"].bytes: i["entry"].bytes for i in await self.rows_of("entry_items")}
        assert items == self.fake.items, self.steps

    async def rows_of(self, table: str) -> list[asyncpg.Record]:
        return list(await self.sql.fetch(f"select * from dedup.{table}"))

    def asks(self) -> list[Ask]:
        keys = self.dice.sample(self.keys, self.dice.randint(1, KEYS))
        return asks_for(keys, lease=self.dice.choice(LEASES))

    def a_batch(self) -> list[Ask]:
        """One that arrived, mostly lately; now and then without some of its items."""
        if not self.batches:
            return []
        recent = self.batches[-1:] if self.dice.random() < 0.5 else self.batches[-5:]
        asks = self.dice.choice(recent)
        if self.dice.random() < 0.2:
            return self.dice.sample(asks, self.dice.randint(1, len(asks)))
        return asks

    def in_some_state(self, offer: Offer) -> Offer:
        return offer._replace(
            state=self.dice.choice(STORED),
            lease=self.dice.choice(LEASES),
            doubtful=self.dice.random() < 0.1,
            delivery=offer.delivery._replace(body=b"%d" % len(self.steps)),
        )

    def note(self, step: str, asks: Iterable[Ask], *more: object) -> None:
        self.steps.append(f"{step} {[self.number(ask) for ask in asks]} {more or ''}")

    def number(self, ask: Ask) -> str:
        where = self.keys.index(ask.key) if ask.key in self.keys else "?"
        return f"{where}:{ask.token % 1000}"


def in_whole_seconds(told: T) -> T:
    if isinstance(told, Seen | Won):
        return replace(told, first_seen=float(math.floor(told.first_seen)))
    return told


def in_any_order(leased: Iterable[Leased]) -> list[Leased]:
    by_key = [one._replace(items=tuple(sorted(one.items))) for one in leased]
    return sorted(by_key, key=lambda one: one.key.digest)
