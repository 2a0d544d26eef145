"""A slow consumer harms nobody but itself: no session of the store waits for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.case("B011")
async def test_no_session_is_held_while_a_hundred_forwards_wait(world: World) -> None:
    gateway = await world.gateway(world.file(world.route(upstream={"concurrency": 100})))
    done = [fresh("done") for _ in range(100)]
    await sender.volley([gateway.address], [sender.event(event) for event in done])
    slow, free = [fresh("slow") for _ in range(100)], asyncio.Event()
    for event in slow:
        world.consumer.script(event, Says(until=free))
    waiting = asyncio.create_task(
        sender.volley([gateway.address], [sender.event(event) for event in slow])
    )
    await eventually(
        lambda: all(world.consumer.requests(event) for event in slow), within=10, what="all wait"
    )

    async def at_rest() -> bool:
        return set(await world.database.sessions()) <= {"idle"}

    await eventually(at_rest, within=5, what="no busy session, no open transaction")
    began = time.monotonic()
    for event in done:
        assert (await world.deliver(event)).verdict == "duplicate"
    each = (time.monotonic() - began) / len(done)
    assert each < 0.1, f"{each * 1000:.1f} ms per duplicate"  # milliseconds, on a busy machine
    assert (await gateway.scrape()).total("dedup_store_up") == 1
    assert not waiting.done()
    free.set()
    assert {reply.verdict for reply in await waiting} == {"first"}


async def test_a_route_whose_slots_are_all_taken_harms_no_other_route(world: World) -> None:
    gateway = await world.gateway(
        world.file(world.route("narrow", upstream={"concurrency": 2}), world.route())
    )
    free, stuck = asyncio.Event(), [fresh("stuck") for _ in range(10)]
    for event in stuck:
        world.consumer.script(event, Says(until=free))
    waiting = [
        asyncio.create_task(gateway.send(sender.event(event, "/hooks/narrow"))) for event in stuck
    ]
    replies = [await gateway.send(sender.event(fresh())) for _ in range(20)]
    assert {reply.verdict for reply in replies} == {"first"}
    # Eight found no slot in time: nothing was sent, and nothing is doubtful.
    await eventually(lambda: sum(task.done() for task in waiting) == 8, within=15)
    unreached = [task.result() for task in waiting if task.done()]
    assert {reply.status for reply in unreached} <= {502, 504}
    assert all(reply.retry_after for reply in unreached)
    free.set()
    await asyncio.gather(*waiting)
    for event in stuck:
        assert (await gateway.send(sender.event(event, "/hooks/narrow"))).is_success
        assert len(world.consumer.effects(event)) == 1
        assert not world.consumer.effects(event)[0].marked
