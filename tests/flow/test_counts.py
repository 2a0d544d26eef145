"""What is counted of deliveries, once each."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.answer import Busy, Reason
from gateway.core.route import Mode
from gateway.flow.forward import Sender, patience
from gateway.flow.modes import wire
from gateway.flow.reach import Reach
from tests.flow.consumer import says
from tests.flow.world import ROUTE, MakeWorld, World, delivery, fingerprints_differ


async def test_another_body_is_counted_once_however_long_its_delivery_waits(
    world: World, make_world: MakeWorld
) -> None:
    other = make_world(shop=world.shop)
    gate, first = await world.forwarding(says(200))
    waiter = other.delivering(**fingerprints_differ())
    await asyncio.sleep(0.05)  # it has asked once, and asks again in time
    gate.open()
    await asyncio.gather(first, waiter)
    assert other.counted["mismatch"] == 1


async def test_another_body_is_counted_of_a_waiter_in_the_holders_process_too(world: World) -> None:
    gate, first = await world.forwarding(says(200))
    same, changed = world.delivering(), world.delivering(**fingerprints_differ())
    late = world.delivering(**fingerprints_differ())
    assert isinstance(await late, Busy)
    gate.open()
    await asyncio.gather(first, same, changed)
    assert world.counted["mismatch"] == 2


async def test_a_mark_that_an_old_event_got_stays_on_later_attempts_and_counts_once(
    world: World,
) -> None:
    old = world.shop.claims.now - 46 * 86400
    world.consumer.answers(says(401), says(200))
    for _ in range(2):
        await world.deliver("evt_old", at=old)
    assert [request.marked for request in world.consumer.received] == [True, True]
    assert world.counted["stale"] == 1


async def test_a_success_counts_as_a_possible_double_only_after_doubt(world: World) -> None:
    world.consumer.answers(says(401), says(200))
    await world.deliver(type="order.paid")
    await world.deliver(type="order.paid")
    assert world.counted["event", "order.paid"] == 1
    assert world.counted["possible_double"] == 0


async def test_a_refusal_for_want_of_the_store_is_a_rejection_and_no_delivery(world: World) -> None:
    world.shop.away = True
    await world.deliver()
    assert world.counted["rejection", Reason.STORE_AWAY] == 1
    assert not [name for name in world.counted.by if name[0] == "delivery"]


async def test_a_delivery_is_a_line_only_where_that_is_asked_for(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway")
    await world.deliver()
    assert [line.message for line in caplog.records] == ["delivery"]
    caplog.clear()
    reach = Reach(world.route, time.monotonic)
    sender = Sender(
        world.route, world.consumer, (), world.counted, time.monotonic, reach, None, time.time
    )
    shared = replace(world.shared, log_deliveries=False)
    quiet, _ = wire(world.route, sender, None, None, shared)
    await quiet.receive(delivery("evt_2"))
    assert not caplog.records


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, 1.4),
        ({"mode": Mode.OBSERVE}, 1.4),
        ({"acknowledge_after": 1.5}, 1.4),
        ({"acknowledge_after": 1.3}, float("inf")),
        ({"mode": Mode.INBOX}, float("inf")),
        ({"promise": None}, float("inf")),
    ],
)
def test_a_forward_is_slow_only_where_a_provider_waits_for_it(
    changes: dict[str, Any], waits: float
) -> None:
    assert patience(replace(ROUTE, **changes)) == waits
