"""From the schema before retention to this one, with processes of both releases on it."""

from __future__ import annotations

import logging

import asyncpg
import pytest

from gateway.core.claim import Ending, Seen, Won
from gateway.store.migrate import migrate
from gateway.store.queries import read
from tests.store.purgeable import RETENTION, begin
from tests.store.remembered import kept, live, route, said, start
from tests.store.statements import arrival, ending
from tests.store.stores import Stores, fresh_ask
from tests.store.test_previous_release import at_version

BEFORE = 5
ROUTES = {name: statement.sql for name, statement in read("routes.sql").items()}


async def test_what_the_release_before_retention_remembers_is_kept_and_purged_in_time(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old = await at_version(dsn, BEFORE)
    await old.fetch(ROUTES["remember"], ["orders"], [route().print])
    recent, over = fresh_ask(), fresh_ask()
    for ask in (recent, over):
        await old.fetch(*arrival(ask))
        await old.fetch(*ending(ask, b"d"))
    await old.execute(
        "update dedup.claims set first_seen = first_seen - 90 * 86400 where token is null"
        " and key = (select max(key::text)::uuid from dedup.claims)"
    )
    assert (await migrate(dsn))[0].startswith("0006")
    stores = Stores(dsn)
    try:
        process = await start(stores, kept(route()))
        assert said(caplog, "retention_registered")
        assert not said(caplog, "memory_is_new")
        for _ in range(3):
            assert not await process.is_short()
            await live(process, old, 1)
        run = await begin(old)
        purged = await old.fetch(RETENTION["purge"], "(0,0)", "(999,0)", run)
        assert [tuple(row) for row in purged] == [("orders", 1, 0)]
        left = await old.fetchval("select count(*) from dedup.claims where event_id <> 'canary'")
        assert left == 1
    finally:
        await stores.close()
        await old.close()


@pytest.mark.row(107)
async def test_a_process_of_the_release_before_works_beside_one_of_this(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """Its routes are purged of nothing until a process of this release has registered them."""
    process = await start(stores, kept(route()))
    await sql.fetch(ROUTES["remember"], ["orders", "bills"], [b"other", b"recipe"])
    rows = await sql.fetch(ROUTES["known"], ["orders", "bills"])
    assert {name: number for name, number in rows} == {"orders": 1, "bills": 2}
    theirs, ours = fresh_ask(), fresh_ask()
    await sql.fetch(*arrival(theirs))
    await sql.fetch(*ending(theirs, b"d"))
    assert isinstance(await process.store.arrive(fresh_ask(theirs.key)), Seen)
    assert isinstance(await process.store.arrive(ours), Won)
    await process.store.settle(ours, Ending.COMPLETE)
    ((first, is_open, state, *_),) = await sql.fetch(*arrival(fresh_ask(ours.key)))
    assert (first, is_open, state) == (False, False, b"d")
    await sql.execute(
        "update dedup.claims set route = 2, first_seen = 1 where event_id <> 'canary'"
    )
    run = await begin(sql)
    assert not await sql.fetch(RETENTION["purge"], "(0,0)", "(999,0)", run)
    assert not await process.is_short()
