"""Clocks that jump: the store's, which leases go by, and a gateway's, which nothing goes by.

Their processes run under libfaketime; everybody else keeps the true time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial

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
    jumpy = await world.gateway(
        world.file(world.route(), world.route("dated", event_time="json:/occurred_at")),
        env=clock.env,
    )
    recent = int(time.time()) - HOUR
    before = await jumpy.scrape()
    for error in (YEARS, -YEARS, 0):
        event, failing, slow, free = fresh("wall"), fresh("wall"), fresh("wall"), asyncio.Event()
        world.consumer.script(failing, Says(status=500), Says())
        world.consumer.script(slow, Says(until=free))
        first = asyncio.create_task(world.deliver(slow, jumpy))
        await eventually(partial(world.consumer.requests, slow), within=5, what="sent")
        clock.is_wrong_by(error)
        waiter = asyncio.create_task(world.deliver(slow, jumpy))
        dated = await world.deliver(event, jumpy, path="/hooks/dated", occurred_at=recent)
        assert dated.verdict == "first"
        again = await world.deliver(event, jumpy, path="/hooks/dated", occurred_at=recent)
        assert again.verdict == "duplicate"
        assert (await world.deliver(failing, jumpy)).status == 500
        assert (await world.deliver(failing, pair[0])).status == 200
        free.set()
        assert [(await first).status, (await waiter).status] == [200, 200]
        assert (await world.deliver(slow, pair[0])).verdict == "duplicate"
        assert world.attempts(failing) == [(1, False), (2, True)]
        assert world.attempts(event) == world.attempts(slow) == [(1, False)]
    after = await jumpy.scrape()
    assert after.since(before, "dedup_stale_events_total") == 0
    assert after.since(before, "dedup_duplicates_total", shape="redrive") == 0
    assert after.since(before, "dedup_takeovers_total") == 0
    clock.is_wrong_by(YEARS)
    await jumpy.stop()
    years = {line["at"][:4] for line in jumpy.log()}
    assert len(years) > 1  # it did have that clock
