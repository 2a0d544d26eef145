"""Callers and workers at once: one stores, one leases, and a success is never undone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import asyncpg
import pytest

from gateway.core.claim import Ending, Held, Seen, State, Won
from gateway.core.event import EventKey
from gateway.core.inbox import Accepted, EntryEnding, EntryState, Leased
from tests.store.stores import (
    PATIENCE,
    OpenStore,
    Stores,
    at_once,
    claim,
    conclusion,
    entry,
    fresh_ask,
    fresh_key,
    fresh_offer,
    lapse_entry,
    settlement,
)


async def lease_until(done: asyncio.Event, store: OpenStore, most: int) -> list[Leased]:
    """What one worker gets, until there is nothing more to come and nothing left."""
    found: list[Leased] = []
    while True:
        is_last = done.is_set()
        taken = await store.lease(most, newest=random.random() < 0.5)
        found += taken
        if is_last and not taken:
            return found
        await asyncio.sleep(0)


@pytest.mark.row(79)
async def test_of_four_that_store_one_event_one_does_and_of_three_workers_one_gets_it(
    stores: Stores,
) -> None:
    callers = [await stores.open() for _ in range(4)]
    workers = [await stores.open() for _ in range(3)]
    keys = [fresh_key(f"evt_{n}") for n in range(150)]
    done = asyncio.Event()
    at_work = [asyncio.ensure_future(lease_until(done, worker, 7)) for worker in workers]
    stored: Counter[EventKey] = Counter()
    for n in range(0, len(keys), 10):
        asked = [(caller, fresh_offer(key)) for caller in callers for key in keys[n : n + 10]]
        random.shuffle(asked)
        told = await at_once(caller.accept(offer, PATIENCE) for caller, offer in asked)
        for (_, offer), answer in zip(asked, told, strict=True):
            assert isinstance(answer, Accepted | Seen)
            stored[offer.key] += isinstance(answer, Accepted)
    done.set()
    leased = [one for found in await asyncio.gather(*at_work) for one in found]
    assert stored == Counter(keys)
    assert Counter(one.key for one in leased) == Counter(keys)
    assert all((one.attempt, one.doubtful) == (1, False) for one in leased)


@pytest.mark.row(79)
async def test_many_workers_share_a_backlog_and_no_entry_goes_to_two(stores: Stores) -> None:
    workers = [await stores.open() for _ in range(4)]
    keys = [fresh_key(f"evt_{n}") for n in range(300)]
    await at_once(workers[0].accept(fresh_offer(key), PATIENCE) for key in keys)
    done = asyncio.Event()
    done.set()

    async def drain(worker: OpenStore) -> list[Leased]:
        found: list[Leased] = []
        while len(taken) < len(keys):  # others' locked rows are passed over, not waited for
            leased = await worker.lease(5)
            found += leased
            taken.update(one.key for one in leased)
        return found

    taken: set[EventKey] = set()
    leased = [one for found in await at_once(map(drain, workers)) for one in found]
    assert Counter(one.key for one in leased) == Counter(keys)


@pytest.mark.parametrize("first", ["store", "complete"])
async def test_a_success_beside_storing_completes_the_event_and_nothing_is_sent_any_more(
    first: str, stores: Stores, sql: asyncpg.Connection
) -> None:
    """A late success of one process, while another gives the event to the inbox."""
    ours, theirs = await stores.open(), await stores.open()
    stored = 0
    for _ in range(40):
        ask = fresh_ask()
        await ours.arrive(ask)
        # The late one's claim is lost, so its success is the statement that fences nothing.
        late = settlement(fresh_ask(ask.key), Ending.COMPLETE)
        storing = ours.store(fresh_offer(ask.key, EntryState.LEASED, token=ask.token))
        ending = theirs.inner.settle(late)
        if first == "store":
            was_stored, _ = await asyncio.gather(storing, ending)
        else:
            _, was_stored = await asyncio.gather(ending, storing)
        stored += was_stored
        found, kept = await claim(sql, ask.key), await entry(sql, ask.key)
        assert found is not None
        assert found.state is State.COMPLETED
        assert (kept is not None) is was_stored
        if kept is not None:
            await lapse_entry(sql, ask.key)
            assert await ours.lease() == []
            closed = await entry(sql, ask.key)
            assert closed is not None
            assert closed.state is EntryState.DELIVERED
    assert await ours.inner.waiting() == {}


@pytest.mark.parametrize("ending", [EntryEnding.RETRY, EntryEnding.BURY, EntryEnding.DELIVER])
async def test_an_attempt_that_ends_while_its_lapsed_lease_is_taken_over_ends_one_way(
    ending: EntryEnding, stores: Stores, sql: asyncpg.Connection
) -> None:
    ours, theirs = await stores.open(), await stores.open()
    for _ in range(40):
        offer = fresh_offer(state=EntryState.LEASED)
        await ours.accept(offer)
        await lapse_entry(sql, offer.key)
        ended, leased = await asyncio.gather(
            ours.conclude(conclusion(offer, ending)), theirs.lease()
        )
        found = await entry(sql, offer.key)
        assert found is not None
        if ending is EntryEnding.DELIVER:
            assert ended.changed
            assert found.state is EntryState.DELIVERED
        elif ended.changed and leased:  # retried first, then leased: no doubt came up
            assert ending is EntryEnding.RETRY
            assert (leased[0].attempt, leased[0].doubtful) == (2, False)
        elif ended.changed:
            assert (found.attempt, found.doubtful) == (1, False)
        else:
            assert (leased[0].attempt, leased[0].doubtful) == (2, True)
        await sql.execute("truncate dedup.entries")


async def test_forwarding_and_storing_one_event_at_once_has_one_winner(stores: Stores) -> None:
    """One route may be switched from one mode to the other while both are running."""
    old, new = await stores.open(), await stores.open()
    for _ in range(40):
        key = fresh_key()
        arrived, accepted = await asyncio.gather(
            old.arrive(fresh_ask(key)), new.accept(fresh_offer(key))
        )
        if isinstance(arrived, Won):
            assert isinstance(accepted, Held)
        else:
            # It waited for the other's insert, so it has not seen what was inserted.
            assert isinstance(arrived, Held | Seen)
            assert isinstance(accepted, Accepted)
