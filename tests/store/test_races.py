"""Many sessions at once: one winner, whatever the order, and nobody blocks the others."""

from __future__ import annotations

import asyncio
import random
import time

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ask, Ending, Held, Seen, Settled, StoreAway, Won
from gateway.core.event import EventKey
from tests.rig.deadline import eventually
from tests.store.statements import arrival
from tests.store.stores import (
    PATIENCE,
    OpenStore,
    Stores,
    fresh_ask,
    fresh_key,
    lapse,
    row,
    waiting_for_a_lock,
)
from tests.store.witness import Witness, check


async def rush(replicas: list[OpenStore], keys: list[EventKey]) -> dict[EventKey, list[Won]]:
    """Every replica asks for every key, all at once and each in an order of its own."""
    asked = [(replica, fresh_ask(key)) for replica in replicas for key in keys]
    random.shuffle(asked)
    told = await asyncio.gather(*(replica.arrive(ask, PATIENCE) for replica, ask in asked))
    won: dict[EventKey, list[Won]] = {key: [] for key in keys}
    for (_, ask), answer in zip(asked, told, strict=True):
        if isinstance(answer, Won):
            won[ask.key].append(answer)
        else:
            assert isinstance(answer, Held)
    return won


@pytest.mark.row(16, 45)
async def test_of_twelve_replicas_exactly_one_wins_each_event_first_and_at_each_take_over(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    replicas = [await stores.open() for _ in range(12)]
    keys = [fresh_key() for _ in range(60)]
    for attempt in (1, 2, 3):
        won = await rush(replicas, keys)
        assert {key: [w.attempt for w in wins] for key, wins in won.items()} == {
            key: [attempt] for key in keys
        }
        assert all(w.doubtful is w.took_over is (attempt > 1) for (w,) in won.values())
        await sql.execute("update dedup.claims set until = until - interval '1 day'")
    released = "update dedup.claims set state = 'r', token = null, until = null"
    await sql.execute(released)
    won = await rush(replicas, keys)
    assert all([(w.attempt, w.doubtful) for w in wins] == [(4, False)] for wins in won.values())


@pytest.mark.row(11, 12)
@pytest.mark.parametrize("commits", [True, False])
async def test_a_claim_that_waits_for_anothers_insert_gets_what_becomes_of_it(
    commits: bool, stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    theirs = fresh_ask()
    ours = fresh_ask(theirs.key)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(*arrival(theirs))
    asked = asyncio.ensure_future(store.arrive(ours, PATIENCE))
    await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
    await (transaction.commit() if commits else transaction.rollback())
    told = await asked
    if commits:
        assert isinstance(told, Held)
    else:
        assert isinstance(told, Won)
        assert (told.attempt, told.doubtful) == (1, False)


@pytest.mark.row(13)
async def test_a_claim_that_gave_up_waiting_leaves_nothing_that_a_release_does_not_end(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    ours = fresh_ask()
    async with other.transaction():
        await other.fetch(*arrival(fresh_ask(ours.key)))
        with pytest.raises(StoreAway):
            await store.arrive(ours, 0.4)
        await other.execute("delete from dedup.claims")  # theirs comes to nothing

    async def nobody_waits() -> bool:
        return not await waiting_for_a_lock(sql)

    await eventually(nobody_waits, within=PATIENCE)
    # If our statement won after all, its release by token frees it; if not, that is nothing.
    await store.settle(ours, Ending.RELEASE)
    won = await store.arrive(fresh_ask(ours.key))
    assert isinstance(won, Won)
    assert not won.doubtful


@pytest.mark.row(14)
async def test_a_serialisation_failure_is_tried_again_and_ends_as_if_it_came_later(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    name = await sql.fetchval("select current_database()")
    await sql.execute(
        f"alter database {name} set default_transaction_isolation = 'repeatable read'"
    )
    store = await stores.open()
    holder = fresh_ask()
    await store.arrive(holder)
    await lapse(sql, holder.key)
    async with other.transaction():
        await other.execute("update dedup.claims set until = now() + interval '1 hour'")
        asked = asyncio.ensure_future(store.arrive(fresh_ask(holder.key), PATIENCE))
        await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
    assert isinstance(await asked, Held)
    assert store.errors["deadlock"] > 0


async def test_one_locked_row_delays_nobody_else_beyond_their_time(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """One of five hundred in a batch, of first claims, of take-overs and of settlements."""
    store = await stores.open()
    locked = fresh_ask()
    released = [fresh_ask() for _ in range(100)]
    for ask in [locked, *released]:
        await store.arrive(ask, PATIENCE)
        await store.settle(ask, Ending.RELEASE)
    fresh = [fresh_ask() for _ in range(300)]
    again = [fresh_ask(ask.key) for ask in released]
    contender = fresh_ask(locked.key)
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for update", UUID(locked.key.digest)
        )
        *told, stuck = await asyncio.gather(
            *(store.arrive(ask) for ask in [*fresh, *again, contender]), return_exceptions=True
        )
        assert all(isinstance(t, Won) for t in told), store.errors
        assert isinstance(stuck, StoreAway)
        assert store.errors["lock"] > 0
    assert isinstance(await store.arrive(contender), Won)
    mine = [*fresh, contender]
    async with other.transaction():
        await other.execute(
            "select from dedup.claims where key = $1 for update", UUID(locked.key.digest)
        )
        *settled, unsettled = await asyncio.gather(
            *(store.settle(ask, Ending.COMPLETE) for ask in mine), return_exceptions=True
        )
        assert all(s == Settled(True, False) for s in settled)
        assert isinstance(unsettled, StoreAway)
    await store.settle(contender, Ending.COMPLETE)
    assert isinstance(await store.arrive(fresh_ask(locked.key)), Seen)


async def test_locked_rows_leave_the_lanes_to_everybody_else(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    asks = [fresh_ask() for _ in range(6)]

    async def lock_errors_rise(above: int) -> None:
        await eventually(lambda: store.errors["lock"] > above, within=PATIENCE)

    async with other.transaction():
        await other.fetch(*arrival(*asks))
        stuck = []
        for wave in (asks[:3], asks[3:]):  # one for each lane
            stuck += [asyncio.ensure_future(store.arrive(fresh_ask(ask.key))) for ask in wave]
            errors = store.errors["lock"]
            await lock_errors_rise(errors)
        assert not any(call.done() for call in stuck)
        told = await asyncio.gather(*(store.arrive(fresh_ask(), 1.0) for _ in range(50)))
        assert all(isinstance(t, Won) for t in told)
        failed = await asyncio.gather(*stuck, return_exceptions=True)
        assert all(isinstance(f, StoreAway) for f in failed)


LEASE = 0.25
RACE_SECONDS = 5.0


async def test_a_race_over_few_keys_keeps_every_rule(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    replicas = [await stores.open() for _ in range(6)]
    keys = [fresh_key() for _ in range(12)]
    seen: dict[EventKey, Witness] = {key: Witness() for key in keys}
    end = time.monotonic() + RACE_SECONDS

    async def runner(replica: OpenStore) -> None:
        while time.monotonic() < end:
            slot = random.randrange(len(keys))
            ask = fresh_ask(keys[slot], lease=LEASE)
            began = time.monotonic()
            told = await replica.arrive(ask, PATIENCE)
            if isinstance(told, Seen) and random.random() < 0.5:
                keys[slot] = fresh_key()
                seen[keys[slot]] = Witness()
            if not isinstance(told, Won):
                continue
            witness = seen[ask.key]
            witness.wins.append((told.attempt, told.doubtful, began, time.monotonic()))
            await asyncio.sleep(random.choice([0, 0, LEASE / 2, LEASE * 1.5]))
            await finish(replica, ask, told.attempt, witness)

    async def finish(replica: OpenStore, ask: Ask, attempt: int, witness: Witness) -> None:
        how = random.choice([Ending.RELEASE, Ending.RELEASE_DOUBTFUL, Ending.COMPLETE, None])
        if how is None:  # died
            return
        settled = await replica.settle(ask, how)
        if how is Ending.COMPLETE:
            witness.completed.append(time.monotonic())
        elif settled.changed:
            witness.released[attempt] = how is Ending.RELEASE_DOUBTFUL

    await asyncio.gather(*(runner(replica) for replica in replicas for _ in range(4)))
    assert sum(len(witness.wins) for witness in seen.values()) > 50
    for key, witness in seen.items():
        check(witness, LEASE)
        if witness.completed:
            found = await row(sql, key)
            assert found is not None
            assert found["state"] in (b"d", b"D")
