"""Batches: the claims of their items are won and settled together."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending, Held, Seen, Settled, State, StoreAway, Won
from tests.store.batches import (
    ClaimedBatch,
    asks_for,
    ending_of,
    fresh_items,
    states,
)
from tests.store.stores import (
    PATIENCE,
    Stores,
    fresh_ask,
    lapse,
    row,
)

CHANGED, LATE, NOTHING = Settled(True, False), Settled(True, True), Settled(False, False)


async def test_the_items_of_a_batch_are_won_by_one_statement_and_told_in_their_order(
    stores: Stores,
) -> None:
    store = await stores.open()
    asks = asks_for(fresh_items(50))
    done, busy = fresh_ask(asks[7].key), fresh_ask(asks[30].key)
    await store.arrive(done)
    await store.settle(done, Ending.COMPLETE)
    await store.arrive(busy)
    store.statements.clear()
    told = await store.arrive_all(asks)
    assert store.statements == [("arrive", 50)]
    assert isinstance(told[7], Seen)
    assert isinstance(told[30], Held)
    others = [one for n, one in enumerate(told) if n not in (7, 30)]
    assert all(isinstance(one, Won) and one.attempt == 1 for one in others)


async def test_a_batch_may_have_as_many_items_as_a_body_may(stores: Stores) -> None:
    """And more than a statement for many deliveries has."""
    store = await stores.open()
    asks = asks_for(fresh_items(10_000))
    told = await store.arrive_all(asks, PATIENCE)
    assert all(isinstance(one, Won) for one in told)
    assert await store.inner.settle(ending_of(asks, Ending.COMPLETE)) == CHANGED
    assert store.sizes("settle") == [10_000]
    assert all(
        isinstance(one, Seen) for one in await store.arrive_all(asks_for(a.key for a in asks))
    )


async def test_open_items_are_taken_over_by_one_statement_each_as_what_it_was(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    keys = fresh_items(4)
    released, lapsed, doubtful = (fresh_ask(key) for key in keys[:3])
    for ask in (released, lapsed, doubtful):
        await store.arrive(ask)
    await store.settle(released, Ending.RELEASE)
    await store.settle(doubtful, Ending.RELEASE_DOUBTFUL)
    await lapse(sql, lapsed.key)
    store.statements.clear()
    told = await store.arrive_all(asks_for(keys))
    assert store.statements == [("arrive", 4), ("take_over", 3)]
    assert [(one.attempt, one.doubtful, one.took_over) for one in told if isinstance(one, Won)] == [
        (2, False, False),
        (2, True, True),
        (2, True, False),
        (1, False, False),
    ]


async def test_items_that_are_asked_for_again_with_the_same_token_are_still_held(
    batch: ClaimedBatch,
) -> None:
    again = await batch.store.arrive_all(batch.asks)
    assert all(isinstance(one, Won) and one.attempt == 1 for one in again)
    others = await batch.store.arrive_all(asks_for(batch.keys))
    assert all(isinstance(one, Held) for one in others)


async def test_no_items_ask_for_nothing(stores: Stores) -> None:
    store = await stores.open()
    store.statements.clear()
    assert await store.arrive_all([]) == []
    assert store.statements == []


@pytest.mark.parametrize(
    ("ending", "left"),
    [
        (Ending.COMPLETE, (State.COMPLETED, False)),
        (Ending.RELEASE, (State.RELEASED, False)),
        (Ending.RELEASE_DOUBTFUL, (State.RELEASED, True)),
    ],
)
async def test_items_are_settled_by_one_statement(
    ending: Ending, left: tuple[State, bool], batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    batch.store.statements.clear()
    assert await batch.settle(ending) == CHANGED
    assert batch.store.statements == [("settle", 3)]
    assert await states(sql, batch.keys) == [left] * 3
    assert await batch.settle(ending) == NOTHING


async def test_a_release_leaves_the_items_that_others_hold_and_a_success_completes_them_late(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    store, keys = batch.store, batch.keys
    theirs = asks_for(keys[:2])
    for key in keys[:2]:
        await lapse(sql, key)
    await store.arrive_all(theirs)
    assert await store.inner.settle(ending_of(batch.asks[:2], Ending.RELEASE)) == NOTHING
    assert await states(sql, keys) == [(State.CLAIMED, True)] * 2 + [(State.CLAIMED, False)]
    assert await batch.settle(Ending.COMPLETE) == LATE
    assert await states(sql, keys) == [(State.COMPLETED, True)] * 2 + [(State.COMPLETED, False)]
    assert await store.inner.settle(ending_of(theirs, Ending.COMPLETE)) == NOTHING


async def test_a_success_brings_items_back_that_a_failover_lost(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    lost = batch.keys[0]
    await sql.execute("delete from dedup.claims where key = $1", UUID(lost.digest))
    assert await batch.settle(Ending.COMPLETE) == LATE
    assert await states(sql, batch.keys) == [(State.COMPLETED, False)] * 3
    back = await row(sql, lost)
    assert back is not None
    assert back["event_id"] == lost.event_id


async def test_one_locked_item_holds_up_no_other_batch(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    locked = fresh_ask()
    await store.arrive(locked)
    await store.settle(locked, Ending.RELEASE)
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for update", UUID(locked.key.digest)
        )
        stuck = [
            asyncio.ensure_future(store.arrive_all(asks_for([locked.key, *fresh_items(2)])))
            for _ in range(6)
        ]
        for _ in range(40):
            told = await store.arrive_all(asks_for(fresh_items(3)), PATIENCE)
            assert all(isinstance(one, Won) for one in told)
        for failed in await asyncio.gather(*stuck, return_exceptions=True):
            assert isinstance(failed, StoreAway)
            assert failed.undecided, "the other items are won"


async def test_a_batch_whose_item_is_locked_goes_on_once_it_is_free(
    stores: Stores, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    locked = fresh_ask()
    await store.arrive(locked)
    await store.settle(locked, Ending.RELEASE)
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for update", UUID(locked.key.digest)
        )
        asked = asyncio.ensure_future(
            store.arrive_all(asks_for([*fresh_items(2), locked.key]), PATIENCE)
        )
        while not store.errors["lock"]:
            await asyncio.sleep(0)
    told = await asked
    assert [one.attempt for one in told if isinstance(one, Won)] == [1, 1, 2]
