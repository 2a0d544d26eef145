"""What is under way of an inbox is in memory, and that is bounded too, whatever is owed."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE, LARGE_BODY = 40, 16 * 2**20
# The whole inbox is 640 MiB.
LIMIT = 400 * 2**20


@pytest.mark.timeout(240)
async def test_large_events_that_a_slow_consumer_holds_up_cost_bounded_memory(
    world: World,
) -> None:
    world.consumer.keeps_up_to, go_on = 4096, asyncio.Event()
    upstream = {"timeout": "60s", "connect_timeout": "10s", "slot_timeout": "60s"}
    route = world.route("big", mode="inbox", upstream=upstream, event_id="header:X-Rig")
    gateway = await world.gateway(world.file(route, world.route("small", mode="inbox")))
    body, events = os.urandom(LARGE_BODY), [fresh("large") for _ in range(LARGE)]
    for event in events:
        world.consumer.script(event, Says(until=go_on))
        raw = sender.request("/hooks/big", body, headers=[("X-Rig", event)])
        reply = await gateway.send(raw, within=60)
        assert reply.is_success
    peak = gateway.peak_rss()
    print(f"{peak / 2**20:.0f} MiB at the peak")
    assert peak < LIMIT, f"{peak / 2**20:.0f} MiB"
