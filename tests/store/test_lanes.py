"""Lanes and sessions: what hangs, ages, disappears or changes under a running store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.core.claim import Ending, Held, Seen, State, StoreAway, Won
from gateway.store import session
from gateway.store.batch import MOST_ALONE, Batch, Call, Group
from gateway.store.queries import Statement
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.statements import CLAIMS
from tests.store.stores import (
    PATIENCE,
    Stores,
    claim,
    fresh_ask,
    fresh_key,
    lapse,
)

ONE = Statement("one", "select 1")


async def test_a_large_batch_that_hangs_does_not_hold_up_the_few_that_come_after_it(
    stores: Stores, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = FaultProxy(database)
    await proxy.start()
    store = await stores.open(proxy.proxied)
    await store.arrive(fresh_ask())
    monkeypatch.setattr(session, "TRY", PATIENCE)  # the large batch hangs for good
    proxy.set(Wire.HOLD_REPLIES, present_only=True)
    stuck = [asyncio.ensure_future(store.arrive(fresh_ask(), PATIENCE)) for _ in range(60)]
    await eventually(lambda: proxy.replies_held, within=PATIENCE)
    assert isinstance(await store.arrive(fresh_ask(), PATIENCE), Won)
    assert not any(call.done() for call in stuck)
    proxy.set(Wire.PASS)
    assert all(isinstance(t, Won) for t in await asyncio.gather(*stuck))
    await store.inner.stop()
    await proxy.stop()


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("fingerprint", [0, 127, 128, 255])
async def test_every_fingerprint_comes_back_as_it_went(
    fingerprint: int, many: bool, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    asks = [fresh_ask(fingerprint=fingerprint) for _ in range(2 if many else 1)]
    await asyncio.gather(*(store.arrive(ask) for ask in asks))
    found = await claim(sql, asks[0].key)
    assert found is not None
    assert found.fingerprint == fingerprint
    assert found.token == asks[0].token
    other = fresh_ask(asks[0].key, fingerprint=fingerprint ^ 1)
    told = await store.arrive(other)
    assert isinstance(told, Held)
    assert not told.same_body


@pytest.mark.parametrize(
    "poison",
    [
        {"token": 2**64},
        {"token": -(2**63) - 1},
        {"lease": 1e300},
        {"lease": float("nan")},
        {"lease": None},
        {"token": "x"},
    ],
    ids=str,
)
async def test_one_that_cannot_be_stored_and_comes_alone_is_told_so_at_once(
    poison: dict[str, Any], stores: Stores
) -> None:
    store = await stores.open()
    began = time.monotonic()
    with pytest.raises(StoreAway) as away:
        await store.arrive(fresh_ask()._replace(**poison))
    assert time.monotonic() - began < 1
    assert not away.value.undecided
    assert store.errors["data"] == 1
    assert store.inner.problem is None
    assert isinstance(await store.arrive(fresh_ask()), Won)


async def test_a_take_over_whose_every_reply_is_lost_is_sent_once_and_stays_undecided(
    stores: Stores, database: str, sql: asyncpg.Connection
) -> None:
    proxy = FaultProxy(database)
    await proxy.start()
    store = await stores.open(proxy.proxied)
    dead = fresh_ask()
    heir = fresh_ask(dead.key)
    await store.arrive(dead)
    await lapse(sql, dead.key)

    async def is_taken_over() -> bool:
        found = await claim(sql, dead.key)
        return found is not None and found.attempt == 2

    proxy.cut_if = is_taken_over
    proxy.set(Wire.CUT_REPLIES)
    with pytest.raises(StoreAway) as away:
        await store.arrive(heir)
    assert away.value.undecided
    assert len(store.sizes("take_over")) == 1
    proxy.set(Wire.PASS)
    await store.up()
    settled = await store.settle(heir, Ending.RELEASE)
    assert settled.changed
    found = await claim(sql, dead.key)
    assert found is not None
    assert (found.state, found.doubtful, found.attempt) == (State.RELEASED, True, 2)
    await store.inner.stop()
    await proxy.stop()


@pytest.mark.parametrize("name", list(CLAIMS))
async def test_the_form_for_one_bounds_its_wait_for_a_lock_too(
    name: str, stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    holder = fresh_ask()
    await store.arrive(holder)
    await lapse(sql, holder.key)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "arrive": lambda: store.arrive(fresh_ask(holder.key), 0.6),
        "take_over": lambda: store.arrive(fresh_ask(holder.key), 0.6),
        "settle": lambda: store.settle(holder, Ending.COMPLETE),
        "complete": lambda: store.settle(fresh_ask(holder.key), Ending.COMPLETE),
    }
    async with other.transaction():
        await other.execute("select from dedup.claims for update")
        with pytest.raises(StoreAway):
            await calls[name]()
    assert store.errors["lock"] > 1
    assert not store.errors["timeout"]


async def test_a_plan_that_a_migration_made_invalid_is_made_anew(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    ask, gone = fresh_ask(), fresh_ask()
    await store.arrive(ask)
    await store.arrive(gone)
    await store.settle(gone, Ending.RELEASE)
    await store.arrive(fresh_ask(gone.key))
    await sql.execute("alter table dedup.claims alter column attempt type int8")
    assert isinstance(await store.arrive(fresh_ask(ask.key)), Held)
    assert (await store.settle(ask, Ending.RELEASE)).changed
    won = await store.arrive(fresh_ask(ask.key))
    assert isinstance(won, Won)
    assert won.attempt == 2
    assert store.inner.problem is None


async def test_a_schema_that_is_dropped_is_made_again_and_routes_learn_their_new_numbers(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.inner.register({"aaa": b"recipe"})
    ask = fresh_ask()._replace(route="aaa")
    await store.arrive(ask)
    await sql.execute("drop schema dedup cascade")
    await store.inner.check_once()
    await store.up()
    again = fresh_ask()._replace(route="aaa")
    assert isinstance(await store.arrive(again, PATIENCE), Won)
    named = await sql.fetchval(
        "select r.name from dedup.claims c join dedup.routes r on r.id = c.route"
    )
    assert named == "aaa"


async def test_a_route_whose_row_a_failover_lost_is_registered_again(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.arrive(fresh_ask())
    await sql.execute("delete from dedup.routes")
    await sql.execute("insert into dedup.routes values (1, 'somebody else', '', now())")
    await sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'dedup-gateway'"
    )
    await store.arrive(fresh_ask(), PATIENCE)  # finds out
    ask = fresh_ask()
    assert isinstance(await store.arrive(ask, PATIENCE), Won)
    named = await sql.fetchval(
        "select r.name from dedup.claims c join dedup.routes r on r.id = c.route"
        " where c.token = $1",
        ask.token,
    )
    assert named == "orders"


async def test_only_so_many_calls_wait_for_locked_rows() -> None:
    """Those beyond are told at once, while there is a lane for everybody else."""

    async def never(_groups: list[Group[int, int]], _wait: str) -> None:
        await asyncio.Event().wait()

    alone = Batch(never, time.monotonic)
    loop = asyncio.get_running_loop()
    calls = [Call(b"%d" % n, n, PATIENCE, loop.create_future()) for n in range(MOST_ALONE + 1)]
    for call in calls:
        alone.adopt([call])
    *waiting, beyond = [call.future for call in calls]
    assert not any(future.done() for future in waiting)
    with pytest.raises(StoreAway, match="locked") as away:
        beyond.result()
    assert not away.value.undecided
    await alone.close()
    assert all(isinstance(future.exception(), StoreAway) for future in waiting)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
@pytest.mark.parametrize("event_id", ["é" * 300, "ünï—😀", "日本", "evt_1"])
async def test_any_id_is_claimed_whatever_the_database_can_spell(
    event_id: str, encoding: str, postgres_dsn: str
) -> None:
    name = f"spelled_{encoding.lower()}"
    admin = await asyncpg.connect(postgres_dsn)
    await admin.execute(
        f"create database {name} encoding '{encoding}' template template0 locale 'C'"
    )
    dsn = urlsplit(postgres_dsn)._replace(path=f"/{name}").geturl()
    stores = Stores(dsn)
    try:
        store = await stores.open()
        ask = fresh_ask(fresh_key(event_id))
        assert isinstance(await store.arrive(ask), Won)
        assert (await store.settle(ask, Ending.COMPLETE)).changed
        assert isinstance(await store.arrive(fresh_ask(ask.key)), Seen)
        assert (await store.settle(fresh_ask(fresh_key(event_id)), Ending.COMPLETE)).late
    finally:
        await stores.close()
        await admin.execute(f"drop database {name} with (force)")
        await admin.close()


async def test_who_waits_for_a_lane_leaves_in_the_moment_in_which_one_comes_home() -> None:
    gate, sent = asyncio.Event(), list[bytes]()

    async def send(groups: list[Group[int, int]], _wait: str) -> None:
        sent.extend(group[0].key for group in groups)
        await gate.wait()
        for group in groups:
            group[0].tell(0)

    batch = Batch(send, time.monotonic, lanes=1, apart=Batch(send, time.monotonic))
    first = batch.call(b"1", 1, PATIENCE)
    await asyncio.sleep(0.01)
    second = batch.call(b"2", 2, PATIENCE)
    await asyncio.sleep(0.01)
    assert sent == [b"1"]
    gate.set()
    await first
    for _ in range(4):  # turns of the loop; a timer takes more
        await asyncio.sleep(0)
    assert second.done()
    await batch.close()
