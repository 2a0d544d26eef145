"""Runs of the purger on a real store: one at a time, each on record, whatever breaks it off."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import StoreAway
from gateway.core.outcome import Reply
from gateway.flow import purging
from gateway.flow.purging import RUN_EVERY, Purger
from tests.fault_proxy import FaultProxy, Wire
from tests.store.stores import PATIENCE, ROUTE, OpenStore, Stores, at_once, fresh_key

CLAIMS = 3000
OLD = 60 * 86400


class Counts:
    """What a process counted."""

    def __init__(self) -> None:
        self.purged_by: Counter[str] = Counter()
        self.unresolved = 0

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        self.purged_by[route] += claims
        self.unresolved += unresolved


def purger(store: OpenStore, who: str, counts: Counts | None = None) -> Purger:
    return Purger(
        store.inner.retention,
        counts or Counts(),
        who,
        clock=time.monotonic,
        dice=lambda: random.getrandbits(63),
        jitter=lambda: 1.0,
    )


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many of them, so that much can happen in between."""
    monkeypatch.setattr(purging, "STEP", 1)


async def fill(sql: asyncpg.Connection, state: str = "d", claims: int = CLAIMS) -> None:
    """Claims whose retention is over."""
    await sql.execute("update dedup.routes set retention = 864000")
    await sql.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint, attempt)"
        " select gen_random_uuid(), extract(epoch from now())::int4 - $1::int4, 1,"
        " $2::text::\"char\", 'a', 1 from generate_series(1, $3::int4)",
        *(OLD, state, claims),
    )


async def left(sql: asyncpg.Connection) -> int:
    return int(await sql.fetchval("select count(*) from dedup.claims"))


async def runs(sql: asyncpg.Connection) -> list[tuple[object, ...]]:
    """Who, whether it was done, how many claims, and how many of those were unresolved."""
    rows = await sql.fetch(
        "select who, ended is not null, purged, unresolved from dedup.purges"
        " where run is null order by id"
    )
    return [tuple(row) for row in rows]


async def make_due(sql: asyncpg.Connection) -> None:
    await sql.execute("update dedup.jobs set until = now() - interval '1 second'")


async def test_a_run_forgets_what_is_over_and_is_on_record(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store, counts = await stores.open(), Counts()
    await fill(sql)
    await fill(sql, "s", 7)
    assert await store.inner.retention.last_purge() is None
    gone = await purger(store, "host:1", counts).run_once()
    assert gone == counts.purged_by == {ROUTE: CLAIMS + 7}
    assert counts.unresolved == 7
    assert await left(sql) == 0
    assert await runs(sql) == [("host:1", True, CLAIMS + 7, 7)]
    recorded = await sql.fetchrow(
        "select route, purged, unresolved, who, extract(epoch from now() - cut_off) / 86400 as age"
        " from dedup.purges where run is not null"
    )
    assert tuple(recorded)[:4] == (1, CLAIMS + 7, 7, "host:1")
    assert 10 <= recorded["age"] < 10.01
    last = await store.inner.retention.last_purge()
    assert last == pytest.approx(time.time(), abs=60)


async def test_a_reply_without_a_claim_goes_once_every_retention_is_over(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """A batch's is kept under a key of its own."""
    store = await stores.open()
    await fill(sql)
    keys = [fresh_key() for _ in range(3)]
    for key in keys:
        await store.inner.keep(key, Reply(200, b"OK", (), b"done"))
    days = "extract(epoch from now())::int4 - $2 * 86400"
    for key, age in zip(keys[:2], (9, 11), strict=True):
        await sql.execute(
            f"update dedup.replies set kept = {days} where key = $1", UUID(key.digest), age
        )
    await purger(store, "host:1").run_once()
    assert [await store.inner.recall(key) is not None for key in keys] == [True, False, True]


async def test_replies_are_walked_to_their_end_where_they_are_more_than_the_claims(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await fill(sql, claims=1)
    await sql.execute("""
        insert into dedup.replies (key, kept, status, body)
        select gen_random_uuid(), 1, 200, convert_to(repeat('x', 900), 'UTF8')
          from generate_series(1, 100)
    """)
    assert await purger(store, "host:1").run_once() == {ROUTE: 1}
    assert await sql.fetchval("select count(*) from dedup.replies") == 0


async def test_the_next_run_is_due_after_a_while_and_for_any_process(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    first, second = await stores.open(), await stores.open()
    assert await purger(first, "host:1").run_once() == {}
    await fill(sql)
    assert await purger(first, "host:1").run_once() is None
    assert await purger(second, "host:2").run_once() is None
    until = await sql.fetchval("select extract(epoch from until - now()) from dedup.jobs")
    assert RUN_EVERY - 60 < until <= RUN_EVERY
    await make_due(sql)
    assert await purger(second, "host:2").run_once() == {ROUTE: CLAIMS}
    assert [who for who, *_ in await runs(sql)] == ["host:1", "host:2"]


async def test_of_four_processes_that_look_together_one_runs_however_often(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    opened = [await stores.open() for _ in range(4)]
    for turn in range(15):
        await fill(sql, claims=200)
        await make_due(sql)
        purgers = [purger(store, f"host:{n}") for n, store in enumerate(opened)]
        told = await at_once(one.run_once() for one in purgers)
        assert sorted(map(str, told)) == ["Counter({'orders': 200})", "None", "None", "None"]
        assert len(await runs(sql)) == turn + 1
    assert await left(sql) == 0


async def test_what_a_dead_process_left_is_done_by_another_one_after_its_lease(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """And what it had deleted is on record all the same."""
    dying, heir = await stores.open(), await stores.open()
    await fill(sql)
    counts = Counts()
    run = asyncio.ensure_future(purger(dying, "dead:1", counts).run_once())
    while not counts.purged_by[ROUTE]:
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    remaining = await left(sql)
    assert 0 < remaining < CLAIMS
    assert await purger(heir, "heir:1").run_once() is None
    await make_due(sql)
    assert await purger(heir, "heir:1").run_once() == {ROUTE: remaining}
    assert await runs(sql) == [("dead:1", False, 0, 0), ("heir:1", True, remaining, 0)]
    recorded = await sql.fetch("select who, purged from dedup.purges where run is not null")
    assert {tuple(row) for row in recorded} == {
        ("dead:1", CLAIMS - remaining),
        ("heir:1", remaining),
    }


async def test_a_purger_that_was_away_for_longer_than_its_lease_leaves_the_job_to_whoever_has_it(
    stores: Stores, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "LEASE", 0.0)
    monkeypatch.setattr(purging, "REST", 100.0)  # somebody comes long before the end
    slow, quick = await stores.open(), await stores.open()
    await fill(sql)
    counts = Counts()
    run = asyncio.ensure_future(purger(slow, "slow:1", counts).run_once())
    while not counts.purged_by[ROUTE]:
        await asyncio.sleep(0)
    token = 4711
    await make_due(sql)
    number = await quick.inner.retention.take_purge(token, 60.0, "quick:1")
    assert number is not None
    assert await asyncio.wait_for(run, PATIENCE) is None
    assert await left(sql) > 0
    assert await quick.inner.retention.keep_purge(token, 60.0)
    assert await quick.inner.retention.end_purge(token, RUN_EVERY, number)
    assert not await quick.inner.retention.end_purge(token, RUN_EVERY, number)
    assert [done for _, done, *_ in await runs(sql)] == [False, True]


async def test_a_store_that_goes_away_breaks_the_run_off_and_the_next_one_does_the_rest(
    stores: Stores, sql: asyncpg.Connection, wire: FaultProxy
) -> None:
    store, counts = await stores.open(wire.proxied), Counts()
    await fill(sql)
    run = asyncio.ensure_future(purger(store, "host:1", counts).run_once())
    while not counts.purged_by[ROUTE]:
        await asyncio.sleep(0)
    wire.set(Wire.CUT_REPLIES)
    with pytest.raises(StoreAway):
        await asyncio.wait_for(run, PATIENCE)
    remaining = await left(sql)
    assert remaining > 0
    wire.set(Wire.PASS)
    await store.inner.check_once()
    await store.up()
    await make_due(sql)
    assert await purger(store, "host:1", counts).run_once() == {ROUTE: remaining}
    on_record = await sql.fetchval("select sum(purged) from dedup.purges where run is not null")
    assert on_record == CLAIMS


@pytest.mark.parametrize("lost", ["truncate dedup.jobs", "delete from dedup.purges"])
async def test_a_job_or_a_record_that_is_gone_comes_back(
    lost: str, stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    assert await purger(store, "host:1").run_once() == {}
    await fill(sql)
    await sql.execute(lost)
    if "purges" in lost:
        assert await purger(store, "host:1").run_once() is None
        await make_due(sql)
    assert await purger(store, "host:1").run_once() == {ROUTE: CLAIMS}
    assert await store.inner.retention.last_purge() is not None
    assert (await runs(sql))[-1] == ("host:1", True, CLAIMS, 0)


async def test_a_kept_reply_goes_with_its_claim_and_no_other(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    await fill(sql, claims=2)
    await sql.execute("""
        update dedup.claims set first_seen = extract(epoch from now())
         where key = (select min(key::text)::uuid from dedup.claims);
        insert into dedup.replies (key, kept, status, body)
        select key, 1, 200, ''::bytea from dedup.claims
         union all
        select gen_random_uuid(), extract(epoch from now()), 200, ''::bytea;
    """)
    assert await purger(store, "host:1").run_once() == {ROUTE: 1}
    assert await sql.fetchval("select count(*) from dedup.replies") == 2
    assert await sql.fetchval("select count(*) from dedup.claims join dedup.replies using (key)")


async def test_records_of_runs_are_kept_for_a_year_and_those_of_their_routes_go_along(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    for days in (402, 399):
        await sql.execute(
            "with run as (insert into dedup.purges (began, who)"
            " values (now() - $1::int4 * interval '1 day', $2) returning *)"
            " insert into dedup.purges (began, run, route, who) select began, id, 1, who from run",
            *(days, str(days)),
        )
    assert await purger(store, "now").run_once() == {}
    kept = await sql.fetch("select distinct who from dedup.purges")
    assert {who for (who,) in kept} == {"399", "now"}
