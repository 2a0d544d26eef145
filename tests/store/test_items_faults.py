"""Batches when replies get lost, or a process dies between two statements."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending, Held, Settled, State, StoreAway, Won
from gateway.core.inbox import EntryEnding, EntryState
from gateway.store.deliveries import columns
from gateway.store.queries import read
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.batches import (
    ClaimedBatch,
    asks_for,
    claim_batch,
    conclusion_of,
    ending_of,
    fresh_items,
    states,
)
from tests.store.lost import with_a_lost_reply
from tests.store.statements import WAIT
from tests.store.stores import (
    PATIENCE,
    Stores,
    claim,
    entry,
    fresh_ask,
    lapse,
    lapse_entry,
    waiting_for_a_lock,
)


@pytest.mark.row(9)
async def test_items_whose_reply_was_lost_are_found_again_by_their_token(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    asks = asks_for(fresh_items(3))
    told = await with_a_lost_reply(
        wire, store.arrive_all(asks, PATIENCE), once=lambda: claim(sql, asks[0].key)
    )
    assert [one.attempt for one in told if isinstance(one, Won)] == [1, 1, 1]


async def test_a_take_over_of_items_whose_reply_was_lost_is_not_made_twice(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    keys = fresh_items(3)
    for ask in (released := asks_for(keys[:2])):
        await store.arrive(ask)
    await store.inner.settle(ending_of(released, Ending.RELEASE))

    async def is_taken() -> bool:
        found = await claim(sql, keys[0])
        return found is not None and found.state is State.CLAIMED

    told = await with_a_lost_reply(wire, store.arrive_all(asks_for(keys), PATIENCE), once=is_taken)
    assert [one.attempt for one in told if isinstance(one, Won)] == [2, 2, 1]
    assert store.sizes("take_over") == [2]
    found = [await claim(sql, key) for key in keys]
    assert [row and row.attempt for row in found] == [2, 2, 1]


async def test_a_take_over_of_items_that_was_lost_before_it_took_effect_stays_undecided(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    keys = fresh_items(2)
    released = asks_for(keys[:1])
    await store.arrive_all(released)
    await store.inner.settle(ending_of(released, Ending.RELEASE))
    async with other.transaction():
        await other.execute("select from dedup.claims for update")
        asked = asyncio.ensure_future(store.arrive_all(asks_for(keys), PATIENCE))
        pid = await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
        await sql.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(StoreAway, match="not known whether") as away:
            await asked
    assert away.value.undecided
    assert await states(sql, keys) == [(State.RELEASED, False), (State.CLAIMED, False)]


@pytest.mark.row(13)
async def test_items_that_stay_unknown_are_freed_by_a_release_with_their_token(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    await store.arrive_all(asks_for(fresh_items(2)))  # so that the next one goes in one trip
    asks = asks_for(fresh_items(2))
    wire.set(Wire.HOLD_REPLIES)
    with pytest.raises(StoreAway) as away:
        await store.arrive_all(asks)
    assert away.value.undecided
    assert await eventually(lambda: claim(sql, asks[0].key), within=PATIENCE)
    wire.set(Wire.PASS)
    await store.up()
    assert (await store.inner.settle(ending_of(asks, Ending.RELEASE))).changed
    told = await store.arrive_all(asks_for(ask.key for ask in asks))
    assert [(one.attempt, one.doubtful) for one in told if isinstance(one, Won)] == [(2, False)] * 2


async def test_nothing_of_a_batch_is_undecided_that_never_left(stores: Stores) -> None:
    store = await stores.open("postgresql://nobody@127.0.0.1:1/nothing", up=False)
    with pytest.raises(StoreAway) as away:
        await store.arrive_all(asks_for(fresh_items(2)), 0.3)
    assert not away.value.undecided


@pytest.mark.row(75)
async def test_a_batch_that_was_stored_although_the_reply_was_lost_is_stored_once(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    offer = (await claim_batch(store)).offer
    assert await with_a_lost_reply(
        wire, store.store(offer, PATIENCE), once=lambda: entry(sql, offer.key)
    )
    assert len(store.sizes("store")) > 1
    kept = await entry(sql, offer.key)
    assert kept is not None
    assert (kept.state, kept.attempt, kept.token) == (EntryState.LEASED, 1, offer.token)


async def test_storing_a_batch_that_waits_for_its_own_first_try_is_told_what_that_did(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """The second looked before the first was done, so it sees no entry of its own."""
    store = await stores.open(wire.proxied)
    offer = (await claim_batch(store)).offer
    parts = sorted(offer.items, key=lambda part: part.key.digest)
    async with other.transaction():
        await other.fetch(  # the first try, as if it had got through
            read("items.sql")["store"].sql,
            [UUID(part.key.digest) for part in parts],
            [bytes([part.fingerprint]) for part in parts],
            [part.key.event_id.encode() for part in parts],
            UUID(offer.key.digest), 1, offer.token, b"l", 30.0, False, b"a", b"",
            *columns(offer.delivery), False, WAIT,
        )  # fmt: skip
        wire.set(Wire.BLACK_HOLE)
        asked = asyncio.ensure_future(store.store(offer, PATIENCE))
        await asyncio.sleep(0)
        wire.drop_all()
        await eventually(lambda: store.errors["connection"], within=PATIENCE)
        wire.set(Wire.PASS)
        await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
    assert await asked


async def test_a_delivery_of_a_batch_whose_record_got_no_reply_is_recorded_once(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    batch = await claim_batch(await stores.open(wire.proxied))
    await batch.store.store(batch.offer)

    async def is_over() -> bool:
        found = await claim(sql, batch.keys[1])
        return found is not None and found.state is State.COMPLETED

    done = batch.conclude(EntryEnding.DELIVER)
    assert await with_a_lost_reply(wire, done, once=is_over) == Settled(False, False)
    assert await states(sql, batch.keys) == [(State.COMPLETED, False)] * 3


async def test_a_holder_that_died_leaves_items_that_lapse_and_are_taken_over_marked(
    batch: ClaimedBatch, stores: Stores, sql: asyncpg.Connection
) -> None:
    """Each for itself: another batch may bring only some of them."""
    keys, heir = batch.keys, await stores.open()
    await batch.store.inner.stop()
    some = asks_for([*keys[:2], *fresh_items(1)])
    assert [type(one) for one in await heir.arrive_all(some)] == [Held, Held, Won]
    for key in keys:
        await lapse(sql, key)
    told = await heir.arrive_all(some)
    assert [(one.attempt, one.doubtful, one.took_over) for one in told if isinstance(one, Won)] == [
        (2, True, True),
        (2, True, True),
        (1, False, False),
    ]
    assert await states(sql, keys[2:]) == [(State.CLAIMED, False)]


async def test_a_worker_that_died_leaves_a_batch_that_the_next_one_sends_marked(
    batch: ClaimedBatch, stores: Stores, sql: asyncpg.Connection
) -> None:
    heir = await stores.open()
    await batch.store.store(batch.offer)
    await batch.store.inner.stop()
    assert await heir.lease() == []
    await lapse_entry(sql, batch.offer.key)
    (leased,) = await heir.lease()
    assert (leased.attempt, leased.doubtful, leased.took_over) == (2, True, True)
    assert {part.key for part in leased.items} == set(batch.keys)
    assert (await heir.conclude(conclusion_of(leased, EntryEnding.DELIVER))).changed
    assert await states(sql, batch.keys) == [(State.COMPLETED, True)] * 3


async def test_a_process_that_died_while_it_stored_left_nothing_of_it(
    batch: ClaimedBatch, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    dying = batch.store

    async def is_ended() -> bool:
        return bool(
            await sql.fetchval(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
        )

    async with other.transaction():
        await other.execute("lock table dedup.entry_items in share mode")
        asked = asyncio.ensure_future(dying.store(batch.offer, PATIENCE))
        await eventually(is_ended, within=PATIENCE)
        await dying.inner.stop()
        with pytest.raises(StoreAway):
            await asked
    assert await states(sql, batch.keys) == [(State.CLAIMED, False)] * 3
    assert await entry(sql, batch.offer.key) is None
    assert await sql.fetch("select from dedup.entry_items") == []


@pytest.mark.parametrize("completed", [False, True], ids=["held_by_others", "completed_by_others"])
async def test_a_settlement_that_is_made_in_two_steps_tells_what_both_of_them_did(
    completed: bool, batch: ClaimedBatch, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """The statement that settles is over, the one that completes finds a locked row and waits."""
    store, keys = batch.store, batch.keys
    await lapse(sql, keys[0])
    await store.arrive(fresh_ask(keys[0]))
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for update", UUID(keys[0].digest)
        )
        asked = asyncio.ensure_future(batch.settle(Ending.COMPLETE))
        await eventually(lambda: store.errors["lock"], within=PATIENCE)
        if completed:
            await other.execute(
                "update dedup.claims set state = 'D', token = null, until = null where key = $1",
                UUID(keys[0].digest),
            )
    assert await asked == Settled(True, late=not completed)
    assert await states(sql, keys) == [
        (State.COMPLETED, True),
        (State.COMPLETED, False),
        (State.COMPLETED, False),
    ]
