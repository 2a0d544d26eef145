"""Is the store there, and what does it do while it is not."""

from __future__ import annotations

import asyncio
import socket
import time

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending, StoreAway, Won
from gateway.core.outcome import Reply
from gateway.store.multihost import parse
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.stores import PATIENCE, Stores, fresh_ask, fresh_key


async def test_a_store_starts_without_postgres_and_needs_no_restart_when_it_comes(
    stores: Stores, database: str
) -> None:
    proxy = FaultProxy(database)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        number = port.getsockname()[1]
    proxy.port = number
    store = await stores.open(proxy.proxied, up=False)
    await eventually(lambda: "does not answer" in (store.inner.problem or ""), within=PATIENCE)
    with pytest.raises(StoreAway) as away:
        await store.arrive(fresh_ask(), 0.2)
    assert not away.value.undecided
    await proxy.start(number)
    try:
        await store.up()
        assert store.inner.problem is None
        assert isinstance(await store.arrive(fresh_ask()), Won)
    finally:
        await store.inner.stop()
        await proxy.stop()


async def test_a_store_without_traffic_notices_by_itself_that_postgres_is_gone_and_back(
    stores: Stores, wire: FaultProxy
) -> None:
    store = await stores.open(wire.proxied)
    wire.set(Wire.BLACK_HOLE)
    await eventually(lambda: store.inner.away_since is not None, within=PATIENCE)
    wire.set(Wire.PASS)
    await store.up()


async def test_a_store_with_traffic_is_not_checked_besides(stores: Stores) -> None:
    store = await stores.open()
    checks = len(store.sizes("health"))
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        await store.arrive(fresh_ask())
    assert len(store.sizes("health")) == checks


async def test_routes_get_one_number_each_however_many_register_at_once(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    opened = [await stores.open() for _ in range(5)]
    names = {f"route{n}": bytes([n]) for n in range(20)}
    await asyncio.gather(*(store.inner.register(names) for store in opened))
    rows = await sql.fetch("select id, name, recipe from dedup.routes order by id")
    assert [row["id"] for row in rows] == list(range(1, 22))
    assert {row["name"]: row["recipe"] for row in rows} == {**names, "orders": b"recipe"}
    born = await sql.fetchval("select min(since) from dedup.routes where name = 'route3'")
    await opened[0].inner.register({"route3": b"changed"})
    assert await sql.fetchval("select since from dedup.routes where name = 'route3'") == born


async def test_a_claim_says_by_which_route_it_came(stores: Stores, sql: asyncpg.Connection) -> None:
    store = await stores.open()
    ask = fresh_ask()
    await store.arrive(ask)
    name = await sql.fetchval(
        "select name from dedup.claims join dedup.routes r on r.id = route where key = $1",
        UUID(ask.key.digest),
    )
    assert name == ask.route


async def test_a_route_that_was_never_registered_is_an_error_of_the_caller(stores: Stores) -> None:
    store = await stores.open()
    stray = fresh_ask()._replace(route="stray")
    with pytest.raises(LookupError):
        await store.arrive(stray)
    with pytest.raises(LookupError):
        await store.settle(stray, Ending.RELEASE)


async def test_the_first_reply_is_kept_and_recalled_whatever_comes_later(stores: Stores) -> None:
    store = await stores.open()
    key = fresh_key()
    headers = ((b"X-Other", b"1"), (b"content-TYPE", b"text/plain; charset=\xe4"))
    assert await store.inner.recall(key) is None
    await store.inner.keep(key, Reply(201, b"Created", headers, b"\x00\xff"))
    await store.inner.keep(key, Reply(200, b"OK", (), b"later"))
    kept = Reply(201, b"", ((b"Content-Type", headers[1][1]),), b"\x00\xff")
    assert await store.inner.recall(key) == kept
    await store.inner.keep(key, Reply(200, b"OK", (), b"anew"), anew=True)
    assert await store.inner.recall(key) == Reply(200, b"", (), b"anew")
    bare = fresh_key()
    await store.inner.keep(bare, Reply(204, b"No Content", (), b""))
    assert await store.inner.recall(bare) == Reply(204, b"", (), b"")


@pytest.mark.parametrize(
    "reply",
    [Reply(200, b"", (), b"x" * (16 * 1024 + 1)), Reply(200, b"", (), b"", complete=False)],
    ids=["over 16 KiB", "broken off"],
)
async def test_a_reply_that_could_not_be_repeated_whole_is_not_kept(
    reply: Reply, stores: Stores
) -> None:
    store = await stores.open()
    key = fresh_key()
    await store.inner.keep(key, reply)
    assert await store.inner.recall(key) is None
    await store.inner.keep(key, Reply(200, b"", (), b"x" * 16 * 1024))
    assert await store.inner.recall(key)


async def test_many_replies_are_kept_and_recalled_in_one_turn(stores: Stores) -> None:
    store = await stores.open()
    keys = [fresh_key() for _ in range(50)]
    replies = [Reply(200 + n, b"", (), b"%d" % n) for n in range(50)]
    for key, reply in zip(keys[::2], replies[::2], strict=True):
        await store.inner.keep(key, reply)
    told = await asyncio.gather(*(store.inner.recall(key) for key in keys))
    assert told == [reply if n % 2 == 0 else None for n, reply in enumerate(replies)]


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://u:p@a/db", ["postgresql://u:p@a/db"]),
        (
            "postgresql://u:p%40@a:1,b,[::1]:3/db?sslmode=require",
            [f"postgresql://u:p%40@{host}/db?sslmode=require" for host in ("a:1", "b", "[::1]:3")],
        ),
        (
            "postgresql:///db?host=/run/a,/run/b&port=1,2",
            [f"postgresql:/db?host=%2Frun%2F{h}&port={p}" for h, p in (("a", 1), ("b", 2))],
        ),
        (
            "postgresql:///db?host=a,b&port=7",
            [f"postgresql:/db?host={h}&port=7" for h in ("a", "b")],
        ),
        ("postgresql:///db", ["postgresql:/db"]),
        ("postgresql://me@/db?host=%2Frun", ["postgresql://me@/db?host=%2Frun"]),
        ("postgresql://a/db?target_session_attrs=any", ["postgresql://a/db"]),
    ],
)
def test_a_dsn_is_taken_apart_into_one_for_each_host(dsn: str, hosts: list[str]) -> None:
    assert [one.replace("postgresql:///", "postgresql:/") for one in parse(dsn).dsns] == hosts


def test_a_dsn_switches_the_statement_cache_off_for_poolers() -> None:
    assert parse("postgresql://a/db?statement_cache_size=0").cached_statements == 0
    assert "statement_cache_size" not in parse("postgresql://a/db?statement_cache_size=0").dsns[0]


def test_a_dsn_that_cannot_be_read_is_refused_before_anybody_connects() -> None:
    with pytest.raises(ValueError, match="statement_cache_size is not a number"):
        parse("postgresql://u:secret@a/db?statement_cache_size=many")


async def test_without_a_statement_cache_no_statement_stays_on_the_server(
    stores: Stores, database: str
) -> None:
    """Behind a pooler in transaction mode the next statement may go to another server."""
    joint = "&" if "?" in database else "?"
    store = await stores.open(f"{database}{joint}statement_cache_size=0")
    for _ in range(3):
        assert isinstance(await store.arrive(fresh_ask()), Won)
    connection = await store.inner._sessions.take()
    assert await connection.fetch("select name from pg_prepared_statements where name <> ''") == []
    assert await connection.fetch("select from pg_locks where locktype = 'advisory'") == []
    connection.terminate()


async def test_a_pooler_that_loses_statements_is_noticed_and_worked_around(stores: Stores) -> None:
    store = await stores.open()
    await store.arrive(fresh_ask())
    connection = await store.inner._sessions.take()
    await connection.execute("deallocate all")
    store.inner._sessions.give_back(connection)
    assert isinstance(await store.arrive(fresh_ask()), Won)
    assert store.errors == {"prepared": 1}
    assert store.inner._sessions._target.cached_statements == 0


async def test_the_host_that_takes_writes_is_found_beside_one_that_hangs_and_one_that_refuses(
    stores: Stores, wire: FaultProxy
) -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = closed.getsockname()[1]
    good = f"127.0.0.1:{wire.port}"
    hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{dead},{good}"
    try:
        store = await stores.open(wire.proxied.replace(good, hosts))
        assert isinstance(await store.arrive(fresh_ask()), Won)
        assert not store.errors
    finally:
        silent.close()
