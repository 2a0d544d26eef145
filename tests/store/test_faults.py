"""Connections that break or hang, at every moment of a call."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from gateway.core.claim import Ending, Seen, Settled, State, StoreAway, Won
from gateway.core.outcome import Reply
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.lost import with_a_lost_reply
from tests.store.stores import PATIENCE, WITHIN, Stores, claim, fresh_ask, lapse, waiting_for_a_lock

# A call may take its own time, one tick of the sweep, and what a busy machine adds.
IN_TIME = WITHIN + 1.0


@pytest.mark.row(9)
async def test_a_claim_whose_reply_was_lost_is_found_again_by_its_token(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    won = await with_a_lost_reply(
        wire, store.arrive(ask, PATIENCE), once=lambda: claim(sql, ask.key)
    )
    assert isinstance(won, Won)
    assert (won.attempt, won.doubtful) == (1, False)


@pytest.mark.row(10)
async def test_a_claim_that_never_arrived_is_made_again_under_the_same_token(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    wire.set(Wire.BLACK_HOLE)
    asked = asyncio.ensure_future(store.arrive(ask, PATIENCE))
    await asyncio.sleep(0)
    wire.drop_all()
    await eventually(lambda: store.errors["connection"], within=PATIENCE)
    assert await claim(sql, ask.key) is None
    wire.set(Wire.PASS)
    won = await asked
    assert isinstance(won, Won)
    assert (won.attempt, won.doubtful) == (1, False)


@pytest.mark.row(13)
async def test_a_claim_that_stays_unknown_says_so_in_time_and_a_release_by_token_frees_it(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    await store.arrive(fresh_ask())  # so that the next statement is prepared and goes in one trip
    wire.set(Wire.HOLD_REPLIES)
    began = time.monotonic()
    with pytest.raises(StoreAway) as away:
        await store.arrive(ask)
    assert time.monotonic() - began < IN_TIME
    assert away.value.undecided
    assert await eventually(lambda: claim(sql, ask.key), within=PATIENCE)
    wire.set(Wire.PASS)
    await store.up()
    assert await store.settle(ask, Ending.RELEASE) == Settled(True, False)
    won = await store.arrive(fresh_ask(ask.key))
    assert isinstance(won, Won)
    assert (won.attempt, won.doubtful) == (2, False)


async def test_a_take_over_whose_reply_was_lost_is_never_sent_twice(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    dead = fresh_ask()
    heir = fresh_ask(dead.key)
    await store.arrive(dead)
    await lapse(sql, dead.key)

    async def is_taken_over() -> bool:
        found = await claim(sql, dead.key)
        return found is not None and found.attempt == 2

    won = await with_a_lost_reply(wire, store.arrive(heir, PATIENCE), once=is_taken_over)
    assert isinstance(won, Won)
    assert (won.attempt, won.doubtful) == (2, True)
    assert len(store.sizes("take_over")) == 1
    found = await claim(sql, dead.key)
    assert found is not None
    assert (found.attempt, found.token) == (2, heir.token)


async def test_a_take_over_that_was_lost_before_it_took_effect_stays_undecided(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    dead = fresh_ask()
    await store.arrive(dead)
    await lapse(sql, dead.key)
    blocker = await asyncpg.connect(stores.dsn)
    async with blocker.transaction():
        await blocker.execute("select from dedup.claims for update")
        asked = asyncio.ensure_future(store.arrive(fresh_ask(dead.key), PATIENCE))
        pid = await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
        await sql.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(StoreAway) as away:
            await asked
    await blocker.close()
    assert away.value.undecided
    assert len(store.sizes("take_over")) >= 1
    found = await claim(sql, dead.key)
    assert found is not None
    assert (found.state, found.attempt) == (State.CLAIMED, 1)


async def test_a_settlement_whose_reply_was_lost_is_repeated_without_harm(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    await store.arrive(ask)

    async def is_completed() -> bool:
        found = await claim(sql, ask.key)
        return found is not None and found.state is State.COMPLETED

    settled = await with_a_lost_reply(wire, store.settle(ask, Ending.COMPLETE), once=is_completed)
    assert not settled.late
    assert isinstance(await store.arrive(fresh_ask(ask.key)), Seen)


async def test_a_store_in_a_black_hole_fails_in_time_then_at_once_and_comes_back(
    stores: Stores, wire: FaultProxy
) -> None:
    store = await stores.open(wire.proxied)
    wire.set(Wire.BLACK_HOLE)
    began = time.monotonic()
    told = await asyncio.gather(
        *(store.arrive(fresh_ask()) for _ in range(100)), return_exceptions=True
    )
    assert all(isinstance(t, StoreAway) for t in told)
    assert time.monotonic() - began < IN_TIME

    async def fails_at_once() -> bool:
        asked = time.monotonic()
        with pytest.raises(StoreAway) as away:
            await store.arrive(fresh_ask())
        return time.monotonic() - asked < 0.1 and not away.value.undecided

    await eventually(fails_at_once, within=PATIENCE)
    assert store.inner.problem
    wire.set(Wire.PASS)
    await store.up()
    assert isinstance(await store.arrive(fresh_ask()), Won)


async def test_one_hung_connection_holds_one_lane_and_a_replacement_opens(
    stores: Stores, wire: FaultProxy
) -> None:
    store = await stores.open(wire.proxied)
    await store.arrive(fresh_ask())
    wire.set(Wire.HOLD_REPLIES, present_only=True)
    stuck = asyncio.ensure_future(store.arrive(fresh_ask()))
    await eventually(lambda: wire.replies_held, within=PATIENCE)
    told = await asyncio.gather(*(store.arrive(fresh_ask()) for _ in range(20)))
    assert all(isinstance(t, Won) for t in told)
    assert isinstance(await stuck, Won)  # on a new connection, by its token


async def test_a_call_that_never_left_is_not_undecided(stores: Stores, wire: FaultProxy) -> None:
    store = await stores.open(wire.proxied)
    await wire.stop()
    with pytest.raises(StoreAway) as away:
        await store.arrive(fresh_ask(), 0.5)
    assert not away.value.undecided


async def test_calls_that_wait_when_the_store_stops_are_told(
    stores: Stores, wire: FaultProxy
) -> None:
    store = await stores.open(wire.proxied)
    wire.set(Wire.BLACK_HOLE)
    calls = [
        asyncio.ensure_future(store.arrive(fresh_ask(), PATIENCE)),
        asyncio.ensure_future(store.settle(fresh_ask(), Ending.COMPLETE)),
        asyncio.ensure_future(store.inner.recall(fresh_ask().key)),
        asyncio.ensure_future(store.inner.keep(fresh_ask().key, Reply(200, b"", (), b""))),
    ]
    await asyncio.sleep(0)
    await asyncio.wait_for(store.inner.stop(), PATIENCE)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(t, StoreAway) for t in told)
    with pytest.raises(StoreAway):
        await store.arrive(fresh_ask())
