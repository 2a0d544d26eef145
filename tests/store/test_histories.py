"""What a late, a second and a lost holder may still do: the interleavings, one by one."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending, Held, Seen, Settled, State, Won
from tests.store.stores import Stores, at_once, claim, fresh_ask, lapse

CHANGED, LATE, NOTHING = Settled(True, False), Settled(True, True), Settled(False, False)


@pytest.mark.row(44)
async def test_a_lapsed_claim_is_taken_over_marked_and_as_the_next_attempt(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    dead = fresh_ask()
    await store.arrive(dead)
    assert isinstance(await store.arrive(fresh_ask(dead.key)), Held)
    await lapse(sql, dead.key)
    won = await store.arrive(fresh_ask(dead.key))
    assert isinstance(won, Won)
    assert (won.attempt, won.doubtful, won.took_over) == (2, True, True)


@pytest.mark.row(46, 47)
async def test_a_released_claim_is_won_again_and_marked_only_after_doubt(stores: Stores) -> None:
    store = await stores.open()
    ask = fresh_ask()
    told = []
    for ending in (
        Ending.RELEASE,
        Ending.RELEASE_DOUBTFUL,
        Ending.RELEASE,  # refused before any effect; the doubt about the one before stays
        Ending.COMPLETE,
    ):
        holder = fresh_ask(ask.key)
        won = await store.arrive(holder)
        assert isinstance(won, Won)
        told.append((won.attempt, won.doubtful, won.took_over))
        assert await store.settle(holder, ending) == CHANGED
    assert told == [(1, False, False), (2, False, False), (3, True, False), (4, True, False)]
    assert isinstance(await store.arrive(fresh_ask(ask.key)), Seen)


@pytest.mark.row(60, 61, 62)
async def test_a_late_success_counts_over_a_live_successor_whose_failure_cannot_undo_it(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    zombie = fresh_ask()
    successor = fresh_ask(zombie.key)
    await store.arrive(zombie)
    await lapse(sql, zombie.key)
    assert isinstance(await store.arrive(successor), Won)
    assert await store.settle(zombie, Ending.RELEASE_DOUBTFUL) == NOTHING
    found = await claim(sql, zombie.key)
    assert found is not None
    assert (found.state, found.token) == (State.CLAIMED, successor.token)
    assert await store.settle(zombie, Ending.COMPLETE) == LATE
    for ending in (Ending.RELEASE, Ending.RELEASE_DOUBTFUL):
        assert await store.settle(successor, ending) == NOTHING
    found = await claim(sql, zombie.key)
    assert found is not None
    assert (found.state, found.doubtful, found.token) == (State.COMPLETED, True, None)


@pytest.mark.row(63)
async def test_the_successor_of_a_late_success_succeeds_too_and_changes_nothing(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    zombie = fresh_ask()
    successor = fresh_ask(zombie.key)
    await store.arrive(zombie)
    await lapse(sql, zombie.key)
    won = await store.arrive(successor)
    assert isinstance(won, Won)
    assert won.doubtful
    assert await store.settle(zombie, Ending.COMPLETE) == LATE
    assert await store.settle(successor, Ending.COMPLETE) == NOTHING


async def test_a_success_whose_row_a_failover_lost_brings_it_back_completed(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    holder = fresh_ask()
    await store.arrive(holder)
    await sql.execute("delete from dedup.claims where key = $1", UUID(holder.key.digest))
    assert await store.settle(holder, Ending.COMPLETE) == LATE
    found = await claim(sql, holder.key)
    assert found is not None
    assert (found.state, found.fingerprint) == (State.COMPLETED, holder.fingerprint)
    assert isinstance(await store.arrive(fresh_ask(holder.key)), Seen)


async def test_settlements_of_one_key_in_one_turn_take_effect_one_after_the_other(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    holder = fresh_ask()
    stranger = fresh_ask(holder.key)
    await store.arrive(holder)
    told = await at_once(
        [
            store.settle(stranger, Ending.RELEASE),
            store.settle(holder, Ending.RELEASE_DOUBTFUL),
            store.settle(holder, Ending.COMPLETE),
            store.settle(holder, Ending.RELEASE),
        ]
    )
    assert told == [NOTHING, CHANGED, LATE, NOTHING]
    found = await claim(sql, holder.key)
    assert found is not None
    assert (found.state, found.doubtful) == (State.COMPLETED, True)


async def test_an_unknown_state_of_a_newer_release_is_taken_for_a_live_claim(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    ask = fresh_ask()
    await store.arrive(ask)
    await sql.execute("alter table dedup.claims drop constraint claims_state_is_known")
    await sql.execute("alter table dedup.claims drop constraint claims_held_by_a_token")
    await sql.execute("update dedup.claims set state = 'q'")
    assert isinstance(await store.arrive(fresh_ask(ask.key)), Held)
    assert await store.settle(ask, Ending.RELEASE) == NOTHING
