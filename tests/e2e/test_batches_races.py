"""Batches at once: many copies, and batches that overlap, at two gateways on one store."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.batches import batch, route, states, taken
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 8
# Longer than eleven takes: what is looked at is who comes through, not how soon.
PROMISE = {"timeout": "30s", "retry_horizon": "1h", "redrive_window": "1h"}
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(world: World) -> AsyncIterator[list[Gateway]]:
    file = world.file(
        route(world, "mail", promise=PROMISE),
        route(world, "whole", promise=PROMISE, on_mixed="whole"),
        route(world, "inbox", promise=PROMISE, mode="inbox", retry=RETRY),
    )
    yield [await world.gateway(file) for _ in range(2)]


async def volley(gateways: list[Gateway], raws: list[bytes]) -> list[sender.Reply]:
    return await sender.volley([gateway.address for gateway in gateways], raws, within=60)


@pytest.mark.row(110)
@pytest.mark.parametrize("path", ["mail", "inbox"])
async def test_copies_of_one_batch_are_forwarded_once(
    world: World, gateways: list[Gateway], path: str
) -> None:
    for _ in range(ROUNDS):
        name, items = fresh("copy"), [fresh("i") for _ in range(5)]
        world.consumer.script(name, Says(delay=0.02))
        raws = [
            batch(name, *random.sample(items, len(items)), path=f"/hooks/{path}") for _ in range(12)
        ]
        replies = await volley(gateways, raws)
        assert Counter(reply.verdict for reply in replies) == {"first": 1, "duplicate": 11}
        await world.database.becomes(items[0], "completed")
        assert len(taken(world, name)) == 1
        assert await states(world, *items) == ["completed"] * 5


@pytest.mark.row(110)
@pytest.mark.parametrize("path", ["mail", "inbox"])
async def test_batches_that_overlap_all_come_through_and_no_item_twice(
    world: World, gateways: list[Gateway], path: str
) -> None:
    for _ in range(ROUNDS):
        items = [fresh("i") for _ in range(6)]
        pairs = [list(pair) for pair in itertools.permutations(items, 2)]
        chosen = [*random.sample(pairs, 10), items]
        names = [fresh("overlap") for _ in chosen]
        for name in names:
            world.consumer.script(name, Says(delay=0.01))
        raws = [
            batch(n, *some, path=f"/hooks/{path}") for n, some in zip(names, chosen, strict=True)
        ]
        replies = await volley(gateways, raws)
        assert {reply.status for reply in replies} == {200}
        for item in items:
            await world.database.becomes(item, "completed")
        delivered = [item for request in taken(world, *names) for item in request]
        assert sorted(delivered) == sorted(items)
        requests = [request for name in names for request in world.consumer.requests(name)]
        assert not any(request.marked for request in requests)


async def test_overlapping_batches_and_a_failing_consumer_leave_nothing_undone_or_unmarked(
    world: World, gateways: list[Gateway]
) -> None:
    for _ in range(ROUNDS):
        items = [fresh("i") for _ in range(3)]
        ring = [[items[n], items[(n + 1) % 3]] for n in range(3)]
        names = [fresh("ring") for _ in ring]
        for name in names:
            world.consumer.script(name, Says(status=500, acts="before"), Says())

        async def insist(name: str, some: list[str], gateway: Gateway) -> None:
            while not (await gateway.send(batch(name, *some))).is_success:
                pass

        await asyncio.gather(
            *(
                insist(name, some, gateways[n % 2])
                for n, (name, some) in enumerate(zip(names, ring, strict=True))
            )
        )
        assert await states(world, *items) == ["completed"] * 3
        unmarked = Counter(
            item
            for name in names
            for request, some in zip(world.consumer.requests(name), taken(world, name), strict=True)
            if not request.marked
            for item in some
        )
        assert max(unmarked.values(), default=0) <= 1


async def test_whole_batches_that_overlap_are_marked_where_something_is_twice(
    world: World, gateways: list[Gateway]
) -> None:
    for _ in range(ROUNDS):
        a, b, c = (fresh(stem) for stem in "abc")
        names = [fresh("whole"), fresh("whole")]
        raws = [
            batch(n, *some, path="/hooks/whole")
            for n, some in zip(names, ([a, b], [b, c]), strict=True)
        ]
        await volley(gateways, raws)
        marked = [request.marked for name in names for request in world.consumer.requests(name)]
        assert sorted(marked) == [False, True]
        assert await states(world, a, b, c) == ["completed"] * 3
