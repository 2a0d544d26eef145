"""Requests that are under way when a reload takes their route away."""

from __future__ import annotations

import asyncio

from gateway.core.answer import Answered, Reason, Rejected
from gateway.core.route import Mode
from gateway.flow.deliverers import Deliverers
from tests.flow.consumer import Gate, says
from tests.flow.told import SEEN, STORED
from tests.flow.world import MakeWorld, World


def take_away(world: World) -> None:
    """The route is not configured any more; its receiver ends what it began."""
    deliverers = Deliverers(world.shared)
    deliverers.use([world.deliverer])
    deliverers.use([])


async def test_nothing_is_acknowledged_for_a_route_that_nobody_delivers_for(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX)
    assert await world.deliver("evt_1") == STORED
    await world.settled()
    take_away(world)
    answer = await world.deliver("evt_2")
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (503, Reason.INBOX_FULL)
    assert World.key("evt_2").digest not in world.shop.claims.entries
    assert await world.deliver("evt_1") == SEEN


async def test_a_slow_forward_of_such_a_route_is_waited_for(make_world: MakeWorld) -> None:
    world, gate = make_world(acknowledge_after=0.1), Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    take_away(world)
    done, _ = await asyncio.wait({first}, timeout=0.2)
    assert not done
    gate.open()
    assert isinstance(await first, Answered)
    assert world.shop.claims.entries == {}
