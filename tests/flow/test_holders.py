"""Holders that die, come late, or cannot tell the store how it ended."""

from __future__ import annotations

import asyncio

from gateway.core.answer import Answered, Busy, Duplicate, Rejected, Verdict
from gateway.core.claim import Ending, Settlement
from gateway.core.event import EventKey
from tests.flow.consumer import Gate, never, reply, says
from tests.flow.world import LEASE, MakeWorld, World, dies, forwarded


async def test_an_event_is_completed_before_its_provider_is_answered(world: World) -> None:
    gate, task = await world.forwarding(says(200))
    world.shop.settle_away = True
    gate.open()
    assert forwarded(await task).verdict is Verdict.FIRST  # answered all the same
    assert world.recorder.pending == 1
    world.shop.settle_away = False
    await world.settled()
    assert isinstance(await World(shop=world.shop).deliver(), Duplicate)


async def test_a_success_that_the_store_does_not_take_answers_duplicates_of_this_process_already(
    world: World,
) -> None:
    world.shop.settle_away = True
    world.consumer.answers(says(200, b"first"))
    await world.deliver()
    assert await world.deliver() == Answered(reply(200, b"first"), Verdict.DUPLICATE)
    assert len(world.consumer.received) == 1


async def test_a_dead_holder_blocks_retries_until_its_lease_lapses_then_the_next_is_marked(
    world: World,
) -> None:
    await dies(world)
    assert isinstance(await world.deliver(), Busy)
    world.wait(LEASE + 0.001)
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.counted["takeover"] == 1


async def test_a_claim_whose_making_stayed_unknown_is_given_back_unmarked(world: World) -> None:
    world.shop.replies_lost = 1
    assert isinstance(await world.deliver(), Rejected)
    assert world.consumer.received == []
    await world.settled()
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, False)


async def test_a_release_that_the_store_does_not_take_is_repeated(world: World) -> None:
    world.shop.settle_away = True
    world.consumer.answers(says(401), says(200))
    await world.deliver()
    assert isinstance(await world.deliver(), Busy)  # undecided as far as anybody knows
    world.shop.settle_away = False
    await world.settled()
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert not world.consumer.last.marked


async def test_a_zombies_release_changes_nothing_and_its_success_completes(
    world: World, make_world: MakeWorld
) -> None:
    zombie, successor = make_world(shop=world.shop), make_world(shop=world.shop)
    gate, task = await zombie.forwarding(says(200))
    world.wait(LEASE + 1)
    successor.consumer.answers(says(500))
    gate_2 = Gate(says(500))
    successor.consumer.answers(gate_2)
    second = successor.delivering()
    await gate_2.reached.wait()
    gate.open()
    await task
    assert zombie.counted["late_success"] == 1
    gate_2.open()
    await second  # its failure cannot demote the success
    assert isinstance(await world.deliver(), Duplicate)


async def test_a_cancelled_forward_leaves_doubt(world: World) -> None:
    world.consumer.answers(never, says(200))
    task = world.delivering()
    while not world.consumer.received:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)


async def test_nothing_is_sent_that_could_outlast_the_lease(world: World) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    await world.deliver()
    latest = world.consumer.last.send_before
    assert latest is not None
    assert before <= latest - (LEASE - 30) <= loop.time()


async def test_settlements_give_up_when_the_lease_is_over_but_successes_never(world: World) -> None:
    key = EventKey(b"k" * 16, "evt_1")
    world.shop.settle_away = True
    now = asyncio.get_running_loop().time()
    for ending in (Ending.RELEASE, Ending.COMPLETE):
        await world.recorder.record(Settlement(key, "orders", 1, 0, ending), now - 1)
    await asyncio.sleep(0.05)
    assert world.recorder.pending == 1
    assert await world.recorder.drain(0.01) == 1
    world.shop.settle_away = False
    assert await world.recorder.drain(2) == 0


async def test_the_holders_deadline_counts_from_before_its_claim_left(world: World) -> None:
    loop = asyncio.get_running_loop()
    world.shop.slowness, before = 0.2, loop.time()
    await world.deliver()
    latest = world.consumer.last.send_before
    assert latest is not None
    assert latest - (LEASE - 30) < before + world.shop.slowness
