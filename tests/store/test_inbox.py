"""An entry's life in Postgres: stored, leased, concluded, revived, forgotten."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.claim import Seen, Settled, State
from gateway.core.inbox import Accepted, EntryEnding
from tests.store.stores import (
    ROUTE,
    Stores,
    claim,
    conclusion,
    fresh_ask,
    fresh_offer,
)


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
    assert await store.inner.conclude(conclusion(leased, EntryEnding.DELIVER)) == Settled(
        True, False
    )
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
        await store.inner.conclude(conclusion(leased, EntryEnding.DELIVER))
    again = await store.accept(fresh_offer(offer.key))
    assert isinstance(again, Seen)
    assert not again.dead
    arrived = await store.arrive(fresh_ask(offer.key))
    assert isinstance(arrived, Seen)
    assert not arrived.dead
