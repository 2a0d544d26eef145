"""What the store's tests speak of: stores, rows in the core's words, and a settable clock."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Arrival, Ask, Claim, Ending, Held, Seen, Settled, Settlement, State
from gateway.core.event import Delivery, EventKey
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    Entry,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
)
from gateway.store.deliveries import STATES
from gateway.store.store import Store
from tests.rig.deadline import eventually

T = TypeVar("T")
Told = Accepted | Seen | Held | Unclaimed

ROUTE = "orders"
WITHIN = 1.8
# How long a test waits for something that takes milliseconds on a machine with nothing else to do.
PATIENCE = 15.0

DELIVERY = Delivery(
    "POST",
    "/hooks/orders?a=%20b",
    ((b"Content-Type", b"application/json"), (b"x-id", b" evt_1"), (b"X-ID", b"")),
    b'{"id": "evt_1"}\x00\xff',
    "127.0.0.1",
    "http",
)

_STATES = {
    b"c": State.CLAIMED,
    b"r": State.RELEASED,
    b"s": State.STORED,
    b"d": State.COMPLETED,
}


class OpenStore:
    """One process's store, and what it told about its errors and statements."""

    def __init__(self, dsn: str, *, keep_ids: bool) -> None:
        self.errors: Counter[str] = Counter()
        self.statements: list[tuple[str, int]] = []
        self.inner = Store(
            dsn,
            keep_ids=keep_ids,
            clock=time.monotonic,
            on_error=lambda kind: self.errors.update([kind]),
            on_statement=lambda name, _, size: self.statements.append((name, size)),
        )

    async def arrive(self, ask: Ask, within: float = WITHIN) -> Arrival:
        return await self.inner.arrive(ask, within=within)

    async def arrive_all(self, asks: Iterable[Ask], within: float = WITHIN) -> list[Arrival]:
        return await self.inner.arrive_all(list(asks), within=within)

    async def settle(self, ask: Ask, ending: Ending) -> Settled:
        return await self.inner.settle(settlement(ask, ending))

    async def accept(self, offer: Offer, within: float = WITHIN, *, has_room: bool = True) -> Told:
        return await self.inner.accept(offer, has_room=has_room, within=within)

    async def store(self, offer: Offer, within: float = WITHIN) -> bool:
        return await self.inner.store(offer, within=within)

    async def conclude(self, conclusion: Conclusion) -> Settled:
        return await self.inner.conclude(conclusion)

    async def lease(
        self,
        most: int = 10,
        token: int | None = None,
        seconds: float = 30.0,
        *,
        newest: bool = False,
    ) -> list[Leased]:
        used = fresh_token() if token is None else token
        return await self.inner.lease(ROUTE, most, used, seconds, newest=newest)

    async def up(self) -> None:
        await eventually(
            lambda: self.inner.away_since is None, within=PATIENCE, what="the store is up"
        )

    def sizes(self, name: str) -> list[int]:
        """How many keys each statement of that name carried."""
        return [size for statement, size in self.statements if statement == name]


class Stores:
    """Opens stores and closes them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._opened: list[OpenStore] = []

    async def open(
        self,
        dsn: str | None = None,
        *,
        keep_ids: bool = True,
        up: bool = True,
        recipes: Mapping[str, bytes] | None = None,
    ) -> OpenStore:
        store = OpenStore(dsn or self.dsn, keep_ids=keep_ids)
        self._opened.append(store)
        await store.inner.register(recipes or {ROUTE: b"recipe"})
        await store.inner.start()
        if up:
            await store.up()
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.inner.stop()


class DatabaseClock:
    """`now()` of one database, set by assignment: the store's statements find ours first."""

    def __init__(self, sql: asyncpg.Connection) -> None:
        self._sql = sql
        self.now = 1_800_000_000.0

    async def install(self) -> None:
        await self._sql.execute("""
            create schema clock;
            create unlogged table clock.face (now float8 not null);
            create function clock.now() returns timestamptz stable language sql
                as 'select pg_catalog.to_timestamp(now) from clock.face';
        """)
        # Defaults know the function that they were made with.
        for column in ("entries alter since", "entries alter received", "actions alter at"):
            await self._sql.execute(f"alter table dedup.{column} set default clock.now()")
        await self._sql.execute("insert into clock.face values ($1)", self.now)
        name = await self._sql.fetchval("select current_database()")
        await self._sql.execute(f"alter database {name} set search_path = clock, pg_catalog")

    async def set(self, now: float) -> None:
        self.now = now
        await self._sql.execute("update clock.face set now = $1", now)


def fresh_key(event_id: str = "evt_1") -> EventKey:
    return EventKey(os.urandom(16), event_id)


def fresh_token() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1


def fresh_offer(
    key: EventKey | None = None,
    state: EntryState = EntryState.PENDING,
    *,
    token: int | None = None,
    lease: float = 30.0,
    fingerprint: int = 7,
    doubtful: bool = False,
    delivery: Delivery | None = None,
) -> Offer:
    return Offer(
        key or fresh_key(),
        ROUTE,
        fresh_token() if token is None else token,
        fingerprint,
        delivery or DELIVERY,
        state,
        lease,
        doubtful,
    )


def conclusion(
    leased: Leased | Offer,
    ending: EntryEnding,
    *,
    doubtful: bool = False,
    pause: float = 0.0,
    why: str = "refused 503",
) -> Conclusion:
    return Conclusion(
        leased.key,
        leased.route,
        leased.token,
        leased.fingerprint,
        ending,
        doubtful,
        pause,
        why,
    )


def fresh_ask(key: EventKey | None = None, *, lease: float = 30.0, fingerprint: int = 7) -> Ask:
    return Ask(key or fresh_key(), ROUTE, fresh_token(), lease, fingerprint)


def settlement(ask: Ask, ending: Ending) -> Settlement:
    return Settlement(ask.key, ask.route, ask.token, ask.fingerprint, ending)


async def row(sql: asyncpg.Connection, key: EventKey) -> asyncpg.Record | None:
    return await sql.fetchrow("select * from dedup.claims where key = $1", UUID(key.digest))


async def claim(sql: asyncpg.Connection, key: EventKey) -> Claim | None:
    """The row in the words of the core model. `first_seen` is in whole seconds."""
    found = await row(sql, key)
    return None if found is None else as_claim(found)


def as_claim(found: Any) -> Claim:
    state = _STATES[found["state"].lower()]
    held = state is State.CLAIMED
    return Claim(
        state=state,
        doubtful=found["state"].isupper(),
        attempt=1 if found["attempt"] is None else found["attempt"],
        first_seen=float(found["first_seen"]),
        fingerprint=found["fingerprint"][0],
        token=found["token"],
        lease_until=found["until"].timestamp() if held else None,
    )


async def entry_row(sql: asyncpg.Connection, key: EventKey) -> asyncpg.Record | None:
    return await sql.fetchrow("select * from dedup.entries where key = $1", UUID(key.digest))


async def entry(sql: asyncpg.Connection, key: EventKey) -> Entry | None:
    """The row in the words of the core model."""
    found = await entry_row(sql, key)
    return None if found is None else as_entry(found)


def as_entry(found: Any) -> Entry:
    return Entry(
        state=STATES[found["state"]],
        doubtful=found["doubtful"],
        attempt=found["attempt"],
        since=found["since"].timestamp(),
        due=found["due"].timestamp(),
        token=found["token"],
        unkeyed=found["unkeyed"],
    )


async def lapse_entry(sql: asyncpg.Connection, key: EventKey) -> None:
    """End an entry's lease by moving it into the past."""
    await sql.execute(
        "update dedup.entries set due = due - interval '1 day' where key = $1", UUID(key.digest)
    )


async def lapse(sql: asyncpg.Connection, key: EventKey) -> None:
    """End a lease by moving it into the past: no test sleeps for that."""
    await sql.execute(
        "update dedup.claims set until = until - interval '1 day' where key = $1", UUID(key.digest)
    )


async def waiting_for_a_lock(sql: asyncpg.Connection) -> int | None:
    """The process whose statement in this database waits for a lock right now, if one does."""
    found: int | None = await sql.fetchval(
        "select pid from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock' limit 1"
    )
    return found


async def at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    """All calls in one turn of the loop."""
    return list(await asyncio.gather(*calls))
