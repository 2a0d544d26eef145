"""Clocks that jump: the store's, which leases go by, and a gateway's, which nothing goes by.

Their processes run under libfaketime; everybody else keeps the true time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.clock import Clock
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.postgres import Server
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = 3600
# Beyond every retention and horizon there is, both ways.
YEARS = 400_000_000


@pytest.fixture(scope="module")
def clocked() -> Iterator[tuple[Server, Clock]]:
    """A server and the clock that it goes by."""
    server = Server()
    try:
        clock = Clock(server.place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PG_BIN", str(clock.postgres(server.place)))
            server.start()
        yield server, clock
    finally:
        server.remove()


@pytest.fixture
def store_clock(clocked: tuple[Server, Clock]) -> Clock:
    """Right again before each test."""
    _, clock = clocked
    clock.is_wrong_by(0)
    return clock


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(clocked: tuple[Server, Clock]) -> str:
    server, _ = clocked
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World) -> AsyncIterator[list[Gateway]]:
    yield list(await asyncio.gather(world.gateway(), world.gateway()))


async def store_says(world: World) -> float:
    """By how many seconds the store's clock is wrong."""
    now: datetime = await world.database.value("select now()")
    return now.timestamp() - time.time()


@pytest.mark.row(70)
async def test_a_store_whose_clock_jumps_ahead_ends_leases_early_and_marks_what_follows(
    world: World, pair: list[Gateway], store_clock: Clock
) -> None:
    done, event, free = fresh("done"), fresh("ahead"), asyncio.Event()
    assert (await world.deliver(done)).verdict == "first"
    world.consumer.script(event, Says(until=free), Says())
    first = asyncio.create_task(world.deliver(event, pair[0]))
    await eventually(lambda: world.consumer.requests(event), within=5, what="in flight")
    store_clock.is_wrong_by(HOUR)
    assert await store_says(world) == pytest.approx(HOUR, abs=30)
    assert (await world.deliver(event, pair[1])).verdict == "first"
    free.set()
    assert (await first).status == 200
    assert world.attempts(event) == [(1, False), (2, True)]
    assert await world.database.claim(event) == Claim("completed", True, 2)
    for gateway in pair:
        assert (await world.deliver(done, gateway)).verdict == "duplicate"
        assert (await world.deliver(event, gateway)).verdict == "duplicate"
    assert (await world.deliver(fresh())).verdict == "first"


@pytest.mark.row(71)
async def test_a_store_whose_clock_jumps_back_only_delays(
    world: World, pair: list[Gateway], store_clock: Clock
) -> None:
    done, event = fresh("done"), fresh("back")
    assert (await world.deliver(done)).verdict == "first"
    dying = await world.gateway(failpoint="after_claim:kill")
    assert await dying.attempt(sender.event(event)) is None
    await dying.died()
    store_clock.is_wrong_by(-HOUR)
    assert await store_says(world) == pytest.approx(-HOUR, abs=30)
    busy = await world.deliver(event, pair[0])
    assert (busy.status, busy.verdict, busy.retry_after > 0) == (503, "busy", True)
    assert not world.consumer.requests(event)
    # What was completed in its future is completed, and what is new now is new.
    assert (await world.deliver(done, pair[1])).verdict == "duplicate"
    new = fresh("new")
    assert [(await world.deliver(new, one)).verdict for one in pair] == ["first", "duplicate"]
    store_clock.is_wrong_by(HOUR)
    assert (await world.deliver(event, pair[1])).verdict == "first"
    assert world.attempts(event) == [(2, True)]
    assert world.attempts(done) == world.attempts(new) == [(1, False)]


@pytest.mark.row(72)
async def test_the_wall_clock_of_a_gateway_decides_nothing(
    world: World, pair: list[Gateway], store_clock: Clock
) -> None:
    directory = world.directory / "clock"
    directory.mkdir()
    clock = Clock(directory)
    upstream = {"concurrency": 1, "timeout": "30s", "slot_timeout": "30s"}
    narrow = world.route("narrow", upstream=upstream)
    dated = world.route("dated", event_time="json:/occurred_at")
    file = world.file(world.route(), narrow, dated)
    jumpy = await world.gateway(file, env=clock.env)
    for error in (YEARS, -YEARS, 0):
        before = await jumpy.scrape()
        slow, queued, free = fresh("slow"), fresh("queued"), asyncio.Event()
        world.consumer.script(slow, Says(until=free))
        asked = [asyncio.create_task(world.deliver(slow, jumpy, path="/hooks/narrow"))]
        await eventually(partial(world.consumer.requests, slow), within=5, what="in flight")
        # Claimed, and waiting for the only slot: it will look at its deadline when it is sent.
        asked.append(asyncio.create_task(world.deliver(queued, jumpy, path="/hooks/narrow")))
        await world.database.becomes(queued, "claimed")
        clock.is_wrong_by(error)
        await decides_as_ever(world, jumpy, pair[0])
        free.set()
        assert [(await reply).status for reply in asked] == [200, 200]
        assert world.attempts(slow) == world.attempts(queued) == [(1, False)]
        after = await jumpy.scrape()
        assert 0 < after.since(before, "dedup_forward_duration_seconds_sum") < HOUR
    scrape = await jumpy.scrape()
    assert scrape.total("dedup_stale_events_total") == 0
    assert scrape.total("dedup_duplicates_total", shape="redrive") == 0
    assert scrape.total("dedup_takeovers_total") == 0
    clock.is_wrong_by(YEARS)
    await jumpy.stop()
    assert len({line["at"][:4] for line in jumpy.log()}) > 1  # years: it did have that clock


async def decides_as_ever(world: World, gateway: Gateway, other: Gateway) -> None:
    """First, duplicate, recent, doubtful: each as anywhere else."""
    event, failing, recent = fresh("wall"), fresh("wall"), int(time.time()) - HOUR
    world.consumer.script(failing, Says(status=500), Says())
    dated: dict[str, Any] = {"path": "/hooks/dated", "occurred_at": recent}
    assert (await world.deliver(event, gateway, **dated)).verdict == "first"
    assert (await world.deliver(event, gateway, **dated)).verdict == "duplicate"
    assert (await world.deliver(failing, gateway)).status == 500
    assert (await world.deliver(failing, other)).status == 200
    assert (await world.deliver(failing, gateway)).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]
    assert world.attempts(failing) == [(1, False), (2, True)]
