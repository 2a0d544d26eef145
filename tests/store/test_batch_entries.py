"""Entries of batches: one that stands for the claims of many events."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Arrival, Ending, Seen, Settled, State
from gateway.core.inbox import EntryEnding, EntryState
from tests.store.batches import (
    ClaimedBatch,
    asks_for,
    claim_batch,
    conclusion_of,
    fresh_items,
    listed,
    offer_of,
    states,
)
from tests.store.stores import (
    ROUTE,
    Stores,
    claim,
    entry,
    fresh_ask,
    fresh_key,
    fresh_offer,
    lapse,
    lapse_entry,
)

CHANGED, NOTHING = Settled(True, False), Settled(False, False)


def is_dead(told: Arrival) -> bool:
    return isinstance(told, Seen) and told.dead


async def test_items_are_stored_as_one_entry_and_come_back_with_it(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    store, keys = batch.store, batch.keys
    offer = batch.offer._replace(state=EntryState.PENDING)
    assert await store.store(offer)
    assert await states(sql, keys) == [(State.STORED, False)] * 3
    assert await claim(sql, offer.key) is None
    (leased,) = await store.lease()
    assert (leased.key, leased.attempt, leased.doubtful) == (offer.key, 1, False)
    assert leased.delivery == offer.delivery
    assert set(leased.items) == set(offer.items)
    assert await store.conclude(conclusion_of(leased, EntryEnding.DELIVER)) == CHANGED
    assert await states(sql, keys) == [(State.COMPLETED, False)] * 3
    assert await claim(sql, offer.key) is None
    closed = await entry(sql, offer.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    assert await store.conclude(conclusion_of(leased, EntryEnding.DELIVER)) == NOTHING


async def test_storing_again_finds_the_entry_that_is_there(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    store, offer = batch.store, batch.offer
    assert await store.store(offer)
    before = await entry(sql, offer.key)
    assert await store.store(offer)
    assert await entry(sql, offer.key) == before
    assert not await store.store(offer._replace(token=offer.token + 1))


async def test_an_entry_for_only_some_of_its_items_is_doubtful_and_lists_those(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    store, keys = batch.store, batch.keys
    await lapse(sql, keys[1])
    await store.arrive_all(asks_for([keys[1]]))
    assert await store.store(batch.offer._replace(state=EntryState.PENDING))
    assert await states(sql, keys) == [
        (State.STORED, False),
        (State.CLAIMED, True),
        (State.STORED, False),
    ]
    (leased,) = await store.lease()
    assert leased.doubtful
    assert {part.key for part in leased.items} == {keys[0], keys[2]}


async def test_an_entry_that_carries_events_without_an_id_is_sent_although_its_items_are_completed(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    store = batch.store
    offer = batch.offer._replace(state=EntryState.PENDING, unkeyed=True)
    assert await store.store(offer)
    for ask in batch.asks:
        assert (await store.settle(ask, Ending.COMPLETE)).late
    (leased,) = await store.lease()
    assert leased.doubtful
    assert set(leased.items) == set(offer.items)
    done = conclusion_of(leased, EntryEnding.DELIVER)
    await store.conclude(done)
    closed = await entry(sql, offer.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    assert await store.lease() == []


async def test_nothing_is_stored_when_all_items_are_lost(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    await batch.settle(Ending.RELEASE)
    assert not await batch.store.store(batch.offer)
    assert await entry(sql, batch.offer.key) is None
    assert await listed(sql, batch.offer.key) == set()


async def test_one_doubtful_item_marks_the_whole_entry(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    keys = fresh_items(2)
    before = fresh_ask(keys[0])
    await store.arrive(before)
    await store.settle(before, Ending.RELEASE_DOUBTFUL)
    asks = asks_for(keys)
    await store.arrive_all(asks)
    offer = offer_of(asks, EntryState.PENDING)
    assert await store.store(offer)
    kept = await entry(sql, offer.key)
    assert kept is not None
    assert (kept.doubtful, kept.attempt) == (True, 1)
    assert await states(sql, keys) == [(State.STORED, True), (State.STORED, False)]


async def test_a_late_success_of_the_holder_closes_the_entry_that_its_batch_became(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    await batch.store.store(batch.offer)
    assert await batch.settle(Ending.COMPLETE) == CHANGED
    closed = await entry(sql, batch.offer.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    assert await batch.store.lease() == []


async def test_an_entry_is_closed_only_once_all_of_its_items_are_completed(
    batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    """A part of them may be completed by others; it is sent for the rest, marked."""
    store, keys = batch.store, batch.keys
    await store.store(batch.offer._replace(state=EntryState.PENDING))
    for key in keys[:2]:
        assert (await store.settle(fresh_ask(key), Ending.COMPLETE)).late
    (leased,) = await store.lease()
    assert leased.doubtful
    assert (await store.settle(fresh_ask(keys[2]), Ending.COMPLETE)).late
    await lapse_entry(sql, leased.key)
    assert await store.lease() == []
    closed = await entry(sql, leased.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED


@pytest.mark.parametrize("ending", [EntryEnding.RETRY, EntryEnding.HAND_BACK, EntryEnding.HOLD])
async def test_an_attempt_without_success_leaves_the_items_stored(
    ending: EntryEnding, batch: ClaimedBatch, sql: asyncpg.Connection
) -> None:
    await batch.store.store(batch.offer)
    assert await batch.conclude(ending) == CHANGED
    assert await states(sql, batch.keys) == [(State.STORED, False)] * 3
    assert await listed(sql, batch.offer.key) == {key.digest for key in batch.keys}


async def test_what_meets_a_dead_batch_revives_it_with_the_bytes_that_it_has(
    batch: ClaimedBatch,
) -> None:
    store, keys, offer = batch.store, batch.keys, batch.offer
    await store.store(offer)
    assert not any(is_dead(one) for one in await store.arrive_all(asks_for(keys)))
    await batch.conclude(EntryEnding.BURY)
    told = await store.arrive_all(asks_for([*keys, fresh_key()]))
    assert [is_dead(one) for one in told] == [True, True, True, False]
    other = offer_of(asks_for(keys[:1]))
    other = other._replace(delivery=other.delivery._replace(body=b"other"))
    assert await store.inner.revive(other)
    assert not await store.inner.revive(other)
    (leased,) = await store.lease()
    assert (leased.attempt, leased.delivery.body) == (2, offer.delivery.body)
    assert not any(is_dead(one) for one in await store.arrive_all(asks_for(keys)))


async def test_a_lone_delivery_of_an_item_is_told_of_the_dead_batch_and_revives_it(
    batch: ClaimedBatch,
) -> None:
    store, keys, offer = batch.store, batch.keys, batch.offer
    await store.store(offer)
    await batch.conclude(EntryEnding.BURY)
    for told in (await store.arrive(fresh_ask(keys[0])), await store.accept(fresh_offer(keys[0]))):
        assert isinstance(told, Seen)
        assert told.dead
    assert await store.inner.revive(fresh_offer(keys[0]))
    (leased,) = await store.lease()
    assert (leased.key, leased.delivery.body) == (offer.key, offer.delivery.body)


async def test_an_item_belongs_to_its_newest_entry(stores: Stores, sql: asyncpg.Connection) -> None:
    store = await stores.open()
    a, b, c = fresh_items(3)
    first = asks_for([a, b])
    await store.arrive_all(first)
    await store.store(offer_of(first, EntryState.PENDING))
    await sql.execute("delete from dedup.claims where key = $1", UUID(b.digest))
    second = asks_for([b, c])
    await store.arrive_all(second)
    await store.store(offer_of(second, EntryState.PENDING))
    leased = await store.lease()
    assert [{part.key for part in one.items} for one in leased] == [{a}, {b, c}]


async def test_what_an_entry_stood_for_goes_with_it(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    gone, kept = await claim_batch(store), await claim_batch(store)
    for batch in (gone, kept):
        await store.store(batch.offer)
    await gone.conclude(EntryEnding.DELIVER)
    await sql.execute(
        "update dedup.entries set settled = now() - interval '1 day' where state = 'd'"
    )
    assert await store.inner.forget(ROUTE, 60, 10) == 1
    left = await sql.fetch("select key from dedup.entry_items")
    assert {row["key"].bytes for row in left} == {key.digest for key in kept.keys}
    assert await states(sql, gone.keys) == [(State.COMPLETED, False)] * 3
