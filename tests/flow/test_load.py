"""Batches that are too many at one time, for those of their own route and of others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import orjson
import pytest

from gateway.core.answer import Answered, Reason, Verdict
from gateway.core.claim import State
from gateway.core.observing import What
from gateway.core.route import Mode
from gateway.flow.load import LIGHT, MOST, MOST_OF_A_ROUTE, Load
from gateway.flow.weighed import CROWDED
from tests.flow.batched import FILTER, bring, bringing, sent, states
from tests.flow.consumer import Gate, says
from tests.flow.told import STORED
from tests.flow.world import MakeWorld, World, answered

LARGE = tuple(f"evt_{n}" for n in range(LIGHT + 1))
SMALL = LARGE[:-1]


def beside(world: World) -> tuple[Coroutine[Any, Any, None], set[int]]:
    """Other work until four requests were sent, and in which of its turns something was read."""
    turns, read_in = 0, set()

    async def others() -> None:
        nonlocal turns
        while len(sent(world)) < 4:
            turns += 1
            await asyncio.sleep(0)

    def noting(body: bytes) -> object:
        read_in.add(turns)
        return orjson.loads(body)

    world.parse = noting
    return others(), read_in


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_a_batch_beyond_the_load_is_refused_before_it_is_read(
    make_world: MakeWorld, mode: Mode
) -> None:
    world = make_world(batch=FILTER, mode=mode)
    world.load.take("orders", MOST_OF_A_ROUTE - LIGHT)
    assert await bring(world, *LARGE) == CROWDED
    assert CROWDED.status == 503
    assert CROWDED.retry_after
    assert world.counted["rejection", Reason.OVERLOADED] == 1
    assert states(world, *LARGE) == [None] * len(LARGE)
    assert sent(world) == []


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_routes_only_batch_comes_in_whatever_others_have_in_hand(
    make_world: MakeWorld, mode: Mode
) -> None:
    world = make_world(batch=FILTER, mode=mode)
    world.load.take("other", MOST)
    answer = await bring(world, *LARGE)
    assert answer == STORED if mode is Mode.INBOX else isinstance(answer, Answered)
    await world.settled()
    assert set(states(world, *LARGE)) <= {State.COMPLETED, State.STORED}
    assert world.load.taken == MOST


async def test_a_small_batch_is_never_refused(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER)
    world.load.take("orders", MOST)
    assert isinstance(await bring(world, *SMALL), Answered)


async def test_a_batch_is_in_hand_until_it_is_answered(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = bringing(world, *LARGE)
    await gate.reached.wait()
    assert world.load.taken == len(LARGE)
    gate.open()
    await first
    assert world.load.taken == 0
    world.consumer.answers(gate := Gate(says(200)))
    other = bringing(world, *(f"{event_id}_b" for event_id in LARGE))
    await gate.reached.wait()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert world.load.taken == 0


async def test_observe_forwards_what_is_too_much_and_claims_nothing(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER, mode=Mode.OBSERVE)
    world.load.take("orders", MOST)
    answer = answered(await bring(world, *LARGE))
    assert (answer.verdict, answer.visible) == (Verdict.BYPASSED, False)
    assert sent(world) == [list(LARGE)]
    assert world.counted["delivery", Verdict.BYPASSED] == 1
    assert states(world, *LARGE) == [None] * len(LARGE)
    assert (await world.noted())[What.BYPASSED, ""] == 1


async def test_large_batches_that_come_together_let_others_have_their_turn_between_two(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER)
    others, read_in = beside(world)
    batches = [bring(world, *(f"{event_id}_{n}" for event_id in LARGE)) for n in range(4)]
    await asyncio.gather(others, *batches)
    assert len(read_in) == 4


async def test_a_backlog_of_batches_lets_others_have_their_turn_between_two(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, mode=Mode.INBOX)
    world.shop.leases_away = True
    for name in "abcd":
        await bring(world, name)
    await world.settled()
    world.shop.leases_away = False
    others, read_in = beside(world)
    await asyncio.gather(others, world.work())
    assert len(read_in) == 4


def test_no_route_takes_the_room_of_the_others() -> None:
    load = Load()
    taken = [load.take("greedy", MOST // 10) for _ in range(10)]
    assert taken == [True] * 5 + [False] * 5
    assert load.take("other", MOST // 10)
    assert load.take("other", MOST // 10)
    load.give_back("greedy", MOST // 10)
    assert load.take("greedy", MOST // 10)
