"""Retention to the second: what is a duplicate, what is new, and what a purge never takes.

Rows are moved in time; only the purge itself is waited for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rig import sender, settings
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETENTION = 60
# A row that was settled at once does not say when: it is kept for an hour longer.
UNSAID = 3600
DAY = 86400


def file(world: World) -> settings.Settings:
    short: dict[str, Any] = {"retention": "60s", "accept_short_retention": "for the test"}
    return world.file(
        world.route(**short, upstream={"timeout": "60s"}),
        world.route("kept", **short, mode="inbox", retry={"base": "1h", "cap": "1h"}),
        world.route("dated", **short, event_time="json:/at"),
    )


async def age(world: World, event: str, seconds: float) -> None:
    """Everything about the event happened so much earlier."""
    changed = await world.database.execute(
        "update dedup.claims set first_seen = first_seen - $2::int4,"
        " until = case when token is null then until - $2::int4 * interval '1 second'"
        " else until end where event_id = $1",
        *(event, int(seconds)),
    )
    assert changed == "UPDATE 1", changed


async def purge(world: World) -> None:
    """The next run of whichever process, from its start to its end."""
    await world.database.execute("delete from dedup.purges")
    await world.database.execute("update dedup.jobs set until = now() - interval '1 second'")

    async def done() -> bool:
        return bool(await world.database.value("select true from dedup.purges where ended > began"))

    await eventually(done, within=30, what="a purge")


async def told(gateway: Gateway, event: str, path: str = "/hooks/orders") -> str | None:
    reply = await gateway.send(sender.event(event, path))
    assert reply.status == 200, reply
    return reply.verdict


async def test_retention_ends_where_it_says_and_a_purge_takes_nothing_that_is_unfinished(
    world: World,
) -> None:
    gateway = await world.gateway(file(world))
    before, after, busy, owed = (fresh(name) for name in ("before", "after", "busy", "owed"))
    for event in (before, after):
        assert await told(gateway, event) == "first"
    go_on = asyncio.Event()
    world.consumer.script(busy, Says(until=go_on))
    world.consumer.script(owed, Says(status=500), Says())
    held = asyncio.ensure_future(gateway.send(sender.event(busy), within=60))
    assert (await gateway.send(sender.event(owed, "/hooks/kept"))).status == 200
    await world.database.becomes(busy, "claimed")
    await world.database.entry_becomes(owed, "pending")
    await age(world, before, RETENTION + UNSAID - 30)
    await age(world, after, RETENTION + UNSAID + 1)
    await age(world, busy, 90 * DAY)
    await age(world, owed, 90 * DAY)
    await purge(world)
    assert await world.database.claim(after) is None
    for event in (before, busy, owed):
        assert await world.database.claim(event), event
    assert await told(gateway, before) == "duplicate"
    assert await told(gateway, owed, "/hooks/kept") == "duplicate"
    assert await told(gateway, after) == "first"
    go_on.set()
    assert (await held).status == 200
    assert await told(gateway, busy) == "duplicate"
    assert world.attempts(after) == [(1, False)] * 2
    assert [len(world.attempts(event)) for event in (before, busy)] == [1, 1]
    await gateway.counts("dedup_purged_total", 1, route="orders")
    scrape = await gateway.scrape()
    assert scrape.total("dedup_purged_unresolved_total") == 0


async def test_what_is_within_retention_and_not_purged_yet_is_a_duplicate_to_the_last_second(
    world: World,
) -> None:
    """And beyond it, until a purge comes: nothing is gained by forgetting it sooner."""
    gateway = world.gateways[0]
    for seconds in (RETENTION - 1, RETENTION + 1):
        event = fresh("edge")
        assert await told(gateway, event) == "first"
        await age(world, event, seconds)
        assert await told(gateway, event) == "duplicate"


async def test_a_header_that_speaks_of_a_retry_proves_nothing(world: World) -> None:
    """It may be the only copy that ever arrives."""
    event = fresh("retried")
    raw = sender.request(
        "/hooks/orders",
        f'{{"event_id": "{event}"}}'.encode(),
        headers=[("X-Slack-Retry-Num", "2"), ("Content-Type", "application/json")],
    )
    assert (await world.gateways[0].send(raw)).verdict == "first"
    assert world.attempts(event) == [(1, False)]


async def test_an_event_older_than_the_memory_is_stale_unless_its_claim_is_there(
    world: World,
) -> None:
    gateway, before = world.gateways[0], await world.gateways[0].scrape()
    now = await world.database.value("select extract(epoch from now())::float8")
    young, old = fresh("young"), fresh("old")
    for event, at, marked in (
        (young, now - RETENTION + 30, False),
        (old, now - RETENTION - 1, True),
    ):
        for verdict in ("first", "duplicate"):
            raw = sender.event(event, "/hooks/dated", at=at)
            assert (await gateway.send(raw)).verdict == verdict
        assert world.attempts(event) == [(1, marked)]
    after = await gateway.scrape()
    assert after.since(before, "dedup_stale_events_total", route="dated") == 1
