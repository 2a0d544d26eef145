"""Conversations in forward mode: who arrives, what the consumer says, what the next one is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Duplicate, Reason, Rejected, Unanswered, Verdict
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.retention import Shape
from gateway.core.route import OnStoreDown
from tests.flow.consumer import Gate, reply, says
from tests.flow.world import ROUTE, MakeWorld, World, delivery, forwarded


async def test_a_first_delivery_is_forwarded_and_answered_with_the_consumers_own_reply(
    world: World,
) -> None:
    world.consumer.answers(says(201, b"made"))
    answer = await world.deliver()
    assert answer == Answered(reply(201, b"made"), Verdict.FIRST)
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (1, False)
    assert world.consumer.last.header("Dedup-Event-Id") == "evt_1"
    assert world.steps == ["after_claim", "after_settle"]
    assert world.counted["delivery", Verdict.FIRST] == 1


async def test_a_duplicate_is_answered_without_a_forward(world: World) -> None:
    await world.deliver(type="order.paid")
    answer = await world.deliver(type="order.paid")
    assert isinstance(answer, Duplicate)
    assert len(world.consumer.received) == 1
    assert world.counted["delivery", Verdict.DUPLICATE] == 1
    assert world.counted["duplicate", "order.paid", Shape.RETRY] == 1


async def test_a_duplicate_older_than_the_promised_retries_counts_as_a_redrive(
    world: World,
) -> None:
    await world.deliver()
    world.wait(73 * 3600)
    await world.deliver()
    assert world.counted["duplicate", None, Shape.REDRIVE] == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 415, 422, 425, 429])
async def test_a_refusal_before_any_effect_passes_through_and_leaves_the_id_usable(
    world: World, status: int
) -> None:
    world.consumer.answers(says(status, b"no"), says(200))
    assert await world.deliver() == Answered(reply(status, b"no"), Verdict.FIRST)
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, False)


@pytest.mark.parametrize("first", [says(500), says(302), says(408), says(409), Ambiguous("reset")])
async def test_after_an_attempt_that_may_have_had_its_effect_the_next_one_is_marked(
    world: World, first: Outcome
) -> None:
    world.consumer.answers(first, says(200))
    await world.deliver()
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.counted["possible_double"] == 1


async def test_doubt_survives_attempts_that_certainly_had_no_effect(world: World) -> None:
    world.consumer.answers(says(500), Unreached("refused"), says(401), says(200))
    for _ in range(4):
        await world.deliver()
    assert [request.marked for request in world.consumer.received] == [False, True, True, True]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Unreached("refused"), Unanswered(Verdict.FIRST, timed_out=False, sent=False)),
        (Unreached("connect_timeout", True), Unanswered(Verdict.FIRST, timed_out=True, sent=False)),
        (Ambiguous("reset"), Unanswered(Verdict.FIRST, timed_out=False, sent=True)),
        (Ambiguous("first_byte", True), Unanswered(Verdict.FIRST, timed_out=True, sent=True)),
    ],
)
async def test_the_provider_is_told_whether_the_consumer_may_have_it(
    world: World, outcome: Outcome, told: Unanswered
) -> None:
    world.consumer.answers(outcome)
    assert await world.deliver() == told


async def test_without_the_store_nothing_is_forwarded_and_the_provider_comes_again(
    world: World,
) -> None:
    world.shop.away = True
    answer = await world.deliver()
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (503, Reason.STORE_AWAY)
    assert answer.retry_after
    assert world.consumer.received == []
    world.shop.away = False
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST


async def test_a_route_may_forward_without_the_store_marked_counted_and_remembered_later(
    make_world: MakeWorld,
) -> None:
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    assert forwarded(await world.deliver()).verdict is Verdict.BYPASSED
    assert world.consumer.last.marked
    world.shop.away = False
    await world.settled()
    assert isinstance(await world.deliver(), Duplicate)
    assert world.counted["late_success"] == 0


async def test_the_idempotency_key_is_the_id_and_only_where_asked_for(
    make_world: MakeWorld,
) -> None:
    quiet, asked = make_world(), make_world(idempotency_key=True)
    await quiet.deliver()
    await asked.deliver()
    assert quiet.consumer.last.header("Idempotency-Key") is None
    assert asked.consumer.last.header("Idempotency-Key") == "evt_1"


async def test_a_forward_slower_than_the_providers_timeout_is_counted(
    make_world: MakeWorld,
) -> None:
    world = make_world()
    gate = Gate(says(200))
    world.consumer.answers(gate)
    task = world.delivering()
    await asyncio.sleep(1.45)  # the promise says 1.4 s
    gate.open()
    await task
    assert world.counted["slow"] == 1


def test_a_delivery_of_the_world_is_what_the_ingress_makes() -> None:
    assert delivery("evt_9").body == b'{"event_id": "evt_9"}'


async def test_the_path_of_the_upstream_replaces_the_routes(make_world: MakeWorld) -> None:
    world = make_world(upstream=replace(ROUTE.upstream, path="/in"))
    await world.deliver()
    assert world.consumer.last.target == "/in"


async def test_the_store_is_asked_with_less_patience_than_a_refusal_may_take(world: World) -> None:
    await world.deliver()
    assert world.shop.patience == [1.8]
