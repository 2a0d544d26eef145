"""Keys of operations: the events of one are told apart by the id that the claim keeps."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.claim import Ask, Ending, Held, Seen, Won
from gateway.core.event import EventKey
from gateway.core.inbox import Accepted
from tests.store.stores import Stores, at_once, fresh_ask, fresh_key, fresh_offer, row


def events_of_one_operation(number: int) -> list[EventKey]:
    key = fresh_key()
    return [EventKey(key.digest, f"evt_{n}") for n in range(number)]


def same_events(told: list[object]) -> list[bool]:
    return [one.same_event for one in told if isinstance(one, Seen | Held)]


async def test_another_event_of_an_operation_is_told_apart_while_it_runs_and_when_it_is_done(
    stores: Stores,
) -> None:
    store = await stores.open()
    first, second = events_of_one_operation(2)
    holder = fresh_ask(first)
    assert isinstance(await store.arrive(holder), Won)
    told: list[object] = [await store.arrive(fresh_ask(key)) for key in (first, second)]
    told += await store.arrive_all([fresh_ask(second)])
    assert [type(one) for one in told] == [Held] * 3
    assert same_events(told) == [True, False, False]
    await store.settle(holder, Ending.COMPLETE)
    told = [await store.arrive(fresh_ask(key)) for key in (first, second)]
    told += [await store.accept(fresh_offer(key)) for key in (first, second)]
    assert [type(one) for one in told] == [Seen] * 4
    assert same_events(told) == [True, False] * 2


async def test_the_events_of_an_operation_that_come_in_one_moment_are_told_apart(
    stores: Stores,
) -> None:
    """They travel as one, and only the first of them is compared by the server."""
    store = await stores.open()
    first, second, third = events_of_one_operation(3)
    asks = [fresh_ask(key) for key in (first, second, first, third)]
    won, *told = await at_once(store.arrive(ask) for ask in asks)
    assert isinstance(won, Won)
    assert same_events(list(told)) == [False, True, False]
    again = await at_once(store.arrive(fresh_ask(key)) for key in (second, first, third, second))
    assert same_events(list(again)) == [False, True, False, False]
    await store.settle(asks[0], Ending.COMPLETE)
    again = await at_once(store.arrive(fresh_ask(key)) for key in (first, second))
    assert same_events(list(again)) == [True, False]
    assert store.sizes("arrive")[-3:] == [1, 1, 1]


async def test_the_events_of_an_operation_that_are_stored_in_one_moment_are_told_apart(
    stores: Stores,
) -> None:
    store = await stores.open()
    first, second = events_of_one_operation(2)
    told = await at_once(store.accept(fresh_offer(key)) for key in (first, second, first))
    assert isinstance(told[0], Accepted)
    assert same_events(list(told)) == [False, True]
    told = await at_once(store.accept(fresh_offer(key)) for key in (second, first, second))
    assert same_events(list(told)) == [False, True, False]


@pytest.mark.parametrize("by", ["arrive", "arrive_all"])
async def test_the_event_that_takes_an_operation_over_is_the_one_that_is_remembered(
    by: str, stores: Stores, sql: asyncpg.Connection
) -> None:
    """The first one failed: it is the second that the consumer has."""
    store = await stores.open()
    first, second = events_of_one_operation(2)
    failed, heir = fresh_ask(first), fresh_ask(second)
    await store.arrive(failed)
    await store.settle(failed, Ending.RELEASE)
    (won,) = [await store.arrive(heir)] if by == "arrive" else await store.arrive_all([heir])
    assert isinstance(won, Won)
    await store.settle(heir, Ending.COMPLETE)
    told: list[object] = [await store.arrive(fresh_ask(key)) for key in (first, second)]
    assert same_events(told) == [False, True]
    found = await row(sql, first)
    assert found is not None
    assert found["event_id"] == "evt_1"


async def test_where_ids_are_not_kept_every_event_of_an_operation_counts_as_the_same(
    stores: Stores,
) -> None:
    store = await stores.open(keep_ids=False)
    first, second = events_of_one_operation(2)
    holder = fresh_ask(first)
    await store.arrive(holder)
    told: list[object] = [await store.arrive(fresh_ask(second))]
    await store.settle(holder, Ending.COMPLETE)
    told += [await store.arrive(fresh_ask(second)), await store.accept(fresh_offer(second))]
    assert same_events(told) == [True, True, True]


@pytest.mark.parametrize("event_id", ["é" * 300, "nul\x00in it", "half \ud83d pair", ""])
async def test_an_id_that_is_kept_in_part_is_still_that_of_the_same_event(
    event_id: str, stores: Stores
) -> None:
    store = await stores.open()
    key = EventKey(fresh_key().digest, event_id)
    other = EventKey(key.digest, "another")
    ask: Ask = fresh_ask(key)
    await store.arrive(ask)
    told: list[object] = list(await at_once(store.arrive(fresh_ask(k)) for k in (key, other, key)))
    told += await at_once(store.arrive(fresh_ask(k)) for k in (other, key))
    assert same_events(told) == [True, False, True, False, True]
