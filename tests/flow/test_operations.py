"""Operation keys: two events that would start one operation twice have one claim (D9)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.answer import Duplicate, Verdict
from gateway.core.keying import Recipe
from gateway.core.location import Json, Literal
from gateway.core.outcome import Ambiguous
from gateway.core.retention import Shape
from gateway.core.route import Mode
from gateway.core.signature import Signature
from tests.flow.consumer import Gate, says
from tests.flow.world import ROUTE, MakeWorld, World, answered, fingerprints_differ, forwarded
from tests.rig.deadline import eventually

BY_ORDER = replace(ROUTE.recipe, operation=(Literal("ticket"), Json(("order",))))
OPERATION, CONCURRENT, RETRY = Shape.OPERATION, Shape.CONCURRENT, Shape.RETRY


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(recipe=BY_ORDER, promise=None)


def shapes(world: World) -> dict[Shape, int]:
    counted = ((shape, world.counted["duplicate", None, shape]) for shape in Shape)
    return {shape: number for shape, number in counted if number}


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_another_event_of_the_operation_is_a_duplicate_of_its_own_shape(
    make_world: MakeWorld, mode: Mode
) -> None:
    world = make_world(recipe=BY_ORDER, mode=mode)
    await world.deliver("evt_1", order=7)
    await world.settled()
    assert isinstance(await world.deliver("evt_2", order="7"), Duplicate)
    assert shapes(world) == {OPERATION: 1}
    assert isinstance(await world.deliver("evt_1", order=7), Duplicate)
    assert shapes(world) == {OPERATION: 1, RETRY: 1}
    assert len(world.consumer.received) == 1
    await world.deliver("evt_1", order=8)
    await world.settled()
    assert len(world.consumer.received) == 2


async def test_the_consumer_is_told_the_event_and_a_key_of_the_operation(
    make_world: MakeWorld,
) -> None:
    world = make_world(recipe=BY_ORDER, idempotency_key=True)
    world.consumer.answers(says(500), says(200))
    await world.deliver("evt_1", order=7)
    await world.deliver("evt_2", order=7)
    first, second = world.consumer.received
    assert [one.header("Dedup-Event-Id") for one in (first, second)] == ["evt_1", "evt_2"]
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert len(first.header("Idempotency-Key") or "") == 32
    assert second.marked


async def test_other_bytes_are_a_mismatch_of_one_event_and_not_of_an_operation(
    world: World,
) -> None:
    await world.deliver("evt_1", order=7)
    for n in range(5):
        await world.deliver("evt_2", order=7, n=n)
    assert world.counted["mismatch"] == 0
    await world.deliver("evt_1", order=7, **fingerprints_differ())
    await world.deliver("evt_1", order=7, x=1)
    assert world.counted["mismatch"] >= 1


async def test_in_flight_it_mirrors_the_first_events_result_and_counts_as_an_operation(
    world: World,
) -> None:
    gate = Gate(says(200, b"done"))
    world.consumer.answers(gate)
    first = world.delivering("evt_1", order=7)
    await gate.reached.wait()
    again, other = world.delivering("evt_1", order=7), world.delivering("evt_2", order=7)
    await asyncio.sleep(0.01)
    gate.open()
    told = await asyncio.gather(first, again, other)
    assert {answered(answer).reply.body for answer in told} == {b"done"}
    assert shapes(world) == {CONCURRENT: 1, OPERATION: 1}
    assert world.counted["mismatch"] == 0
    assert len(world.consumer.received) == 1


async def test_a_waiter_elsewhere_counts_as_an_operation_too(
    world: World, make_world: MakeWorld
) -> None:
    elsewhere = make_world(recipe=BY_ORDER, promise=None, shop=world.shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering("evt_1", order=7)
    await gate.reached.wait()
    before = world.shop.claims.asked
    ids = ("evt_2", "evt_1", "evt_2")
    waiters = [elsewhere.delivering(event_id, order=7) for event_id in ids]
    await eventually(lambda: world.shop.claims.asked > before, within=4)
    gate.open()
    await asyncio.gather(first, *waiters)
    assert elsewhere.consumer.received == []
    assert sum(shapes(elsewhere).values()) == 3
    assert shapes(elsewhere)[OPERATION] == 2


async def test_after_doubt_the_next_event_of_the_operation_is_marked(world: World) -> None:
    world.consumer.answers(Ambiguous("timeout"), says(200))
    await world.deliver("evt_1", order=7)
    assert forwarded(await world.deliver("evt_2", order=7)).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)


async def test_an_observer_counts_operations_and_forwards_them(make_world: MakeWorld) -> None:
    world = make_world(recipe=BY_ORDER, mode=Mode.OBSERVE)
    gate = Gate(says(200))
    world.consumer.answers(gate, says(200))
    first = world.delivering("evt_1", order=7)
    await gate.reached.wait()
    await world.deliver("evt_2", order=7)
    gate.open()
    await first
    await world.settled()
    await world.deliver("evt_3", order=7)
    assert shapes(world) == {OPERATION: 2}
    assert len(world.consumer.received) == 3


async def test_an_event_that_lacks_a_part_of_the_operation_goes_by_its_id(world: World) -> None:
    await world.deliver("evt_1")
    assert isinstance(await world.deliver("evt_1"), Duplicate)
    await world.deliver("evt_2")
    assert [one.header("Dedup-Event-Id") for one in world.consumer.received] == ["evt_1", "evt_2"]
    assert shapes(world) == {RETRY: 1}


async def test_an_id_is_never_taken_for_an_operation_of_the_same_text(
    make_world: MakeWorld,
) -> None:
    world = make_world(recipe=replace(ROUTE.recipe, operation=(Json(("order",)),)), promise=None)
    await world.deliver("evt_1", order="evt_2")
    await world.deliver("evt_2")
    assert len(world.consumer.received) == 2


async def test_an_event_without_an_id_goes_by_its_operation(make_world: MakeWorld) -> None:
    world = make_world(recipe=Recipe(BY_ORDER.scope, (), BY_ORDER.operation))
    await world.deliver("evt_1", order=7)
    assert world.consumer.last.header("Dedup-Event-Id") == "ticket%2C7"
    assert isinstance(await world.deliver("evt_2", order=7), Duplicate)
    assert forwarded(await world.deliver("evt_2")).verdict is Verdict.UNKEYED


async def test_a_line_says_which_shape_a_duplicate_had(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="gateway.deliveries"):
        for event_id in ("evt_1", "evt_1", "evt_2"):
            await world.deliver(event_id, order=7)
    lines = [record for record in caplog.records if record.message == "delivery"]
    assert [vars(line).get("shape") for line in lines] == [None, "retry", "operation"]
    assert [vars(line)["event_id"] for line in lines] == ["evt_1", "evt_1", "evt_2"]


async def test_a_waiter_is_told_when_its_event_came_first_if_it_is_known_to_be_the_provider(
    make_world: MakeWorld,
) -> None:
    signature = Signature("hmac", ("s",), (), None, None, (), frozenset(), resign=False)
    for world, since in ((make_world(signature=signature), 1_800_000_000.0), (make_world(), None)):
        gate, first = await world.forwarding(says(200))
        waiter = world.delivering()
        await asyncio.sleep(0.01)
        gate.open()
        assert answered(await first).first_seen is None
        assert answered(await waiter).first_seen == since
        world.wait(60)
        duplicate = await world.deliver()
        assert isinstance(duplicate, Duplicate)
        assert duplicate.first_seen == since
