"""An entry's life in Postgres: stored, leased, concluded, revived, forgotten."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.claim import Ending, Held, Seen, Settled, State, StoreAway, Won
from gateway.core.inbox import Accepted, EntryEnding, EntryState, Leased, Unclaimed
from tests.store.stores import (
    DELIVERY,
    ROUTE,
    OpenStore,
    Stores,
    at_once,
    claim,
    conclusion,
    entry,
    entry_row,
    fresh_ask,
    fresh_offer,
    lapse_entry,
)


async def leased_one(store: OpenStore) -> Leased:
    """An event that was stored, in the hands of a worker."""
    await store.accept(fresh_offer())
    (leased,) = await store.lease()
    return leased


async def test_an_event_is_stored_leased_and_delivered_once(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    offer = fresh_offer()
    assert isinstance(await store.accept(offer), Accepted)
    assert await store.inner.due([ROUTE]) == {ROUTE}
    (leased,) = await store.lease()
    assert (leased.key, leased.attempt, leased.doubtful) == (offer.key, 1, False)
    assert leased.delivery == offer.delivery
    assert (leased.took_over, leased.by_order) == (False, False)
    assert await store.lease() == []
    assert await store.inner.due([ROUTE]) == frozenset()
    settled = await store.conclude(conclusion(leased, EntryEnding.DELIVER))
    assert settled == Settled(True, False)
    found = await claim(sql, offer.key)
    assert found is not None
    assert found.state is State.COMPLETED
    assert await store.inner.waiting() == {}


@pytest.mark.row(77)
@pytest.mark.parametrize("state", ["pending", "leased", "delivered"])
async def test_a_duplicate_of_a_stored_event_is_told_so_whatever_became_of_it(
    state: str, stores: Stores
) -> None:
    store = await stores.open()
    offer = fresh_offer()
    await store.accept(offer)
    if state != "pending":
        (leased,) = await store.lease()
    if state == "delivered":
        await store.conclude(conclusion(leased, EntryEnding.DELIVER))
    again = await store.accept(fresh_offer(offer.key))
    assert isinstance(again, Seen)
    assert not again.dead
    arrived = await store.arrive(fresh_ask(offer.key))
    assert isinstance(arrived, Seen)
    assert not arrived.dead


@pytest.mark.row(78)
async def test_a_delivery_that_meets_a_dead_entry_is_told_and_revives_it_with_its_own_bytes(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY, doubtful=True))
    for told in (
        await store.accept(fresh_offer(leased.key)),
        await store.arrive(fresh_ask(leased.key)),
    ):
        assert isinstance(told, Seen)
        assert told.dead
    new = fresh_offer(leased.key, delivery=DELIVERY._replace(body=b"new"), fingerprint=9)
    assert await store.inner.revive(new)
    assert not await store.inner.revive(fresh_offer(leased.key))
    (again,) = await store.lease()
    assert (again.delivery.body, again.fingerprint) == (b"new", 9)
    assert (again.attempt, again.doubtful, again.took_over) == (2, True, False)
    told = await store.accept(fresh_offer(leased.key))
    assert isinstance(told, Seen)
    assert not told.dead


async def test_another_event_of_the_operation_revives_a_dead_entry_with_the_bytes_it_has(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY))
    other = leased.key._replace(event_id="evt_other")
    new = DELIVERY._replace(body=b"refunded", target="/other", headers=((b"A", b"b"),))
    assert await store.inner.revive(fresh_offer(other, delivery=new, fingerprint=9))
    (again,) = await store.lease()
    assert again.key == leased.key
    assert (again.delivery, again.fingerprint) == (leased.delivery, leased.fingerprint)
    assert again.attempt == 2


async def test_a_dead_entry_goes_to_the_route_of_the_delivery_that_revives_it(
    stores: Stores,
) -> None:
    """Routes may share a scope: what it is about is in the target, which that route rewrites."""
    store = await stores.open()
    await store.inner.register({"legacy": b"recipe"})
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY))
    assert await store.inner.revive(fresh_offer(leased.key)._replace(route="legacy"))
    assert await store.lease() == []
    (again,) = await store.inner.lease("legacy", 1, 1, 30.0, newest=False)
    assert again.key == leased.key


async def test_of_many_deliveries_that_meet_a_dead_entry_at_once_one_revives_it(
    stores: Stores,
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY))
    told = await at_once(store.inner.revive(fresh_offer(leased.key)) for _ in range(5))
    assert sorted(told) == [False, False, False, False, True]


async def test_a_dead_entry_that_others_have_locked_is_no_sign_of_a_store_that_is_away(
    stores: Stores, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY))
    async with other.transaction():
        await other.execute("select from dedup.entries for update")
        with pytest.raises(StoreAway):
            await store.inner.revive(fresh_offer(leased.key))
    assert store.inner.away_since is None
    assert store.errors.keys() == {"lock"}
    await store.inner.revive(fresh_offer(leased.key))  # unless the one before did it after all
    assert [one.key for one in await store.lease()] == [leased.key]


@pytest.mark.row(76)
async def test_what_was_stored_by_a_process_that_died_is_sent_by_another_marked(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    dead, heir = await stores.open(), await stores.open()
    offer = fresh_offer(state=EntryState.LEASED)
    await dead.accept(offer)
    await dead.inner.stop()
    assert await heir.lease() == []
    await lapse_entry(sql, offer.key)
    (leased,) = await heir.lease()
    assert (leased.attempt, leased.doubtful, leased.took_over) == (2, True, True)
    assert isinstance(await heir.accept(fresh_offer(offer.key)), Seen)


@pytest.mark.row(87)
async def test_a_worker_that_wakes_late_can_deliver_but_neither_retry_nor_bury(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    zombie = await leased_one(store)
    await lapse_entry(sql, zombie.key)
    (heir,) = await store.lease()
    before = await entry(sql, zombie.key)
    for ending in EntryEnding:
        if ending is not EntryEnding.DELIVER:
            told = await store.conclude(conclusion(zombie, ending))
            assert told == Settled(False, False)
            assert await entry(sql, zombie.key) == before
    delivered = conclusion(zombie, EntryEnding.DELIVER)
    assert await store.conclude(delivered) == Settled(True, True)
    for ending in EntryEnding:
        assert await store.conclude(conclusion(heir, ending)) == Settled(False, False)
    closed = await entry(sql, zombie.key)
    assert closed is not None
    assert closed.state is EntryState.DELIVERED


@pytest.mark.parametrize(
    ("ending", "state", "attempt"),
    [
        (EntryEnding.RETRY, EntryState.PENDING, 1),
        (EntryEnding.HAND_BACK, EntryState.PENDING, 0),
        (EntryEnding.BURY, EntryState.DEAD, 1),
        (EntryEnding.HOLD, EntryState.HELD, 0),
    ],
)
async def test_an_attempt_is_counted_unless_nothing_was_sent(
    ending: EntryEnding,
    state: EntryState,
    attempt: int,
    stores: Stores,
    sql: asyncpg.Connection,
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    why = "refused\x00 503 \ud83d"
    told = await store.conclude(conclusion(leased, ending, pause=40.0, why=why))
    assert told == Settled(True, False)
    found, row = await entry(sql, leased.key), await entry_row(sql, leased.key)
    assert found is not None
    assert row is not None
    assert (found.state, found.attempt) == (state, attempt)
    assert row["why"] == "refused\ufffd 503 \ufffd"
    assert await store.lease() == []  # it is due in 40 s, if at all


async def test_calls_about_one_key_in_one_turn_store_it_once_and_tell_the_others(
    stores: Stores,
) -> None:
    store = await stores.open()
    first = fresh_offer(fingerprint=1)
    same, other = (fresh_offer(first.key, fingerprint=n) for n in (1, 2))
    told = await at_once(store.accept(offer) for offer in (first, same, other, first))
    assert store.sizes("accept") == [1]
    won, same_body, other_body, repeated = told
    assert isinstance(won, Accepted)
    assert repeated == won
    assert isinstance(same_body, Seen)
    assert isinstance(other_body, Seen)
    assert (same_body.same_body, other_body.same_body) == (True, False)


async def test_without_room_nothing_is_stored_and_duplicates_are_told_all_the_same(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    known, new = fresh_offer(), fresh_offer()
    await store.accept(known)
    told = await at_once(
        store.accept(fresh_offer(offer.key), has_room=False) for offer in (known, new)
    )
    assert isinstance(told[0], Seen)
    assert isinstance(told[1], Unclaimed)
    assert await claim(sql, new.key) is None
    assert await entry(sql, new.key) is None


async def test_an_event_that_somebody_forwards_is_busy_and_one_set_free_has_to_be_won(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    holder = fresh_ask()
    await store.arrive(holder)
    assert isinstance(await store.accept(fresh_offer(holder.key)), Held)
    await store.settle(holder, Ending.RELEASE_DOUBTFUL)
    assert isinstance(await store.accept(fresh_offer(holder.key)), Unclaimed)
    heir = fresh_ask(holder.key)
    assert isinstance(await store.arrive(heir), Won)
    assert not await store.store(fresh_offer(holder.key, token=holder.token))
    assert await entry(sql, holder.key) is None
    assert await store.store(fresh_offer(holder.key, token=heir.token))
    (leased,) = await store.lease()
    assert (leased.attempt, leased.doubtful) == (2, True)
