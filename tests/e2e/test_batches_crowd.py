"""More large batches at once than a process has time for: other routes go on all the while."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.rig import sender
from tests.rig.batches import batch, route, states
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

BATCHES, ITEMS = 40, 10_000
AS_BY_DEFAULT = {"timeout": "30s", "connect_timeout": "2s", "slot_timeout": "5s"}


async def test_large_batches_at_once_cost_other_routes_no_delivery(world: World) -> None:
    gateway = await world.gateway(
        world.file(route(world, "mail"), world.route("orders", upstream=AS_BY_DEFAULT))
    )
    names = [fresh("crowd") for _ in range(BATCHES)]
    firsts = [f"{name}_0" for name in names]
    bodies = [batch(name, *(f"{name}_{n}" for n in range(ITEMS))) for name in names]
    crowd = [asyncio.ensure_future(gateway.send(body)) for body in bodies]
    others = []
    while not all(sending.done() for sending in crowd):
        event = json.dumps({"event_id": fresh()}).encode()
        others.append((await gateway.send(sender.request("/hooks/orders", event))).status)
    replies = [await sending for sending in crowd]
    assert set(others) == {200}
    taken = [reply.status == 200 for reply in replies]
    refused = [reply for reply in replies if reply.status != 200]
    assert refused
    assert len(refused) < BATCHES
    assert {(reply.status, reply.header("Retry-After")) for reply in refused} == {(503, "5")}
    rejected = (await gateway.scrape()).total("dedup_rejected_total", reason="overloaded")
    assert rejected == len(refused)
    for first, is_taken in zip(firsts, taken, strict=True):
        if is_taken:
            await world.database.becomes(first, "completed")
        else:
            assert await states(world, first) == [None]
    assert (await gateway.send(bodies[taken.index(False)])).status == 200
