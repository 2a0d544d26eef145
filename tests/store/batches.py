"""Batches, as the store's tests make them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.batch import key_of
from gateway.core.claim import Ask, Ending, Settled, Settlement, State, Won
from gateway.core.event import EventKey, Part
from gateway.core.inbox import Conclusion, EntryEnding, EntryState, Leased, Offer
from tests.store.stores import (
    ROUTE,
    OpenStore,
    claim,
    conclusion,
    fresh_ask,
    fresh_key,
    fresh_offer,
    fresh_token,
)


def fresh_items(number: int) -> list[EventKey]:
    return [fresh_key(f"item_{n}") for n in range(number)]


def asks_for(
    keys: Iterable[EventKey], token: int | None = None, *, lease: float = 30.0
) -> list[Ask]:
    """One holder's, for all of them."""
    token = fresh_token() if token is None else token
    return [fresh_ask(key, lease=lease)._replace(token=token) for key in keys]


def parts_of(asks: Iterable[Ask]) -> tuple[Part, ...]:
    return tuple(Part(ask.key, ask.fingerprint) for ask in asks)


def ending_of(asks: Sequence[Ask], ending: Ending) -> Settlement:
    parts = parts_of(asks)
    return Settlement(key_of(parts), ROUTE, asks[0].token, 7, ending, parts)


def offer_of(
    asks: Sequence[Ask],
    state: EntryState = EntryState.LEASED,
    *,
    lease: float = 30.0,
    doubtful: bool = False,
) -> Offer:
    parts = parts_of(asks)
    offer = fresh_offer(key_of(parts), state, token=asks[0].token, lease=lease, doubtful=doubtful)
    return offer._replace(items=parts)


def conclusion_of(leased: Leased | Offer, ending: EntryEnding) -> Conclusion:
    return conclusion(leased, ending)._replace(items=leased.items)


async def listed(sql: asyncpg.Connection, entry: EventKey) -> set[bytes]:
    """The keys of what an entry stands for."""
    rows = await sql.fetch("select key from dedup.entry_items where entry = $1", UUID(entry.digest))
    return {row["key"].bytes for row in rows}


async def states(
    sql: asyncpg.Connection, keys: Iterable[EventKey]
) -> list[tuple[State, bool] | None]:
    found = [await claim(sql, key) for key in keys]
    return [None if row is None else (row.state, row.doubtful) for row in found]


@dataclass(frozen=True)
class ClaimedBatch:
    """Items that one holder has won together, and the entry that it may store for them."""

    store: OpenStore
    keys: list[EventKey]
    asks: list[Ask]
    offer: Offer

    async def settle(self, ending: Ending) -> Settled:
        return await self.store.inner.settle(ending_of(self.asks, ending))

    async def conclude(self, ending: EntryEnding) -> Settled:
        return await self.store.conclude(conclusion_of(self.offer, ending))


async def claim_batch(store: OpenStore, number: int = 3) -> ClaimedBatch:
    keys = fresh_items(number)
    asks = asks_for(keys)
    assert all(isinstance(told, Won) for told in await store.arrive_all(asks))
    return ClaimedBatch(store, keys, asks, offer_of(asks))
