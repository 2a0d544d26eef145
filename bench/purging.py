"""What purging costs those who deliver, and whether a store grows under a steady load.

    python -m bench.purging             a million claims purged beside 200 deliveries a second, and
                                        the sizes of a table in which as many come as go
    python -m bench.purging --quick     a tenth of it

Through the store's own classes, on a server with the shipped settings: durable commits, autovacuum.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, perf_counter

import asyncpg

from bench import storage
from bench.processes import BenchFailed
from bench.run import DISK
from gateway.demo.room import temporary_room
from gateway.flow.purging import Purger
from gateway.store.embedded import EmbeddedPostgres
from gateway.store.store import Store

DAY = 86_400
KEPT = 3
"""Rounds for which claims are kept when the table's size is looked at."""
# Claims that are under way at one time.
TOGETHER = 200
ROUNDS = 15
# Long enough for a percentile of some thousand deliveries.
IDLE_SECONDS = 20.0
PER_SECOND = 200
LIVE = 200_000
"""Claims that stay, in every second page or so."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from asking for a claim to having it."""

    median: float
    p99: float
    deliveries: int


@dataclass(frozen=True, slots=True)
class Purge:
    """A run beside deliveries."""

    claims: int
    seconds: float
    idle: Latency
    busy: Latency

    @property
    def ratio(self) -> float:
        """Of the 99th percentiles."""
        return self.busy.p99 / self.idle.p99


class Load:
    """Deliveries of new events at a steady rate, whoever is slow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers = itertools.count(10**9)
        self._dice = random.Random(1)
        self.took: list[float] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            due = perf_counter()
            while True:
                due += self._dice.expovariate(PER_SECOND)
                await asyncio.sleep(max(due - perf_counter(), 0))
                group.create_task(self._deliver(next(self._numbers)))

    async def _deliver(self, number: int) -> None:
        began = perf_counter()
        settlement = await storage.claimed(self._store, number, self._dice.getrandbits(63))
        self.took.append(perf_counter() - began)
        await asyncio.sleep(self._dice.expovariate(1 / storage.CONSUMER_SECONDS))
        await storage.settle(self._store, settlement)

    def latency(self) -> Latency:
        """Of what was delivered since the last time."""
        took, self.took = self.took, []
        cuts = statistics.quantiles(took, n=100)
        return Latency(statistics.median(took) * 1e3, cuts[98] * 1e3, len(took))


class Counts(Counter[str]):
    """What was purged, by route."""

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        """As the purger tells."""
        self[route] += claims


def purger(store: Store) -> Purger:
    """As a process has one."""
    dice = random.Random()
    return Purger(
        store.retention, Counts(), "bench", monotonic, lambda: dice.getrandbits(63), dice.random
    )


async def purge_beside(server: EmbeddedPostgres, claims: int) -> Purge:
    """Claims that are over go while others are made."""
    async with storage.database(server) as dsn, storage.open_store(dsn, ids=True) as store:
        await _fill(dsn, claims)
        load = Load(store)
        running = asyncio.ensure_future(load.run())
        await asyncio.sleep(3)
        load.latency()
        await asyncio.sleep(IDLE_SECONDS)
        idle, began = load.latency(), perf_counter()
        gone = await purger(store).run_once()
        seconds, busy = perf_counter() - began, load.latency()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert gone is not None
    return Purge(gone.total(), seconds, idle, busy)


async def _fill(dsn: str, claims: int) -> None:
    """Those that are over, and some among them that are not."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("update dedup.routes set retention = $1", DAY)
        live = min(LIVE, claims // 5)
        await connection.execute(_FILL, claims + live, (claims + live) // live, timeout=None)
        await connection.execute("vacuum analyze dedup.claims", timeout=None)
        await connection.execute("checkpoint", timeout=None)
    finally:
        await connection.close()


_FILL = """
insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
select md5('old ' || n)::uuid,
       extract(epoch from now())::int4 - case when n % $2::int8 = 0 then 0 else 864000 end,
       1, 'd', 'a', 'evt_' || lpad(n::text, 24, '0')
  from generate_series(1, $1::int8) as n
"""


@dataclass(frozen=True, slots=True)
class Grown:
    """Bytes of a table and its index after each round, in which as many claims come as go."""

    claims: int
    sizes: list[int]

    @property
    def ratio(self) -> float:
        """Of the last third to the first one after the table has filled."""
        third = len(self.sizes) // 3
        return statistics.mean(self.sizes[-third:]) / statistics.mean(self.sizes[third : 2 * third])


async def steady(dsn: str, rounds: int, claims: int) -> Grown:
    """In each round claims are made and completed, and those of four rounds ago are purged.

    A vacuum ends each round, as autovacuum would many times. Claims are as old as if a day passed
    with each.
    """
    async with storage.open_store(dsn, ids=True) as store:
        connection = await asyncpg.connect(dsn)
        try:
            return Grown(
                claims, [await _round(connection, store, rounds - n, claims) for n in range(rounds)]
            )
        finally:
            await connection.close()


async def _round(connection: asyncpg.Connection, store: Store, age: int, claims: int) -> int:
    for _ in range(claims // TOGETHER):
        await connection.execute(_CLAIM, age * DAY, TOGETHER)
        await connection.execute(_COMPLETE)
    await connection.execute("update dedup.routes set retention = $1", (age + KEPT) * DAY)
    await connection.execute("update dedup.jobs set until = now()")
    if await purger(store).run_once() is None:
        raise BenchFailed("nothing was purged")
    await connection.execute("vacuum dedup.claims")
    return int(await connection.fetchval(_SIZE))


_CLAIM = """
insert into dedup.claims (key, first_seen, route, state, fingerprint, token, until, attempt,
                          event_id)
select gen_random_uuid(), extract(epoch from now())::int4 - $1::int4, 1, 'c', 'a', 1,
       now() + interval '1 min', 1, 'evt_' || lpad(n::text, 24, '0')
  from generate_series(1, $2::int4) as n
"""
_COMPLETE = """
update dedup.claims set state = 'd', token = null, until = null, attempt = null where state = 'c'
"""
_SIZE = "select pg_table_size('dedup.claims') + pg_indexes_size('dedup.claims')"


async def main(claims: int) -> None:
    """Measures, and prints what was found."""
    with ExitStack() as exits:
        room = exits.enter_context(temporary_room(DISK))
        place = room / "claims"
        server = exits.enter_context(EmbeddedPostgres(place, log=lambda event, /, **facts: None))
        found = await purge_beside(server, claims)
        print(f"purged {found.claims:,} claims in {found.seconds:.0f} s")
        for name, one in (("idle", found.idle), ("purging", found.busy)):
            print(
                f"{name:<8} median {one.median:.1f} ms, 99th {one.p99:.1f} ms"
                f" of {one.deliveries:,} deliveries"
            )
        print(f"99th percentile, purging / idle: {found.ratio:.2f}")
        async with storage.database(server) as dsn:
            grown = await steady(dsn, ROUNDS, claims // 10)
        shown = " ".join(f"{size / 2**20:.1f}" for size in grown.sizes)
        print(f"MiB after each {grown.claims:,} claims that came and went: {shown}")
        print(f"the last third to the one before: {grown.ratio:.3f}")


if __name__ == "__main__":
    asyncio.run(main(100_000 if "--quick" in sys.argv else 1_000_000))
