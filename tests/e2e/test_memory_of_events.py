"""How long an event is remembered, and what age does to it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The field case redrives 40,000; the rest of them is left to `make soak`.
REDRIVEN, REDRIVEN_IN_SOAK = 4_000, 40_000
LONG_AGO = "2019-01-01T00:00:00Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(
        world.file(
            world.route(),
            world.route("dated", event_time="json:/occurred_at"),
            world.route("hasty", upstream={"timeout": "500ms"}),
        )
    )


async def sweep(gateway: Gateway, events: list[str]) -> list[str | None]:
    """Deliver many events; the verdicts in the order of the events."""
    replies = await sender.sweep(gateway.address, [sender.event(event) for event in events])
    assert {reply.status for reply in replies} == {200}
    return [reply.verdict for reply in replies]


async def redrive(world: World, gateway: Gateway, count: int) -> None:
    stem = fresh("redriven")
    events = [f"{stem}_{number}" for number in range(count)]
    assert set(await sweep(gateway, events)) == {"first"}
    seen = len(world.consumer.received)
    # First readers of a page may set hint bits, which is a write: let that be over before.
    await world.database.execute("vacuum (freeze) dedup.claims")
    await world.database.execute("checkpoint")
    before = await gateway.scrape()
    written = [await wal_of_a_sweep(world, gateway, events)]
    while written[-1] >= count and len(written) < 3:  # autovacuum may have passed by
        written.append(await wal_of_a_sweep(world, gateway, events))
    print(written, "bytes of WAL")
    # Not a byte per duplicate: what the server writes by itself meanwhile is a few records.
    assert min(written) < count, f"{written} bytes of WAL for {count} duplicates"
    assert len(world.consumer.received) == seen
    after = await gateway.scrape()
    assert after.since(before, "dedup_duplicates_total", shape="retry") == count * len(written)


async def wal_of_a_sweep(world: World, gateway: Gateway, events: list[str]) -> int:
    """Bytes that the server writes to its log while all of these are delivered once more."""
    start = await world.database.value("select pg_current_wal_insert_lsn()")
    assert set(await sweep(gateway, events)) == {"duplicate"}
    end = "select pg_current_wal_insert_lsn() - $1::pg_lsn"
    return int(await world.database.value(end, start))


@pytest.mark.row(51)
async def test_a_redrive_of_completed_events_reaches_nobody_and_writes_nothing(
    world: World, gateway: Gateway
) -> None:
    await redrive(world, gateway, REDRIVEN)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.row(51)
async def test_a_redrive_of_forty_thousand_reaches_nobody_and_writes_nothing(
    world: World, gateway: Gateway
) -> None:
    await redrive(world, gateway, REDRIVEN_IN_SOAK)


@pytest.mark.row(52)
async def test_of_a_mixed_redrive_only_the_unprocessed_events_are_forwarded(
    world: World, gateway: Gateway
) -> None:
    stem = fresh("mixed")
    done = [f"{stem}_done_{number}" for number in range(300)]
    new = [f"{stem}_new_{number}" for number in range(100)]
    await sweep(gateway, done)
    mixed = [event for pair in zip(done, new * 3, strict=True) for event in pair]
    shuffled = sorted(set(mixed), key=lambda event: hash((event, sys.maxsize)))
    told = dict(zip(shuffled, await sweep(gateway, shuffled), strict=True))
    assert {told[event] for event in done} == {"duplicate"}
    assert {told[event] for event in new} == {"first"}
    assert all(len(world.consumer.requests(event)) == 1 for event in [*done, *new])


@pytest.mark.row(50)
async def test_an_event_whose_row_is_purged_is_new_and_marked_if_its_own_time_says_it_is_old(
    world: World, gateway: Gateway
) -> None:
    plain, old = fresh(), fresh()
    before = await gateway.scrape()
    await world.deliver(plain)
    await world.database.purge(plain)
    assert (await world.deliver(plain)).verdict == "first"
    assert world.attempts(plain) == [(1, False), (1, False)]
    await world.deliver(old, path="/hooks/dated", occurred_at=LONG_AGO)
    again = await world.deliver(old, path="/hooks/dated", occurred_at=LONG_AGO)
    assert again.verdict == "duplicate"
    assert world.attempts(old) == [(1, True)]
    after = await gateway.scrape()
    assert after.since(before, "dedup_stale_events_total", route="dated") == 1


@pytest.mark.row(50)
async def test_an_event_too_old_to_be_proved_new_stays_marked_on_its_next_attempt(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=503, headers=(("Retry-After", "1"),)), Says())
    await world.deliver(event, path="/hooks/dated", occurred_at=LONG_AGO)
    await world.deliver(event, path="/hooks/dated", occurred_at=LONG_AGO)
    assert world.attempts(event) == [(1, True), (2, True)]


# The same program under a wall clock that is wrong by years and jumps at every look.
JUMPING = """
import itertools, runpy, sys, time
wall, jumps = time.time, itertools.cycle((+4e8, -4e8, 0.0))
time.time = lambda: wall() + next(jumps)
sys.argv[0] = "gateway"
runpy.run_module("gateway", run_name="__main__")
"""


async def test_the_wall_clock_of_the_gateway_decides_nothing(
    world: World, gateway: Gateway
) -> None:
    jumpy = await world.gateway(
        world.file(world.route(), world.route("dated", event_time="json:/occurred_at")),
        command=(sys.executable, "-c", JUMPING),
    )
    event, failing = fresh(), fresh()
    world.consumer.script(failing, Says(status=500), Says())
    assert [(await world.deliver(event, jumpy)).verdict for _ in range(3)] == [
        "first",
        "duplicate",
        "duplicate",
    ]
    assert (await world.deliver(event, gateway)).verdict == "duplicate"
    assert (await world.deliver(failing, jumpy)).status == 500
    assert (await world.deliver(failing, jumpy)).status == 200
    assert world.attempts(failing) == [(1, False), (2, True)]
    scrape = await jumpy.scrape()
    assert scrape.total("dedup_stale_events_total") == 0
    assert scrape.total("dedup_duplicates_total", shape="redrive") == 0
    await jumpy.stop()
    assert json.dumps(jumpy.log())  # every line was an object all the same
