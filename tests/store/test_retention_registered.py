"""What is on record of retentions and of how keys are made, and who is told of a change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import asyncpg
import pytest

from gateway.core.retention import Shortened
from gateway.flow.remembering import Kept
from tests.store.remembered import Process, claim, forget_all, kept, route, said, start
from tests.store.stores import Stores

SOURCE = (
    "a floor of retry horizon 3d + redrive window 7d + own replay 0s,"
    " from https://provider.example/docs"
)


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def days(count: int, name: str = "orders") -> Kept:
    return kept(route(name, retention=timedelta(days=count)))


async def on_record(sql: asyncpg.Connection) -> list[tuple[object, ...]]:
    rows = await sql.fetch(
        'select r.name, c.was / 86400, c."is" / 86400, c.who, c.source'
        " from dedup.retentions c join dedup.routes r on r.id = c.route order by c.id"
    )
    return [tuple(row) for row in rows]


async def test_a_retention_that_changes_is_logged_and_recorded_with_what_it_was_derived_from(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    process = await start(stores, days(13))
    (line,) = said(caplog, "retention_registered")
    assert line == {"route": "orders", "was": None, "now": 13 * 86400, "source": SOURCE}
    await process.use(days(20))
    (line,) = said(caplog, "retention_registered")
    assert (line["was"], line["now"]) == (13 * 86400, 20 * 86400)
    await process.use(days(12))
    (line,) = said(caplog, "retention_shortened")
    assert line == {"route": "orders", "was": 20 * 86400, "now": 12 * 86400, "source": SOURCE}
    await process.use(days(12))
    await process.use(kept(route(retention=timedelta(days=12), place="/elsewhere")))
    assert not caplog.records
    assert await sql.fetchval("select place from dedup.routes") == "/elsewhere"
    assert await on_record(sql) == [
        ("orders", None, 13, "host:1", SOURCE),
        ("orders", 13, 20, "host:1", SOURCE),
        ("orders", 20, 12, "host:1", SOURCE),
    ]


async def test_a_change_is_recorded_once_however_many_processes_start_with_it(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    first = await start(stores, days(13))
    second = await start(stores, days(13), who="host:2")
    assert len(await on_record(sql)) == 1
    await second.use(days(12))
    assert [line["now"] for line in said(caplog, "retention_shortened")] == [12 * 86400]
    await first.use(days(12))
    assert not said(caplog, "retention_shortened")
    assert [(row[2], row[3]) for row in await on_record(sql)] == [(13, "host:1"), (12, "host:2")]


async def test_a_memory_that_was_raised_reaches_no_further_than_it_did_and_the_time_since(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await start(stores, days(13))

    async def grown() -> float | None:
        found = (await process.store.inner.retention.memories(["orders"]))["orders"].grown
        return None if found is None else round(found / 86400, 2)

    assert await grown() is None
    await process.use(days(20))
    assert await grown() == 13
    await sql.execute("update dedup.retentions set at = at - interval '5 days'")
    assert await grown() == 18
    await process.use(days(12))
    assert await grown() == 18
    await process.use(days(30))
    assert await grown() == 12


async def test_the_latest_shortening_of_each_route_can_be_asked_for(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await start(stores, days(20), days(20, "bills"), days(20, "other"))
    for count in (15, 12, 14):
        await process.use(days(count), days(30, "bills"), days(19, "other"))
    found = {one.route: one for one in await process.store.inner.retention.shortened(
        ["orders", "bills"]
    )}  # fmt: skip
    now = await sql.fetchval("select extract(epoch from now())::float8")
    assert found == {
        "orders": Shortened("orders", 15 * 86400, 12 * 86400, found["orders"].at, "host:1", SOURCE)
    }
    assert now - 60 < found["orders"].at <= now


async def test_a_route_that_is_gone_from_the_file_keeps_the_retention_that_it_had(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    process = await start(stores, days(13), days(30, "gone"))
    await process.use(days(12))
    rows = await sql.fetch("select name, retention / 86400 from dedup.routes order by name")
    assert [tuple(row) for row in rows] == [("gone", 30), ("orders", 12)]


async def test_a_store_that_knows_no_retention_any_more_is_told_again(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    """A backup from before, or one that was wiped: nothing would ever be purged there."""
    process = await start(stores, days(13))
    await sql.execute("update dedup.routes set retention = null")
    for _ in range(2):
        assert await process.remembering.look_once()
    assert await sql.fetchval("select retention from dedup.routes") == 13 * 86400


ORDERS = route()
Change = Callable[[bool], tuple[Kept, ...]]

NEW: dict[str, tuple[Change, dict[str, str]]] = {
    "another place of the id": (
        lambda new: (kept(route(id_at="id"), new=new), kept(route("bills"), new=new)),
        {"orders": "orders"},
    ),
    "another scope": (
        lambda new: (kept(route(scope="shop"), new=new), kept(route("bills"), new=new)),
        {"orders": "orders"},
    ),
    "another name": (
        lambda new: (kept(route("shop", place=ORDERS.place), new=new), kept(route("bills"))),
        {"shop": "orders"},
    ),
    "names swapped": (
        lambda new: (
            kept(route("orders", place="/hooks/bills"), new=new),
            kept(route("bills", place="/hooks/orders"), new=new),
        ),
        {"orders": "bills", "bills": "orders"},
    ),
    "moved, and another one is there": (
        lambda new: (
            kept(route(place="/old")),
            kept(route("bills", place="/hooks/orders"), new=new),
        ),
        {"bills": "orders"},
    ),
}  # fmt: skip


OLD: dict[str, tuple[Kept, ...]] = {
    "unchanged": (kept(route()), kept(route("bills"))),
    "renamed with its scope": (kept(route("shop", place=ORDERS.place, scope="orders")),),
    "moved": (kept(route(place="/elsewhere")), kept(route("bills"))),
    "nothing to forget": (kept(route()), kept(route("quiet", id_at="id"))),
    "one more": (kept(route()), kept(route("bills")), kept(route("fresh"))),
}


async def remembering(stores: Stores, sql: asyncpg.Connection) -> Process:
    """Two routes with claims, that were kept for longer; of `quiet`, canaries are all there is."""
    process = await start(stores, days(14), days(14, "bills"), days(14, "quiet"))
    await claim(sql, "orders", 3)
    await claim(sql, "bills")
    return process


async def test_a_route_that_recognises_nothing_is_warned_about_until_its_user_says_why(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for what, (change, expected) in NEW.items():
        process = await remembering(stores, sql)
        caplog.clear()
        for _ in range(2):  # at each start
            await process.begin(*change(False))
            lines = said(caplog, "memory_is_new")
            assert {line["route"]: line["was"] for line in lines} == expected, what
        await process.begin(*change(True))
        assert not said(caplog, "memory_is_new"), what
        await process.begin(*change(False))
        assert not said(caplog, "memory_is_new"), what
        await forget_all(sql)


async def test_a_route_that_recognises_all_there_is_is_not_warned_about(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for what, told in OLD.items():
        process = await remembering(stores, sql)
        for _ in range(2):
            await process.begin(*told)
        assert not said(caplog, "memory_is_new"), what
        await forget_all(sql)


async def test_a_recipe_that_is_accepted_is_the_one_on_record_and_said_once(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    process = await remembering(stores, sql)
    before = await sql.fetchval("select since from dedup.routes where name = 'orders'")
    for expected in ([{"route": "orders"}], []):
        await process.begin(kept(route(id_at="id"), new=True))
        assert said(caplog, "memory_renewed") == expected
    recipe, since = await sql.fetchrow(
        "select recipe, since from dedup.routes where name = 'orders'"
    )
    assert recipe == route(id_at="id").print
    assert since > before


async def test_claims_that_are_far_down_a_long_table_are_found_and_those_purged_are_not_missed(
    stores: Stores, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("gateway.store.retention.LOOK", 3)
    process = await start(stores, kept(ORDERS), kept(route("bills")))
    await claim(sql, "bills", 3000)
    await claim(sql, "orders")
    asked = process.store.inner.retention.remembering
    assert await asked(["orders", "bills", "nobody"]) == {"orders", "bills"}
    assert await asked([]) == set()
    await process.begin(kept(route(id_at="id")))
    assert said(caplog, "memory_is_new")
    await sql.execute(
        "delete from dedup.claims c using dedup.routes r where r.id = c.route and r.name = 'orders'"
        " and event_id is null"
    )
    await process.begin(kept(route(id_at="id")))
    assert not said(caplog, "memory_is_new")
