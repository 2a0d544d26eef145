"""What is counted of deliveries, once each."""

from __future__ import annotations

import asyncio

from gateway.core.answer import Busy
from tests.flow.world import Gate, World, fingerprints_differ, says


async def test_another_body_is_counted_once_however_long_its_delivery_waits(world, make_world):
    other = make_world(shop=world.shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    waiter = other.delivering(**fingerprints_differ())
    await asyncio.sleep(0.05)  # it has asked once, and asks again in time
    gate.open()
    await asyncio.gather(first, waiter)
    assert other.counted["mismatch"] == 1


async def test_another_body_is_counted_of_a_waiter_in_the_holders_process_too(world: World):
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    same, changed = world.delivering(), world.delivering(**fingerprints_differ())
    late = world.delivering(**fingerprints_differ())
    assert isinstance(await late, Busy)
    gate.open()
    await asyncio.gather(first, same, changed)
    assert world.counted["mismatch"] == 2
