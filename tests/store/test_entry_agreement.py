"""The SQL of claims and entries and the core model agree: the same histories, rows and answers."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.inbox import EntryEnding
from tests.store.inbox_history import History
from tests.store.stores import DatabaseClock, Stores

WANTED = {
    "a dead entry was met",
    "an offer was repeated",
    "a claim was stored",
    "an entry was leased",
    "a lapsed lease was taken over",
    "an entry was found over",
    "an entry was revived",
    *EntryEnding,
}


@pytest.mark.parametrize("seeds", [range(0, 8), range(8, 16), range(16, 24)], ids=str)
async def test_random_histories_of_claims_and_entries_are_those_of_the_model(
    seeds: range, clock: DatabaseClock, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    seen: set[str] = set()
    for seed in seeds:
        history = History(seed, store, sql, clock)
        await history.live()
        seen |= history.model.seen
        await sql.execute("truncate dedup.claims, dedup.entries")  # a lease takes any that are due
    assert not store.errors
    assert seen >= WANTED
