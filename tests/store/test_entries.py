"""What workers ask of the entries: leases in order, what waits, what may be forgotten."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Seen, Settled
from gateway.core.inbox import EntryEnding, EntryState, Leased, Waiting
from tests.store.stores import (
    DELIVERY,
    ROUTE,
    OpenStore,
    Stores,
    at_once,
    conclusion,
    entry,
    fresh_key,
    fresh_offer,
)


async def leased_one(store: OpenStore) -> Leased:
    """An event that was stored, in the hands of a worker."""
    await store.accept(fresh_offer())
    (leased,) = await store.lease()
    return leased


async def test_leases_come_in_order_from_either_end_and_no_more_than_asked_for(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    name = await sql.fetchval("select current_database()")
    for plan in ("nestloop", "mergejoin"):  # one that brings rows in an order of its own is left
        await sql.execute(f"alter database {name} set enable_{plan} = off")
    store = await stores.open()
    offers = [fresh_offer(fresh_key(f"evt_{n}")) for n in (5, 3, 7, 0, 1, 6, 2, 4)]
    await at_once(store.accept(offer) for offer in offers)
    for offer in offers:
        await sql.execute(
            "update dedup.entries set due = now() - interval '1 minute' + $2 * interval '1 second'"
            " where key = $1",
            UUID(offer.key.digest),
            int(offer.key.event_id.removeprefix("evt_")),
        )

    async def names(most: int, *, newest: bool) -> list[str]:
        return [leased.key.event_id for leased in await store.lease(most, newest=newest)]

    assert await names(2, newest=False) == ["evt_0", "evt_1"]
    assert await names(3, newest=True) == ["evt_7", "evt_6", "evt_5"]
    assert await names(9, newest=False) == ["evt_2", "evt_3", "evt_4"]


async def test_a_lease_closes_an_entry_whose_event_was_completed_behind_its_back(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    offer, other = fresh_offer(), fresh_offer()
    await at_once(store.accept(o) for o in (offer, other))
    await sql.execute("update dedup.claims set state = 'd' where key = $1", UUID(offer.key.digest))
    assert [leased.key for leased in await store.lease()] == [other.key]
    closed = await entry(sql, offer.key)
    assert closed is not None
    assert (closed.state, closed.attempt) == (EntryState.DELIVERED, 0)
    assert await store.inner.due([ROUTE]) == frozenset()


async def test_an_entry_that_outlived_its_claim_stays_as_it_is_when_the_event_is_stored_again(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """It was acknowledged, and whoever has it goes on."""
    store = await stores.open()
    leased = await leased_one(store)
    before = await entry(sql, leased.key)
    await sql.execute("delete from dedup.claims")
    again = fresh_offer(leased.key, delivery=DELIVERY._replace(body=b"new"))
    for offer in (again, fresh_offer(leased.key, EntryState.LEASED)):
        told = await store.accept(offer)  # it is not for whoever brought it to send
        assert isinstance(told, Seen)
        assert told.stored
    assert await entry(sql, leased.key) == before
    settled = await store.conclude(conclusion(leased, EntryEnding.DELIVER))
    assert settled == Settled(True, False)


async def test_what_waits_is_counted_by_route_and_state(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.inner.register({"billing": b"recipe"})
    offers = [fresh_offer() for _ in range(3)] + [
        fresh_offer(state=EntryState.HELD),
        fresh_offer()._replace(route="billing"),
    ]
    await at_once(store.accept(offer) for offer in offers)
    await store.lease(1)
    await sql.execute("update dedup.entries set received = now() - interval '1 hour'")
    waiting = await store.inner.waiting()
    assert {at: found.entries for at, found in waiting.items()} == {
        (ROUTE, EntryState.PENDING): 2,
        (ROUTE, EntryState.LEASED): 1,
        (ROUTE, EntryState.HELD): 1,
        ("billing", EntryState.PENDING): 1,
    }
    assert all(3600 <= found.oldest < 3700 for found in waiting.values())
    assert isinstance(next(iter(waiting.values())), Waiting)
    assert await store.inner.due([ROUTE, "billing"]) == {ROUTE, "billing"}
    assert await store.inner.due(["billing", "unknown"]) == {"billing"}
    assert await store.inner.orphans([ROUTE]) == {"billing": 1}
    elsewhere = await stores.open()
    assert (ROUTE, EntryState.PENDING) in await elsewhere.inner.waiting()
    assert ("billing", EntryState.PENDING) not in await elsewhere.inner.waiting()


@pytest.mark.row(95)
async def test_only_what_is_over_for_long_enough_is_forgotten_and_claims_stay(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    offers = [fresh_offer() for _ in range(5)]
    await at_once(store.accept(offer) for offer in offers)
    leased = await store.lease(4)
    endings = [EntryEnding.DELIVER, EntryEnding.DELIVER, EntryEnding.BURY, EntryEnding.HOLD]
    for one, ending in zip(leased, endings, strict=True):
        await store.conclude(conclusion(one, ending))
    await sql.execute("update dedup.entries set settled = settled - interval '1 day'")
    assert await store.inner.forget(ROUTE, 86_500, 10) == 0
    assert await store.inner.forget(ROUTE, 86_300, 1) == 1
    assert await store.inner.forget(ROUTE, 86_300, 10) == 1
    assert await sql.fetchval("select count(*) from dedup.entries") == 3
    assert await sql.fetchval("select count(*) from dedup.claims") == 5


async def test_a_redriven_entry_is_leased_by_order_until_an_attempt_counts(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    leased = await leased_one(store)
    await store.conclude(conclusion(leased, EntryEnding.BURY))
    async with sql.transaction():
        await sql.execute("update dedup.entries set state = 'p', settled = null, since = now()")
        await sql.execute(
            "insert into dedup.actions (who, action, key, route, attempt)"
            " select 'me', 'redrive', key, route, attempt from dedup.entries"
        )
    (first,) = await store.lease()
    await store.conclude(conclusion(first, EntryEnding.HAND_BACK))
    (second,) = await store.lease()
    await store.conclude(conclusion(second, EntryEnding.RETRY))
    (third,) = await store.lease()
    assert [one.by_order for one in (first, second, third)] == [True, True, False]
    assert [one.attempt for one in (first, second, third)] == [2, 2, 3]


async def test_what_a_pooler_forgot_is_asked_again(stores: Stores) -> None:
    store = await stores.open()
    await store.accept(fresh_offer())
    await store.lease(0)
    connection = await store.inner._sessions.take()
    await connection.execute("deallocate all")
    store.inner._sessions.give_back(connection)
    assert len(await store.lease()) == 1
    assert store.errors == {"prepared": 1}


async def test_an_entry_that_is_held_keeps_the_end_of_its_latest_attempt_as_the_reason(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.accept(fresh_offer())
    for ending, why in ((EntryEnding.RETRY, "ambiguous timeout"), (EntryEnding.HOLD, "in doubt")):
        (leased,) = await store.lease()
        await store.conclude(conclusion(leased, ending, why=why))
    assert await sql.fetchval("select why from dedup.entries") == "ambiguous timeout"


async def test_an_entry_that_is_held_before_any_attempt_says_why(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.accept(fresh_offer())
    (leased,) = await store.lease()
    await store.conclude(conclusion(leased, EntryEnding.HOLD, why="older than the retention"))
    assert await sql.fetchval("select why from dedup.entries") == "older than the retention"
