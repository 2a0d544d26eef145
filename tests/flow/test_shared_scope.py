"""Two routes with one scope: one memory, two ideas of what a provider wants to hear."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.answer import Answer, Answered, Duplicate, Verdict
from gateway.core.claim import Arrival, Ask
from gateway.core.outcome import Delivered, Refused, StatusPolicy
from gateway.core.retention import Shape
from gateway.core.route import DuplicateReply, FixedReply, ReplayReply, StandardReply
from tests.flow.consumer import reply
from tests.flow.world import ROUTE, World, delivery

ACCEPTED = FixedReply(200, "text/plain", b"[accepted]")


async def beside(world: World, **changes: Any) -> asyncio.Task[Answer]:
    """A copy on a second route of the scope, once the first is with its consumer."""
    second = world.receiving(replace(world.route, name="legacy", **changes))
    task = asyncio.create_task(second.receive(delivery()))
    while not any(flight.waiting for flight in [world.flights.find(key_of(world))] if flight):
        await asyncio.sleep(0)
    return task


def key_of(world: World) -> bytes:
    return next(iter(world.shop.claims.rows))


async def test_a_waiter_takes_the_first_ones_success_for_one_whatever_its_own_statuses(
    world: World,
) -> None:
    gate, first = await world.forwarding(Delivered(reply(409, b"known")))
    second = await beside(world)  # whose route does not take 409 for success
    gate.open()
    await first
    assert await second == Answered(reply(409, b"known"), Verdict.DUPLICATE)


async def test_a_waiter_takes_the_first_ones_refusal_for_none_of_its_own_successes(
    world: World,
) -> None:
    gate, first = await world.forwarding(Refused(reply(409, b"conflict"), doubtful=True))
    generous = StatusPolicy(ROUTE.status.success | {409}, ROUTE.status.refused_before_effect)
    second = await beside(world, status=generous)
    gate.open()
    await first
    assert await second == Answered(reply(409, b"conflict"), Verdict.BUSY)
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 0


@pytest.mark.parametrize("wanted", [ACCEPTED, ReplayReply(), StandardReply()])
async def test_each_routes_duplicates_hear_what_their_own_provider_wants(
    world: World, wanted: DuplicateReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.deliver()
    await world.replies.keep(World.key("evt_1"), reply(200, b"kept"))
    asking, go_on = asyncio.Event(), asyncio.Event()
    arrive = world.shop.claims.arrive

    async def slowly(ask: Ask, *, within: float) -> Arrival:
        asking.set()
        await go_on.wait()
        return await arrive(ask, within=within)

    monkeypatch.setattr(world.shop.claims, "arrive", slowly)
    first = world.delivering()
    await asking.wait()
    second = await beside(world, duplicate_reply=wanted)
    go_on.set()
    kept = reply(200, b"kept") if wanted == ReplayReply() else None
    assert await first == Duplicate(StandardReply(), None)
    assert await second == Duplicate(wanted, kept)
