"""Batches that overlap, from many processes at once: no item is won twice, and nobody is stuck."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict

import asyncpg
import pytest

from gateway.core.claim import Ask, Ending, Held, Seen, Won
from gateway.core.event import EventKey
from gateway.core.inbox import EntryEnding, EntryState, Leased
from tests.store.batches import (
    asks_for,
    conclusion_of,
    ending_of,
    fresh_items,
    listed,
    offer_of,
)
from tests.store.stores import PATIENCE, OpenStore, Stores, fresh_ask, row
from tests.store.witness import Witness, check

ROUNDS = 60
LEASE = 0.25
RACE_SECONDS = 5.0


@pytest.mark.parametrize("number", [1, 40], ids=["single_items", "forty_items_each"])
async def test_three_batches_that_overlap_in_a_ring_share_the_items_and_nobody_is_stuck(
    number: int, stores: Stores, sql: asyncpg.Connection
) -> None:
    """First claims, and take-overs of what was released and what has lapsed."""
    replicas = [await stores.open() for _ in range(3)]
    for _ in range(ROUNDS):
        a, b, c = (fresh_items(number) for _ in range(3))
        for attempt in (1, 2, 3):
            batches = [asks_for(keys) for keys in ([*a, *b], [*b, *c], [*c, *a])]
            for asks in batches:
                random.shuffle(asks)
            told = await asyncio.gather(
                *(
                    replica.arrive_all(asks, PATIENCE)
                    for replica, asks in zip(replicas, batches, strict=True)
                )
            )
            wins: Counter[EventKey] = Counter()
            for asks, arrivals in zip(batches, told, strict=True):
                for ask, arrival in zip(asks, arrivals, strict=True):
                    assert isinstance(arrival, Won | Held)
                    if isinstance(arrival, Won):
                        assert (arrival.attempt, arrival.took_over) == (attempt, attempt == 3)
                        wins[ask.key] += 1
            assert wins == Counter([*a, *b, *c])
            if attempt == 1:
                await asyncio.gather(
                    *(
                        replica.inner.settle(ending_of(asks, Ending.RELEASE))
                        for replica, asks in zip(replicas, batches, strict=True)
                    )
                )
            else:
                await sql.execute("update dedup.claims set until = until - interval '1 day'")


async def test_batches_and_lone_deliveries_race_over_few_items_and_every_rule_is_kept(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    replicas = [await stores.open() for _ in range(4)]
    keys = fresh_items(8)
    seen: dict[EventKey, Witness] = defaultdict(Witness)
    end = time.monotonic() + RACE_SECONDS

    async def runner(replica: OpenStore) -> None:
        while time.monotonic() < end:
            slots = random.sample(range(len(keys)), random.randint(1, 4))
            asks = asks_for([keys[slot] for slot in slots], lease=LEASE)
            began = time.monotonic()
            told = await replica.arrive_all(asks, PATIENCE)
            if all(isinstance(one, Seen) for one in told):
                for slot in slots:
                    keys[slot] = fresh_items(1)[0]
            mine: list[Ask] = []
            for ask, one in zip(asks, told, strict=True):
                if isinstance(one, Won):
                    mine.append(ask)
                    win = (one.attempt, one.doubtful, began, time.monotonic())
                    seen[ask.key].wins.append(win)
            if mine:
                await asyncio.sleep(random.choice([0, 0, LEASE / 2, LEASE * 1.5]))
                await finish(replica, mine, dict(zip(asks, told, strict=True)))

    async def finish(replica: OpenStore, mine: list[Ask], told: dict[Ask, object]) -> None:
        how = random.choice([Ending.RELEASE, Ending.RELEASE_DOUBTFUL, Ending.COMPLETE, None])
        if how is None:  # died
            return
        if how is not Ending.COMPLETE:
            for ask in mine:  # one by one, since of a batch only the sum is told
                if (await replica.settle(ask, how)).changed:
                    won = told[ask]
                    assert isinstance(won, Won)
                    seen[ask.key].released[won.attempt] = how is Ending.RELEASE_DOUBTFUL
            return
        await replica.inner.settle(ending_of(mine, how))
        for ask in mine:
            seen[ask.key].completed.append(time.monotonic())

    await asyncio.gather(*(runner(replica) for replica in replicas for _ in range(3)))
    assert sum(len(witness.wins) for witness in seen.values()) > 50
    for key, witness in seen.items():
        check(witness, LEASE)
        if witness.completed:
            found = await row(sql, key)
            assert found is not None
            assert found["state"] in (b"d", b"D")


async def test_batches_that_are_stored_while_workers_lease_are_each_delivered_once(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    callers = [await stores.open() for _ in range(3)]
    workers = [await stores.open() for _ in range(2)]
    stored, done = 0, asyncio.Event()
    delivered: Counter[EventKey] = Counter()
    at_work = [asyncio.ensure_future(work(worker, done, delivered)) for worker in workers]
    keys = fresh_items(120)
    for n in range(0, len(keys), 4):
        some = keys[n : n + 4]
        batches = [asks_for(some[:3]), asks_for(some[1:]), asks_for([some[0], some[3]])]
        for asks in batches:
            random.shuffle(asks)
        told = await asyncio.gather(
            *(
                caller.arrive_all(asks, PATIENCE)
                for caller, asks in zip(callers, batches, strict=True)
            )
        )
        for caller, asks, arrivals in zip(callers, batches, told, strict=True):
            mine = [ask for ask, one in zip(asks, arrivals, strict=True) if isinstance(one, Won)]
            if mine:
                offer = offer_of(mine, EntryState.PENDING)
                assert await caller.store(offer, PATIENCE)
                assert await listed(sql, offer.key) == {ask.key.digest for ask in mine}
                stored += 1
    done.set()
    await asyncio.gather(*at_work)
    assert stored >= len(keys) / 4
    assert delivered == Counter(keys)
    states = await sql.fetch("select state, count(*) from dedup.claims group by state")
    assert [tuple(row) for row in states] == [(b"d", len(keys))]
    assert await callers[0].inner.waiting() == {}
    assert not any(isinstance(t, Won) for t in await callers[0].arrive_all(asks_for(keys)))
    assert isinstance(await callers[0].arrive(fresh_ask(keys[0])), Seen)


async def work(worker: OpenStore, done: asyncio.Event, delivered: Counter[EventKey]) -> None:
    """Deliver until there is nothing more to come and nothing left."""
    while True:
        is_last = done.is_set()
        taken: list[Leased] = await worker.lease(5)
        for leased in taken:
            assert (leased.attempt, leased.doubtful) == (1, False)
            delivered.update(part.key for part in leased.items)
            ended = await worker.conclude(conclusion_of(leased, EntryEnding.DELIVER))
            assert ended.changed
        if is_last and not taken:
            return
        await asyncio.sleep(0)
