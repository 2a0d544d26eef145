"""The statements of the inbox: plans, locks, and what they promise to those beside them."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from gateway.core.claim import Won
from gateway.core.inbox import Accepted, EntryState
from gateway.store.entries import NEWEST
from gateway.store.queries import read
from tests.store.statements import INBOX, WAIT, storing
from tests.store.stores import (
    DELIVERY,
    ROUTE,
    Stores,
    at_once,
    entry,
    fresh_ask,
    fresh_offer,
    fresh_token,
    lapse_entry,
)

BACKLOG = """
    insert into dedup.entries (key, route, state, doubtful, attempt, fingerprint, token, due,
                               settled, event_id, method, target, peer, scheme, headers, body)
    select md5(i::text)::uuid, 1 + i % 2, s, false, 1, 'a', 1, now() + (i - 1000) * interval '1 s',
           case when s in ('d', 'x') then now() - i * interval '1 s' end,
           'evt', 'POST', '/', '127.0.0.1', 'http', 'a:b', 'body'
      from generate_series(1, 100000) as i,
           lateral (select (array['p', 'p', 'l', 'd', 'x'])[1 + i % 5]::"char" as s) as states
"""


MEMORY = """
    insert into dedup.claims (key, first_seen, route, state, fingerprint)
    select md5(i::text)::uuid, 0, 1, 'd', 'a' from generate_series(1, 30000) as i
"""
ORDERS = """
    insert into dedup.actions (who, action, key, route, attempt)
    select 'alice', 'redrive', md5(i::text)::uuid, 1, 1 from generate_series(1, 30000) as i
"""


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_workers_find_what_is_due_by_its_index_however_much_waits(
    mode: str, sql: asyncpg.Connection
) -> None:
    await sql.execute(BACKLOG)
    await sql.execute(MEMORY)
    await sql.execute(ORDERS)
    await sql.execute("vacuum analyze dedup.entries, dedup.claims, dedup.actions")
    await sql.execute(f"set plan_cache_mode = {mode}")
    arguments = {
        "lease": (["1", "64", "1", "30", "1000000"], "entries_due"),
        NEWEST: (["1", "64", "1", "30", "1000000"], "entries_due"),
        "due": (["'{1,2}'"], "entries_due"),
        "forget": (["1", "60", "500"], "entries_over"),
    }
    texts = INBOX | {NEWEST: read("inbox.sql")["lease"].turned(NEWEST).sql}
    for name, (values, index) in arguments.items():
        await sql.execute(f"prepare {name} as {texts[name]}")
        lines = await sql.fetch(f"explain (costs off) execute {name}({', '.join(values)})")
        plan = "\n".join(line[0] for line in lines)
        assert index in plan, plan
        # Of all that is completed, and of all that was ever ordered, only these entries' rows.
        assert "Seq Scan on claims" not in plan, plan
        assert "Seq Scan on actions" not in plan, plan
        if index == "entries_due":  # and stops at what is not due yet
            assert "Seq Scan on entries" not in plan, plan
            assert "due <= now()" in plan.partition("Index Cond:")[2].partition("\n")[0], plan
        assert "Sort Key: e." not in plan, plan


@pytest.mark.parametrize("look", ["waiting", "orphans"])
async def test_a_look_at_what_waits_reads_nothing_that_was_delivered(
    look: str, sql: asyncpg.Connection
) -> None:
    await sql.execute(BACKLOG)
    await sql.execute("update dedup.entries set state = 'd', settled = now() where due > now()")
    await sql.execute("vacuum analyze dedup.entries")
    text = INBOX[look].replace("$1", "'{orders}'")
    lines = await sql.fetch(f"explain (costs off) {text}")
    plan = "\n".join(line[0] for line in lines)
    assert "entries_due" in plan, plan
    assert "entries_waiting" in plan, plan
    assert "Seq Scan on entries" not in plan, plan


@pytest.mark.parametrize("size", [3, 64])
async def test_storing_and_concluding_find_their_rows_by_the_primary_key(
    size: int, sql: asyncpg.Connection
) -> None:
    await sql.execute(BACKLOG)
    await sql.execute("vacuum analyze dedup.entries, dedup.claims")

    def listed(value: str) -> str:
        return "'{" + ",".join([value] * size) + "}'"

    keys = listed("00000000-0000-0000-0000-000000000000")
    one, letter, no, text = listed("1"), listed("p"), listed("f"), listed("x")
    delivery = [text, text, text, text, text, text]
    arguments = {
        "accept": [keys, one, one, letter, text, text, letter, one, no, no, *delivery, "'1s'"],
        "store": [keys, one, letter, text, letter, one, no, *delivery, "'1s'"],
        "put_back": [keys, one, letter, no, no, one, text, "'1s'"],
    }
    for name, values in arguments.items():
        await sql.execute(f"prepare {name} as {INBOX[name]}")
        lines = await sql.fetch(f"explain (costs off) execute {name}({', '.join(values)})")
        plan = "\n".join(line[0] for line in lines)
        assert "Seq Scan on entries" not in plan, plan


async def test_a_worker_passes_over_what_somebody_has_locked(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    locked, free = fresh_offer(), fresh_offer()
    await at_once(store.accept(offer) for offer in (locked, free))
    async with other.transaction():
        await other.execute("select from dedup.entries where token = $1 for update", locked.token)
        assert [leased.key for leased in await store.lease()] == [free.key]
    assert [leased.key for leased in await store.lease()] == [locked.key]


async def test_storing_waits_for_a_lock_as_long_as_it_is_told_and_the_bound_ends_with_it(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    store = await stores.open()
    ask = fresh_ask()
    await store.arrive(ask)
    offer = fresh_offer(ask.key, token=ask.token)
    async with other.transaction():
        await other.execute("select from dedup.claims for update")
        began = time.monotonic()
        with pytest.raises(asyncpg.LockNotAvailableError):
            await sql.fetch(*storing(offer, wait="60ms"))
        assert time.monotonic() - began >= 0.05
    assert len(await sql.fetch(*storing(offer, wait=WAIT))) == 1
    assert await sql.fetchval("show lock_timeout") == "0"


async def test_a_lease_ends_at_its_last_moment_and_a_pause_before_it(
    stores: Stores, clock: object, sql: asyncpg.Connection
) -> None:
    """At exactly its time a leased entry is still its worker's, and a pending one is due."""
    store = await stores.open()
    leased = fresh_offer(state=EntryState.LEASED, lease=10.0)
    await store.accept(leased)
    await sql.execute("update clock.face set now = now + 10")
    assert await store.lease() == []
    await sql.execute("update clock.face set now = now + 0.25")
    assert [one.key for one in await store.lease()] == [leased.key]
    await sql.execute("update dedup.entries set state = 'p'")
    await sql.execute("update dedup.entries set due = clock.now() + interval '1 s'")
    assert await store.lease() == []
    await sql.execute("update clock.face set now = now + 1")
    assert [one.key for one in await store.lease()] == [leased.key]


async def test_a_lease_brings_no_more_than_can_be_fetched_in_time(stores: Stores) -> None:
    store = await stores.open()
    offers = [fresh_offer(delivery=DELIVERY._replace(body=bytes(7 << 20))) for _ in range(3)]
    for offer in offers:
        await store.accept(offer)
    assert len(await store.lease()) == 2
    (last,) = await store.lease()
    assert len(last.delivery.body) == 7 << 20
    huge = fresh_offer(delivery=DELIVERY._replace(body=bytes(20 << 20)))
    await at_once(store.accept(offer) for offer in (huge, fresh_offer()))
    assert [len(one.delivery.body) for one in await store.lease(newest=True)]
    assert len(await store.lease()) == 1


async def test_bodies_travel_together_up_to_a_few_megabytes_and_large_ones_alone(
    stores: Stores,
) -> None:
    store = await stores.open()

    async def sizes(count: int, bytes_each: int) -> list[int]:
        store.statements.clear()
        delivery = DELIVERY._replace(body=bytes(bytes_each))
        told = await at_once(
            store.accept(fresh_offer(delivery=delivery), 15.0) for _ in range(count)
        )
        assert all(isinstance(t, Accepted) for t in told)
        return store.sizes("accept")

    assert max(await sizes(12, 1_300_000)) == 3
    assert await sizes(3, 5_000_000) == [1, 1, 1]
    asks = [fresh_ask() for _ in range(4)]
    won = await at_once(store.arrive(ask) for ask in asks)
    assert all(isinstance(w, Won) for w in won)
    delivery = DELIVERY._replace(body=bytes(3_000_000))
    offers = [fresh_offer(ask.key, token=ask.token, delivery=delivery) for ask in asks]
    assert all(await at_once(store.store(offer, 15.0) for offer in offers))
    assert store.sizes("store") == [1, 1, 1, 1]


async def slow_down(sql: asyncpg.Connection, seconds: float) -> None:
    """From now on the disk takes so long for each large body."""
    await sql.execute(f"""
        create function dedup.slow() returns trigger language plpgsql as
            'begin perform pg_sleep({seconds}); return new; end';
        create trigger slow before insert on dedup.entries
            for each row when (octet_length(new.body) > 1000) execute function dedup.slow();
    """)


async def test_a_large_body_has_the_time_that_its_bytes_need(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """Two seconds, after which any other statement would pass for a store that is away."""
    store = await stores.open()
    await slow_down(sql, 2.0)
    delivery = DELIVERY._replace(body=bytes(25 << 20))
    assert isinstance(await store.accept(fresh_offer(delivery=delivery)), Accepted)
    assert not store.errors


async def test_small_offers_do_not_wait_for_large_ones(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await slow_down(sql, 2.0)
    delivery = DELIVERY._replace(body=bytes(16 << 20))
    large = [
        asyncio.ensure_future(store.accept(fresh_offer(delivery=delivery), 15.0)) for _ in "12"
    ]
    await asyncio.sleep(0)
    told = await at_once(store.accept(fresh_offer(), 15.0) for _ in range(3))
    assert all(isinstance(t, Accepted) for t in told)
    assert not any(waiting.done() for waiting in large)
    assert all(isinstance(told, Accepted) for told in await asyncio.gather(*large))


@pytest.mark.parametrize("newest", [False, True])
async def test_a_lease_is_committed_before_anybody_has_it(
    newest: bool, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    offer = fresh_offer()
    await store.accept(offer)
    token = fresh_token()
    assert len(await store.lease(token=token, newest=newest)) == 1
    found = await entry(sql, offer.key)
    assert found is not None
    assert (found.state, found.attempt, found.token) == (EntryState.LEASED, 1, token)
    await lapse_entry(sql, offer.key)
    assert await store.inner.due([ROUTE]) == {ROUTE}
    (again,) = await store.lease(newest=newest)
    assert (again.attempt, again.doubtful, again.took_over) == (2, True, True)


@pytest.mark.parametrize(
    "nonsense",
    [
        "state = 'c'",
        "state = 'd'",  # over, and nobody knows since when
        "settled = now()",
        "attempt = -1",
        "state = 'l', attempt = 0",
    ],
)
async def test_the_table_refuses_what_is_no_entry(
    nonsense: str, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await store.accept(fresh_offer())
    with pytest.raises(asyncpg.CheckViolationError):
        await sql.execute(f"update dedup.entries set {nonsense}")
