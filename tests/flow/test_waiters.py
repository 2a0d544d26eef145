"""Copies that arrive while the first is undecided: how long they wait, and what they are told."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Answered, Busy, Duplicate, Verdict
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.retention import Shape
from tests.flow.consumer import Gate, reply, says
from tests.flow.world import MakeWorld, World, answered, dies, forwarded
from tests.rig.deadline import eventually


async def test_concurrent_doubles_mirror_the_first_ones_success(world: World) -> None:
    gate = Gate(says(200, b"shipped"))
    world.consumer.answers(gate)
    tasks = [world.delivering() for _ in range(20)]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert len(world.consumer.received) == 1
    assert {answered(answer).reply for answer in answers} == {reply(200, b"shipped")}
    assert world.counted["delivery", Verdict.DUPLICATE] == 19
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 19


@pytest.mark.parametrize("failure", [says(500, b"oops"), Ambiguous("reset"), Unreached("refused")])
async def test_concurrent_doubles_mirror_a_failure_that_says_nothing_about_their_bytes(
    world: World, failure: Outcome
) -> None:
    gate = Gate(failure)
    world.consumer.answers(gate)
    tasks = [world.delivering() for _ in range(5)]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert len(world.consumer.received) == 1
    assert [forwarded(a).verdict for a in answers] == [Verdict.FIRST] + [Verdict.BUSY] * 4


async def test_a_genuine_copy_is_not_told_what_a_forged_one_was(world: World) -> None:
    gate, forged = await world.forwarding(says(401, b"bad signature"), says(200, b"welcome"))
    genuine = world.delivering()
    gate.open()
    assert answered(await forged).reply.status == 401
    assert (await genuine) == Answered(reply(200, b"welcome"), Verdict.FIRST)
    assert not world.consumer.last.marked


async def test_a_waiter_gives_up_in_time_to_answer_its_provider(world: World) -> None:
    gate, first = await world.forwarding(says(200))
    assert isinstance(await world.deliver(), Busy)
    assert world.counted["delivery", Verdict.BUSY] == 1
    gate.open()
    await first


async def test_a_storm_of_waiters_is_bounded(make_world: MakeWorld) -> None:
    world = make_world(promise=None)  # five seconds of waiting: a busy machine takes its time here
    gate, first = await world.forwarding(says(200))
    storm = [world.delivering() for _ in range(400)]
    await eventually(lambda: sum(task.done() for task in storm) >= 400 - 256, within=4)
    assert all(isinstance(task.result(), Busy) for task in storm if task.done())
    gate.open()
    answers = await asyncio.gather(first, *storm)
    assert sum(isinstance(answer, Busy) for answer in answers) == 400 - 256
    assert len(world.consumer.received) == 1


async def test_a_waiter_in_another_process_sees_the_holder_complete(
    world: World, make_world: MakeWorld
) -> None:
    other = make_world(shop=world.shop)
    gate, first = await world.forwarding(says(200))
    waiter = other.delivering()
    await asyncio.sleep(0.05)
    gate.open()
    await first
    assert isinstance(await waiter, Duplicate)
    assert other.consumer.received == []
    assert other.counted["duplicate", None, Shape.CONCURRENT] == 1


async def test_a_waiter_in_another_process_takes_what_the_holder_released(
    world: World, make_world: MakeWorld
) -> None:
    other = make_world(shop=world.shop)
    gate, first = await world.forwarding(says(500))
    waiter = other.delivering()
    await asyncio.sleep(0.05)
    gate.open()
    await first
    assert forwarded(await waiter).verdict is Verdict.FIRST
    assert (other.consumer.last.attempt, other.consumer.last.marked) == (2, True)


async def test_only_one_of_many_waiters_of_a_process_asks_the_store(
    world: World, make_world: MakeWorld
) -> None:
    other = make_world(shop=world.shop)
    gate, first = await world.forwarding(says(200))
    before = world.shop.claims.asked
    waiters = [other.delivering() for _ in range(50)]
    await asyncio.sleep(0.15)
    assert world.shop.claims.asked - before <= 3
    gate.open()
    await asyncio.gather(first, *waiters)
    assert other.consumer.received == []


async def test_a_waiter_asks_the_store_less_and_less_often(make_world: MakeWorld) -> None:
    world = make_world(promise=None)  # five seconds of waiting
    await dies(world)
    before = world.shop.claims.asked
    waiter = world.delivering()
    await asyncio.sleep(1.2)
    assert 4 <= world.shop.claims.asked - before <= 6
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
