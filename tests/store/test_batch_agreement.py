"""The SQL of batches and the fake, which is the core model, agree: the same histories and rows."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.inbox import EntryEnding
from tests.store.batch_history import BatchHistory
from tests.store.stores import DatabaseClock, Stores

WANTED = {
    "an item was taken over",
    "an item's dead entry was met",
    "a batch succeeded late",
    "a batch was stored",
    "an entry is doubtful for its items",
    "a batch is doubtful since it was leased",
    "a batch was found over",
    "revived by a batch",
    "revived by a lone delivery",
    *EntryEnding,
}


@pytest.mark.parametrize("seeds", [range(0, 30), range(30, 60), range(60, 90)], ids=str)
async def test_random_histories_with_batches_are_those_of_the_model(
    seeds: range, clock: DatabaseClock, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    seen: set[str] = set()
    for seed in seeds:
        history = BatchHistory(seed, store, sql, clock)
        await history.live()
        seen |= history.seen
        await sql.execute("truncate dedup.claims, dedup.entries, dedup.entry_items")
    assert not store.errors
    assert not WANTED - seen
