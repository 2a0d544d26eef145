"""What claims cost in Postgres: bytes of each when it is settled, and time as the table grows.

Through the store's own class, on a server with the shipped settings: durable commits, autovacuum.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import statistics
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from time import monotonic, perf_counter
from urllib.parse import urlsplit

import asyncpg

from bench.events import event_id
from bench.processes import BenchFailed, tree_time
from gateway.core.claim import Ask, Ending, Seen, Settlement, StoreAway, Won
from gateway.core.event import EventKey
from gateway.store.embedded import EmbeddedPostgres
from gateway.store.store import Store

ROUTE = "orders"
LEASE = 42.0
# Seconds that a statement may take: this measures how long it takes, not whether it is in time.
WITHIN = 30.0
ATTEMPTS = 10
# As many as one route forwards at once by default, three times over, and a quick consumer: claims
# are short, and a page sees many of them come and go.
IN_FLIGHT = 200
CONSUMER_SECONDS = 0.005
# Statistics reach the views about a second after the fact, and a vacuum under way ends.
SETTLING_DOWN = 2.0
BATCH = 20
TURNS = 10
# Rows of one statement when the table is filled: large enough to be quick, small enough for the
# checkpointer to keep up.
FILL = 500_000


@dataclass(frozen=True, slots=True)
class Size:
    """A claims table after its load. Bytes are per claim."""

    claims: int
    ids: bool
    per_second: float
    total: float
    heap: float
    indexes: float
    hot: float
    """Share of the settlements that touched no index."""
    vacuums: int


@dataclass(frozen=True, slots=True)
class Time:
    """Microseconds per delivery at a number of rows, medians over batches of 20."""

    rows: int
    first: float
    """Its arrival and its settlement."""
    duplicate: float
    first_cpu: float
    """Processor time of Postgres for one first delivery."""


async def sizes(server: EmbeddedPostgres, claims: int, said: Callable[[str], None]) -> list[Size]:
    """With a 28-character id, and without ids."""
    found = []
    for ids in (True, False):
        said(f"{claims:,} claims {'with' if ids else 'without'} ids")
        async with database(server) as dsn:
            found.append(await _size(dsn, claims, ids=ids))
    return found


async def times(
    server: EmbeddedPostgres, rows: tuple[int, ...], batches: int, said: Callable[[str], None]
) -> list[Time]:
    """Of tables of these sizes, which take turns, so that they share their weather."""
    async with AsyncExitStack() as exits:
        tables = []
        for size in rows:
            said(f"filling a store with {size:,} claims")
            dsn = await exits.enter_async_context(database(server, f"bench_{size}"))
            store = await exits.enter_async_context(open_store(dsn, ids=True))
            await _fill(dsn, size)
            tables.append(_Table(size, store, server))
        turns = min(TURNS, batches)
        for turn in range(turns):
            said(f"store time, turn {turn + 1} of {turns}")
            for table in tables:
                await table.measure(batches // turns)
    return [table.found() for table in tables]


async def _size(dsn: str, claims: int, *, ids: bool) -> Size:
    began = perf_counter()
    async with open_store(dsn, ids=ids) as store:
        numbers = iter(range(claims))
        async with asyncio.TaskGroup() as group:
            for seed in range(IN_FLIGHT):
                group.create_task(_live(store, numbers, random.Random(seed)))
        seconds = perf_counter() - began
    await asyncio.sleep(SETTLING_DOWN)
    connection = await asyncpg.connect(dsn)
    try:
        row = await connection.fetchrow(_SIZE)
    finally:
        await connection.close()
    if row["claims"] != claims or row["unfinished"]:
        raise BenchFailed(f"{row['claims']} of {claims} claims, {row['unfinished']} unfinished")
    return Size(
        claims=claims,
        ids=ids,
        per_second=claims / seconds,
        total=row["total"] / claims,
        heap=row["heap"] / claims,
        indexes=row["indexes"] / claims,
        hot=row["hot"] / max(row["updated"], 1),
        vacuums=row["vacuums"],
    )


_SIZE = """
select (select count(*) from dedup.claims) as claims,
       (select count(*) from dedup.claims where state <> 'd') as unfinished,
       pg_total_relation_size('dedup.claims') as total,
       pg_table_size('dedup.claims') as heap,
       pg_indexes_size('dedup.claims') as indexes,
       n_tup_upd as updated, n_tup_hot_upd as hot, autovacuum_count as vacuums
  from pg_stat_user_tables
 where relid = 'dedup.claims'::regclass
"""


async def _live(store: Store, numbers: Iterator[int], dice: random.Random) -> None:
    """One holder after another: claim, let the consumer work, complete."""
    for number in numbers:
        settlement = await claimed(store, number, dice.getrandbits(63))
        await asyncio.sleep(dice.expovariate(1 / CONSUMER_SECONDS))
        await settle(store, settlement)


async def settle(store: Store, settlement: Settlement) -> None:
    """As often as it takes: the store gives up after a second, which a busy disk may need."""
    for _ in range(ATTEMPTS):
        try:
            await store.settle(settlement)
        except StoreAway:
            continue
        return
    raise BenchFailed(f"a claim was not settled in {ATTEMPTS} attempts")


async def claimed(store: Store, number: int, token: int) -> Settlement:
    ask = Ask(_key(number), ROUTE, token, LEASE, number & 0xFF)
    if not isinstance(await store.arrive(ask, within=WITHIN), Won):
        raise BenchFailed("a new event was not the first")
    return Settlement(ask.key, ROUTE, token, ask.fingerprint, Ending.COMPLETE)


def _key(number: int) -> EventKey:
    text = event_id(0, number)
    # MD5 because Postgres has it too, which fills the table; here it only spreads.
    return EventKey(hashlib.md5(text).digest(), text.decode())


async def _fill(dsn: str, rows: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for at in range(0, rows, FILL):
            await connection.execute(_FILL, at, min(at + FILL, rows) - 1, timeout=None)
        await connection.execute("vacuum analyze dedup.claims")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


_FILL = """
insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
select md5(id)::uuid, extract(epoch from now())::int4, 1, 'd', 'a', id
  from (select 'evt_' || lpad('', 8, '0') || lpad(to_hex(n), 16, '0') as id
          from generate_series($1::int8, $2::int8) as n) as made
"""


class _Table:
    """A store of one size, and what deliveries took there."""

    def __init__(self, rows: int, store: Store, server: EmbeddedPostgres) -> None:
        self._rows = rows
        self._store = store
        self._server = server
        self._dice = random.Random(rows)
        self._fresh = itertools.count(rows * 1_000)  # numbers that no table of ours reaches
        self._firsts: list[float] = []
        self._duplicates: list[float] = []
        self._first_cpu = 0.0

    async def measure(self, batches: int) -> None:
        """So many batches of first deliveries, and as many of duplicates."""
        assert self._server.pid is not None
        before = tree_time(self._server.pid)
        for _ in range(batches):
            began = perf_counter()
            settlements = await asyncio.gather(
                *(claimed(self._store, next(self._fresh), self._token()) for _ in range(BATCH))
            )
            await asyncio.gather(*(settle(self._store, one) for one in settlements))
            self._firsts.append(perf_counter() - began)
        self._first_cpu += tree_time(self._server.pid) - before
        for _ in range(batches):
            known = [self._dice.randrange(self._rows) for _ in range(BATCH)]
            began = perf_counter()
            await asyncio.gather(*(_seen(self._store, number, self._token()) for number in known))
            self._duplicates.append(perf_counter() - began)

    def found(self) -> Time:
        """The medians over all batches."""
        return Time(
            rows=self._rows,
            first=statistics.median(self._firsts) / BATCH * 1e6,
            duplicate=statistics.median(self._duplicates) / BATCH * 1e6,
            first_cpu=self._first_cpu / len(self._firsts) / BATCH * 1e6,
        )

    def _token(self) -> int:
        return self._dice.getrandbits(63)


async def _seen(store: Store, number: int, token: int) -> None:
    ask = Ask(_key(number), ROUTE, token, LEASE, 0)
    if not isinstance(await store.arrive(ask, within=WITHIN), Seen):
        raise BenchFailed("a completed event was not seen as such")


@asynccontextmanager
async def open_store(dsn: str, *, ids: bool) -> AsyncIterator[Store]:
    store = Store(
        dsn,
        keep_ids=ids,
        clock=monotonic,
        on_error=lambda kind: None,
        on_statement=lambda name, seconds, size: None,
    )
    await store.register({ROUTE: b"bench"})
    await store.start()
    try:
        async with asyncio.timeout(WITHIN):
            while store.away_since is not None:
                await store.check_once()
        yield store
    finally:
        await store.stop()


@asynccontextmanager
async def database(server: EmbeddedPostgres, name: str = "bench") -> AsyncIterator[str]:
    """An empty one, dropped afterwards."""
    admin = await asyncpg.connect(server.dsn)
    try:
        await admin.execute(f"create database {name}")
        yield urlsplit(server.dsn)._replace(path=f"/{name}").geturl()
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


async def settings(server: EmbeddedPostgres) -> dict[str, str]:
    """What the figures were durable under, in the server's own words."""
    connection = await asyncpg.connect(server.dsn)
    try:
        rows = await connection.fetch("select name, setting from pg_settings order by name")
    finally:
        await connection.close()
    return {row["name"]: row["setting"] for row in rows if row["name"] in _TELLING}


_TELLING = {
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "autovacuum",
    "autovacuum_naptime",
    "shared_buffers",
}
