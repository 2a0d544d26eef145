"""Purging behind PgBouncer in transaction mode, where every statement may meet another session."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from gateway.flow.purging import Purger
from gateway.store.migrate import migrate
from gateway.store.store import Store
from tests.rig.deadline import eventually
from tests.rig.pooler import Pooler
from tests.rig.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS, CLAIMS = 5, 4000


class Counts(Counter[str]):
    """What a process counted."""

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        self[route] += claims


async def opened(dsn: str) -> Store:
    store = Store(
        dsn,
        keep_ids=True,
        clock=time.monotonic,
        on_error=lambda _: None,
        on_statement=lambda *_: None,
    )
    await store.register({"orders": b"recipe"})
    await store.start()
    await eventually(lambda: store.away_since is None, within=15, what="the store is up")
    return store


async def fill(sql: asyncpg.Connection) -> None:
    await sql.execute("update dedup.routes set retention = 3600")
    await sql.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint)"
        " select gen_random_uuid(), 1, 1, 'd', 'a' from generate_series(1, $1::int4)",
        CLAIMS,
    )
    await sql.execute("update dedup.jobs set until = now() - interval '1 second'")


async def test_one_of_several_purgers_runs_and_all_it_did_is_on_record(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await migrate(world.database.dsn)
    pooler = Pooler(Path(tmp_path_factory.mktemp("pooler")), size=2)
    pooler.leads_to(world.database.dsn)
    await pooler.start()
    stores = [await opened(pooler.dsn("?statement_cache_size=0")) for _ in range(3)]
    counts = Counts()
    purgers = [
        Purger(
            store.retention,
            counts,
            f"host:{n}",
            time.monotonic,
            lambda: random.getrandbits(63),
            lambda: 0.0,
        )
        for n, store in enumerate(stores)
    ]
    try:
        async with world.database.session() as sql:
            for turn in range(1, ROUNDS + 1):
                await fill(sql)
                told = await asyncio.gather(*(purger.run_once() for purger in purgers))
                assert [one for one in told if one is not None] == [{"orders": CLAIMS}]
                assert counts == {"orders": turn * CLAIMS}
            on_record = await sql.fetch(
                "select count(*) filter (where run is null and ended is not null),"
                " sum(purged) filter (where run is null),"
                " sum(purged) filter (where run is not null)"
                " from dedup.purges"
            )
            assert tuple(on_record[0]) == (ROUNDS, ROUNDS * CLAIMS, ROUNDS * CLAIMS)
            await stores[0].retention.plant(["orders"])
            memories = await stores[1].retention.memories(["orders"])
            assert memories["orders"].reach < 60
    finally:
        for store in stores:
            await store.stop()
        pooler.stop()
