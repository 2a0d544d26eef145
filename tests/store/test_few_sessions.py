"""Sessions are few, however many routes and deliveries ask: all gateways share the server's."""

from __future__ import annotations

import asyncio

import asyncpg

from gateway.core.inbox import Leased
from gateway.store.store import Store
from tests.store.stores import Stores, at_once, fresh_offer, fresh_token


async def sessions(sql: asyncpg.Connection) -> int:
    """All but our own. A store keeps those that it opened."""
    return int(
        await sql.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    )


async def test_many_deliveries_that_meet_dead_entries_share_a_few_sessions(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    offers = [fresh_offer() for _ in range(80)]
    await at_once(store.accept(offer) for offer in offers)
    await sql.execute("update dedup.entries set state = 'x', settled = now()")
    before = await sessions(sql)
    assert all(await at_once(store.inner.revive(offer) for offer in offers))
    assert await sessions(sql) <= before + 4


async def test_many_routes_that_lease_at_once_share_a_few_sessions(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    names = [f"route-{n}" for n in range(40)]
    await store.inner.register({name: b"recipe" for name in names})
    await at_once(store.accept(fresh_offer()._replace(route=name)) for name in names)
    before = await sessions(sql)
    found = await asyncio.gather(*(lease_one(store.inner, name) for name in names))
    assert [len(leased) for leased in found] == [1] * 40
    assert await sessions(sql) <= before + 4


async def lease_one(store: Store, route: str) -> list[Leased]:
    return await store.lease(route, 1, fresh_token(), 30.0, newest=False)
