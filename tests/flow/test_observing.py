"""What is noted in `observe`, and how it reaches the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.keying import Recipe
from gateway.core.location import Header, Json, Literal
from gateway.core.observing import DELIVERIES, What
from gateway.core.outcome import Ambiguous
from gateway.core.route import Mode
from gateway.flow import observing
from tests.flow.consumer import says
from tests.flow.world import MakeWorld, World, delivery, fingerprints_differ

BY_HEADER = Recipe((Literal("orders"),), (Header("X-Delivery"),))


async def noted(world: World) -> dict[tuple[What, str], int]:
    await world.settled()
    assert await world.observations.keep_once()
    return dict(world.notebook.sums)


def observing_world(make_world: MakeWorld, **changes: Any) -> World:
    return make_world(mode=Mode.OBSERVE, **changes)


async def by_header(world: World, delivery_id: str, **members: object) -> None:
    sent = delivery("evt_1", **members)
    named = sent._replace(headers=(*sent.headers, (b"X-Delivery", delivery_id.encode())))
    await world.receiver.receive(named)
    await world.settled()


async def test_each_delivery_is_noted_once_as_what_forward_would_have_made_of_it(
    make_world: MakeWorld,
) -> None:
    world = observing_world(make_world)
    world.consumer.answers(says(401), Ambiguous("timeout"), says(200), says(200), says(200))
    for _ in range(4):
        await world.deliver("evt_1")
        await world.settled()
    world.wait(4 * 86400)
    await world.deliver("evt_1")
    await world.deliver({"no": "id"})
    await world.receiver.receive(delivery("evt_1")._replace(method="GET"))
    assert await noted(world) == {
        (What.NEW, ""): 1,
        (What.BODY, ""): 1,
        (What.AGAIN, ""): 1,
        (What.AGAIN, "marked"): 1,
        (What.DURABLE, "retry"): 1,
        (What.DURABLE, "redrive"): 1,
        (What.TAKEN_AGAIN, ""): 2,
        (What.UNKEYED, "json:/event_id"): 1,
        (What.PASSED, ""): 1,
    }
