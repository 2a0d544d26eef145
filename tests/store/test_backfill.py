"""Marking events in Postgres: beside deliveries, as a bounded role, and what a delivery finds."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID
from asyncpg.transaction import Transaction

from gateway.core.claim import Arrival, Ask, Ending, Held, Seen, State, StoreAway, Won
from gateway.core.event import EventKey
from gateway.store import copying
from gateway.store.backfill import Backfill, Processed, Target
from gateway.store.operator import LOCK_WAIT, By, Desk, Locked, Unready, desk
from tests.rig.deadline import eventually
from tests.store.stores import (
    PATIENCE,
    ROUTE,
    Stores,
    fresh_ask,
    fresh_key,
    fresh_offer,
    lapse,
    row,
    waiting_for_a_lock,
)
from tests.store.test_migrations import ROLES, USER, as_user

BY = By("alice", "before we switch over")
TARGET = Target(ROUTE, b"recipe", keep_ids=True)


@pytest.fixture
async def at(database: str) -> AsyncIterator[Desk]:
    async with desk(database) as opened:
        yield opened


async def begun(at: Desk, target: Target = TARGET) -> Backfill:
    backfill = Backfill(at, target)
    await backfill.begin("source", BY, 0)
    return backfill


def processed(*keys: EventKey, ago: float = 3600.0) -> list[Processed]:
    return [Processed(key, time.time() - ago) for key in keys]


async def test_what_is_marked_is_a_duplicate_as_old_as_it_was_processed(
    at: Desk, stores: Stores
) -> None:
    store = await stores.open()
    key = fresh_key()
    assert await (await begun(at)).mark(processed(key), 1, ended=True) == {}
    told = await store.arrive(fresh_ask(key))
    assert isinstance(told, Seen)
    assert told.now - told.first_seen == pytest.approx(3600, abs=60)
    assert (told.stored, told.same_event) == (False, True)


async def test_no_delivery_has_another_body_than_one_that_nobody_saw(
    at: Desk, stores: Stores
) -> None:
    store = await stores.open()
    key = fresh_key()
    await (await begun(at)).mark(processed(key), 1, ended=True)
    for fingerprint in range(256):
        told = await store.arrive(fresh_ask(key, fingerprint=fingerprint))
        assert isinstance(told, Seen)
        assert told.same_body
        stored = await store.accept(fresh_offer(key, fingerprint=fingerprint))
        assert isinstance(stored, Seen)
        assert stored.same_body


async def test_a_first_forward_still_has_a_body_to_differ_from(stores: Stores) -> None:
    store = await stores.open()
    ask = fresh_ask(fingerprint=7)
    await store.arrive(ask)
    await store.settle(ask, Ending.COMPLETE)
    told = await store.arrive(fresh_ask(ask.key, fingerprint=8))
    assert isinstance(told, Seen)
    assert not told.same_body


@pytest.mark.parametrize("state", ["c", "lapsed", "C", "r", "R", "s", "S", "d", "D"])
async def test_a_claim_that_is_there_stays_as_it_is(
    state: str, at: Desk, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    ask = fresh_ask()
    assert isinstance(await store.arrive(ask), Won)
    if state == "lapsed":
        await lapse(sql, ask.key)
    else:
        held = "" if state in "cC" else ", token = null, until = null"
        await sql.execute(f"update dedup.claims set state = '{state}'{held}")
    before = await sql.fetch("select * from dedup.claims")
    backfill = await begun(at)
    there = await backfill.mark(processed(ask.key, fresh_key()), 2, ended=True)
    letter = "c" if state == "lapsed" else state.lower()
    names = {"c": State.CLAIMED, "r": State.RELEASED, "s": State.STORED, "d": State.COMPLETED}
    assert there == {ask.key.digest: names[letter]}
    asked = ("select * from dedup.claims where key = $1", UUID(ask.key.digest))
    assert await sql.fetch(*asked) == before
    assert await sql.fetchval("select marked from dedup.backfills") == 1


async def test_beside_deliveries_each_event_is_either_marked_or_won_and_never_both(
    at: Desk, stores: Stores
) -> None:
    replicas = [await stores.open() for _ in range(3)]
    backfill = await begun(at)

    async def soon(ask: Ask) -> Arrival:
        await asyncio.sleep(random.random() * 0.03)
        told = await random.choice(replicas).arrive(ask, PATIENCE)
        # One that lost to a row younger than its snapshot asks again.
        while isinstance(told, Held):
            told = await random.choice(replicas).arrive(fresh_ask(ask.key), PATIENCE)
        return told

    kinds = set()
    for number in range(60):
        keys = [fresh_key() for _ in range(40)]
        asks = [fresh_ask(key) for key in keys]
        going = asyncio.ensure_future(backfill.mark(processed(*keys), number, ended=False))
        told = await asyncio.gather(*map(soon, asks))
        there = await going
        for ask, answer in zip(asks, told, strict=True):
            kinds.add(type(answer))
            assert isinstance(answer, Won) == (ask.key.digest in there)
    assert kinds == {Won, Seen}


async def hold(other: asyncpg.Connection, key: EventKey) -> Transaction:
    """As a delivery's statement does until it is committed."""
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint)"
        " values ($1, 0, 1, 'd', 'x')",
        UUID(key.digest),
    )
    return transaction


async def test_what_somebody_holds_for_longer_than_one_wait_is_tried_again(
    at: Desk, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    backfill = await begun(at)
    held, free = fresh_key(), fresh_key()
    transaction = await hold(other, held)
    going = asyncio.ensure_future(backfill.mark(processed(held, free), 2, ended=True))
    await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
    await asyncio.sleep(5 * LOCK_WAIT / 1000)
    await transaction.commit()
    assert set(await going) == {held.digest}


async def test_what_somebody_holds_for_good_ends_it_and_nothing_is_done(
    at: Desk, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    backfill = await begun(at)
    held, free = fresh_key(), fresh_key()
    transaction = await hold(other, held)
    with pytest.raises(Locked):
        await backfill.mark(processed(held, free), 2, ended=True)
    assert not await sql.fetchval("select rows from dedup.backfills")
    assert await row(sql, free) is None
    await transaction.rollback()
    assert await backfill.mark(processed(held, free), 2, ended=True) == {}


class Cutting(list[Processed]):
    """Events of which the last ones go out on a connection that is cut."""

    def __init__(self, events: list[Processed], dsn: str) -> None:
        super().__init__(events)
        self._dsn = dsn

    def __iter__(self) -> Iterator[Processed]:
        for number, event in enumerate(super().__iter__()):
            if 4 * number == 3 * len(self):  # the loop learns nothing of it meanwhile
                other = threading.Thread(target=lambda: asyncio.run(self._cut()))
                other.start()
                other.join()
            yield event

    async def _cut(self) -> None:
        session = await asyncpg.connect(self._dsn)
        await session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query like 'COPY%'"
        )
        await session.close()


async def test_a_connection_that_is_cut_while_rows_go_out_ends_it(
    database: str, at: Desk, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "COPIED", 200_000)
    monkeypatch.setattr(copying, "COPY_TIMEOUT", 2.0)
    backfill = await begun(at)
    some = processed(*(EventKey(n.to_bytes(16), 200 * "x") for n in range(100_000)))
    with pytest.raises(StoreAway):
        await backfill.mark(Cutting(some, database), len(some), ended=True)
    assert not await sql.fetchval("select rows from dedup.backfills")


async def test_a_route_that_nobody_served_yet_gets_a_number_and_a_canary(
    at: Desk, sql: asyncpg.Connection, stores: Stores
) -> None:
    backfill = Backfill(at, TARGET)
    assert await backfill.done("source") == 0
    await backfill.begin("source", BY, 0)
    store = await stores.open()
    (memory,) = (await store.inner.retention.memories([ROUTE])).values()
    assert memory.age - memory.reach < 60
    assert await sql.fetchval("select count(*) from dedup.canaries") == 1


async def test_keys_of_another_recipe_are_noticed(at: Desk, stores: Stores) -> None:
    await stores.open()
    one, other = Backfill(at, TARGET), Backfill(at, Target(ROUTE, b"changed", keep_ids=True))
    await one.done(None)
    await other.done(None)
    assert (one.same_recipe, other.same_recipe) == (True, False)


async def test_ids_are_kept_as_those_of_deliveries_are(at: Desk, sql: asyncpg.Connection) -> None:
    odd = fresh_key("a\x00b\ud800" + "c" * 300)
    await (await begun(at)).mark(processed(odd), 1, ended=True)
    kept = await sql.fetchval("select event_id from dedup.claims where key = $1", UUID(odd.digest))
    assert kept == "a\ufffdb\ufffd" + "c" * 251
    none = fresh_key("evt_2")
    backfill = await begun(at, replace(TARGET, keep_ids=False))
    await backfill.mark(processed(none), 1, ended=True)
    asked = ("select event_id from dedup.claims where key = $1", UUID(none.digest))
    assert await sql.fetchval(*asked) is None


async def test_the_role_suffices_where_nobody_else_may_make_temporary_tables(
    database: str, sql: asyncpg.Connection
) -> None:
    name = await sql.fetchval("select current_database()")
    await sql.execute(f"revoke temporary on database {name} from public")
    await sql.execute(ROLES.read_text())
    async with desk(as_user(database, USER)) as at:
        assert await (await begun(at)).mark(processed(fresh_key()), 1, ended=True) == {}


async def test_a_schema_from_before_is_told(database: str, sql: asyncpg.Connection) -> None:
    await sql.execute("drop table dedup.backfills")
    async with desk(database) as at:
        with pytest.raises(Unready, match="dedup-gateway migrate"):
            await begun(at)
