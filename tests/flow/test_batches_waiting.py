"""Batches that meet somebody on one of their items: nobody waits while holding."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from gateway.core.answer import Answered, Busy, Duplicate, Reason, Rejected, Verdict
from gateway.core.batch import key_of
from gateway.core.claim import Arrival, Ask, Ending, Settled, Settlement, State, StoreAway, Won
from gateway.core.event import Part
from gateway.core.outcome import Outcome
from gateway.core.retention import Shape
from tests.fakes import MemoryClaims
from tests.flow.batched import FILTER, WHOLE, bring, bringing, claim, end, hold, key, sent, states
from tests.flow.consumer import Gate, reply, says
from tests.flow.shop import Shop
from tests.flow.world import LEASE, MakeWorld, World, answered
from tests.rig.deadline import eventually

CLAIMED, RELEASED, COMPLETED = State.CLAIMED, State.RELEASED, State.COMPLETED


class Recording(Shop):
    """Knows what was settled."""

    def __init__(self, claims: MemoryClaims) -> None:
        super().__init__(claims)
        self.settled: list[Settlement] = []

    async def settle(self, settlement: Settlement) -> Settled:
        self.settled.append(settlement)
        return await super().settle(settlement)


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(batch=FILTER, promise=None)  # five seconds of waiting


async def test_the_same_batch_many_times_at_once_is_forwarded_once(world: World) -> None:
    gate = Gate(says(200, b"taken"))
    world.consumer.answers(gate)
    tasks = [bringing(world, *names) for names in (["a", "b"], ["b", "a"]) * 10]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert {answered(answer).reply for answer in answers} == {reply(200, b"taken")}
    assert sent(world) == [["a", "b"]]
    assert world.counted["items", Verdict.DUPLICATE] == 2 * 19
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 19


async def test_while_a_batch_waits_it_holds_nothing(world: World) -> None:
    token = await hold(world, "b")
    waiting = bringing(world, "a", "b", "c")
    await eventually(
        lambda: states(world, "a", "b", "c") == [RELEASED, CLAIMED, RELEASED], within=4
    )
    assert answered(await bring(world, "a")).verdict is Verdict.FIRST
    await end(world, token, Ending.COMPLETE, "b")
    assert answered(await waiting).verdict is Verdict.FIRST
    assert sent(world)[-1] == ["c"]
    assert not world.consumer.last.marked


async def test_a_give_back_that_comes_once_more_frees_nothing_that_was_won_after_it(
    make_world: MakeWorld,
) -> None:
    """Its connection broke, so it was sent again; and then the first one came through, late."""
    shop = Recording(MemoryClaims())
    world = make_world(batch=FILTER, promise=None, shop=shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    token = await hold(world, "b")
    waiting = bringing(world, "a", "b")
    await eventually(lambda: shop.settled, within=4)
    await end(world, token, Ending.RELEASE, "b")
    await gate.reached.wait()
    for late in list(shop.settled):
        await shop.claims.settle(late)
    assert states(world, "a", "b") == [CLAIMED, CLAIMED]
    gate.open()
    assert answered(await waiting).verdict is Verdict.FIRST


async def test_a_batch_that_waits_asks_for_what_was_busy_and_leaves_the_rest_alone(
    world: World,
) -> None:
    token = await hold(world, "b")
    waiting = bringing(world, "a", "b")
    await eventually(lambda: world.shop.claims.asked >= 4, within=4)
    assert (claim(world, "a").attempt, claim(world, "a").state) == (1, RELEASED)
    await end(world, token, Ending.RELEASE, "b")
    await waiting
    assert sent(world) == [["a", "b"]]
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, False)


async def test_what_was_won_is_given_back_without_doubt_when_the_wait_is_over(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER)
    token = await hold(world, "b")
    assert isinstance(await bring(world, "a", "b", {"n": 1}), Busy)
    assert sent(world) == []
    assert (claim(world, "a").state, claim(world, "a").doubtful) == (RELEASED, False)
    assert world.counted["items", Verdict.BUSY] == 2
    assert world.counted["items", Verdict.UNKEYED] == 1
    await end(world, token, Ending.COMPLETE, "b")
    await bring(world, "a", "b")
    assert sent(world) == [["a"]]


async def test_a_duplicate_that_waited_for_one_item_is_a_concurrent_one(world: World) -> None:
    await bring(world, "a")
    token = await hold(world, "b")
    waiting = bringing(world, "a", "b")
    await eventually(lambda: world.shop.claims.asked >= 3, within=4)
    await end(world, token, Ending.COMPLETE, "b")
    assert isinstance(await waiting, Duplicate)
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 1
    assert sent(world) == [["a"]]


async def test_a_lease_that_lapses_meanwhile_is_taken_over_and_marks_the_batch(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, promise=None)
    await hold(world, "b")
    waiting = bringing(world, "a", "b")
    await eventually(lambda: states(world, "a") == [RELEASED], within=4)
    world.wait(LEASE + 1)
    await waiting
    assert sent(world) == [["a", "b"]]
    assert world.consumer.last.marked
    assert world.counted["takeover"] == 1


async def test_what_cannot_be_given_back_at_once_is_given_back_later(world: World) -> None:
    await hold(world, "b")
    world.shop.settle_away = True
    refused = await bring(world, "a", "b")
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.STORE_AWAY
    assert states(world, "a") == [CLAIMED]
    world.shop.settle_away = False
    await eventually(lambda: states(world, "a") == [RELEASED], within=4)
    assert not claim(world, "a").doubtful


class Flickering(Shop):
    """A store that is away for the whole of a batch once it has been asked for a part of it."""

    was_asked_for_less = False

    async def arrive_all(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        if self.was_asked_for_less and len(asks) > 1:
            raise StoreAway("away")
        arrivals = await super().arrive_all(asks, within=within)
        self.was_asked_for_less = isinstance(arrivals[0], Won) and len(asks) == 1
        return arrivals


async def test_what_was_busy_and_then_won_is_given_back_when_the_store_goes_away(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, promise=None, shop=Flickering(MemoryClaims()))
    token = await hold(world, "b")
    waiting = bringing(world, "a", "b")
    await eventually(lambda: states(world, "a") == [RELEASED], within=4)
    await end(world, token, Ending.RELEASE, "b")
    assert isinstance(await waiting, Rejected)
    await eventually(lambda: states(world, "a", "b") == [RELEASED] * 2, within=4)
    assert not claim(world, "b").doubtful


async def test_an_item_that_is_won_after_the_others_were_given_back_is_given_back_too(
    world: World,
) -> None:
    token = await hold(world, "a")
    parts = (Part(key("a"), 0), Part(key("b"), 0))
    lost = Settlement(key_of(parts), "orders", token, 0, Ending.RELEASE, parts)
    world.recorder.withdraw(lost, lease_end=world.clock() + LEASE)
    await eventually(lambda: states(world, "a") == [RELEASED], within=4)
    await world.shop.claims.arrive(Ask(key("b"), "orders", token, LEASE, 0), within=1)
    await eventually(lambda: states(world, "b") == [RELEASED], within=4)
    assert not claim(world, "b").doubtful
    world.pass_by(LEASE)
    await world.settled()
    assert world.recorder.pending == 0


async def test_batches_that_differ_in_what_has_no_id_never_stand_in_for_each_other(
    world: World,
) -> None:
    gate = Gate(says(200))
    world.consumer.answers(gate, says(200))
    first = bringing(world, "a", {"n": 1})
    await gate.reached.wait()
    second = bringing(world, "a", {"n": 2})
    await asyncio.sleep(0.05)
    gate.open()
    assert answered(await first).verdict is Verdict.FIRST
    assert answered(await second).verdict is Verdict.UNKEYED
    assert [request.body for request in world.consumer.received][1] == b'[{"n": 2}]'


async def takes_a_moment() -> Outcome:
    await asyncio.sleep(0.005)
    return says(200)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.row(110)
async def test_batches_that_overlap_all_come_through_and_no_item_twice(
    make_world: MakeWorld, size: int
) -> None:
    dice = random.Random(110)
    shop = Shop(MemoryClaims())
    processes = [make_world(batch=FILTER, promise=None, shop=shop) for _ in range(3)]
    for process in processes:
        process.jitter = dice.random
        process.consumer.answers(takes_a_moment)
    for turn in range(25):
        ring = [f"{turn}-{name}" for name in "abc"]
        batches = [[ring[(n + k) % 3] for k in range(size)] for n in range(3)]
        answers = await asyncio.gather(
            *(bring(world, *names) for world, names in zip(processes, batches, strict=True))
        )
        assert all(isinstance(answer, Answered | Duplicate) for answer in answers)
        delivered = [name for world in processes for names in sent(world) for name in names]
        assert sorted(delivered) == sorted(set(delivered))
        assert set(ring) <= set(delivered)
        assert states(processes[0], *ring) == [COMPLETED] * 3
    assert not any(r.marked for world in processes for r in world.consumer.received)


async def test_whole_batches_that_overlap_lose_nothing_and_mark_what_is_twice(
    make_world: MakeWorld,
) -> None:
    first = make_world(batch=WHOLE, promise=None)
    second = make_world(batch=WHOLE, promise=None, shop=first.shop)
    for world in (first, second):
        world.consumer.answers(takes_a_moment)
    for turn in range(25):
        names = [f"{turn}-{name}" for name in "abc"]
        await asyncio.gather(bring(first, *names[:2]), bring(second, *names[1:]))
        requests = [world.consumer.last for world in (first, second)]
        assert [request.marked for request in requests].count(False) == 1
        assert states(first, *names) == [COMPLETED] * 3
