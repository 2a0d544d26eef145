"""Conversations in forward mode: who arrives, what the consumer says, what the next one is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Busy, Duplicate, Reason, Rejected, Unanswered, Verdict
from gateway.core.claim import Ending, Settlement
from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Header, Json, Literal, Recipe
from gateway.core.outcome import Ambiguous, Unreached
from gateway.core.retention import Shape
from gateway.core.route import FixedReply, OnMissingId, OnStoreDown, ReplayReply
from tests.flow.world import LEASE, ROUTE, Gate, World, delivery, dies, never, reply, says

MakeWorld = Callable[..., World]


async def test_a_first_delivery_is_forwarded_and_answered_with_the_consumers_own_reply(world):
    world.consumer.answers(says(201, b"made"))
    answer = await world.deliver()
    assert answer == Answered(reply(201, b"made"), Verdict.FIRST)
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (1, False)
    assert world.consumer.last.header("Dedup-Event-Id") == "evt_1"
    assert world.steps == ["after_claim", "after_settle"]
    assert world.counted["delivery", Verdict.FIRST] == 1


async def test_a_duplicate_is_answered_without_a_forward(world):
    await world.deliver(type="order.paid")
    answer = await world.deliver(type="order.paid")
    assert isinstance(answer, Duplicate)
    assert len(world.consumer.received) == 1
    assert world.counted["delivery", Verdict.DUPLICATE] == 1
    assert world.counted["duplicate", "order.paid", Shape.RETRY] == 1


async def test_a_duplicate_older_than_the_promised_retries_counts_as_a_redrive(world):
    await world.deliver()
    world.wait(73 * 3600)
    await world.deliver()
    assert world.counted["duplicate", None, Shape.REDRIVE] == 1


async def test_an_event_is_completed_before_its_provider_is_answered(world):
    gate = Gate(says(200))
    world.consumer.answers(gate)
    task = world.delivering()
    await gate.reached.wait()
    world.shop.settle_away = True
    gate.open()
    assert (await task).verdict is Verdict.FIRST  # answered all the same
    assert world.recorder.pending == 1
    world.shop.settle_away = False
    await world.settled()
    assert isinstance(await World(shop=world.shop).deliver(), Duplicate)


async def test_a_success_that_the_store_does_not_take_answers_duplicates_of_this_process_already(
    world,
):
    world.shop.settle_away = True
    world.consumer.answers(says(200, b"first"))
    await world.deliver()
    assert await world.deliver() == Answered(reply(200, b"first"), Verdict.DUPLICATE)
    assert len(world.consumer.received) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 415, 422, 425, 429])
async def test_a_refusal_before_any_effect_passes_through_and_leaves_the_id_usable(world, status):
    world.consumer.answers(says(status, b"no"), says(200))
    assert await world.deliver() == Answered(reply(status, b"no"), Verdict.FIRST)
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, False)


@pytest.mark.parametrize("first", [says(500), says(302), says(408), says(409), Ambiguous("reset")])
async def test_after_an_attempt_that_may_have_had_its_effect_the_next_one_is_marked(world, first):
    world.consumer.answers(first, says(200))
    await world.deliver()
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.counted["possible_double"] == 1


async def test_doubt_survives_attempts_that_certainly_had_no_effect(world):
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
async def test_the_provider_is_told_whether_the_consumer_may_have_it(world, outcome, told):
    world.consumer.answers(outcome)
    assert await world.deliver() == told


async def test_a_dead_holder_blocks_retries_until_its_lease_lapses_then_the_next_is_marked(world):
    await dies(world)
    assert isinstance(await world.deliver(), Busy)
    world.wait(LEASE + 0.001)
    assert (await world.deliver()).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.counted["takeover"] == 1


async def test_concurrent_doubles_mirror_the_first_ones_success(world):
    gate = Gate(says(200, b"shipped"))
    world.consumer.answers(gate)
    tasks = [world.delivering() for _ in range(20)]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert len(world.consumer.received) == 1
    assert {answer.reply for answer in answers} == {reply(200, b"shipped")}
    assert world.counted["delivery", Verdict.DUPLICATE] == 19
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 19


@pytest.mark.parametrize("failure", [says(500, b"oops"), Ambiguous("reset"), Unreached("refused")])
async def test_concurrent_doubles_mirror_a_failure_that_says_nothing_about_their_bytes(
    world, failure
):
    gate = Gate(failure)
    world.consumer.answers(gate)
    tasks = [world.delivering() for _ in range(5)]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert len(world.consumer.received) == 1
    assert [a.verdict for a in answers] == [Verdict.FIRST] + [Verdict.BUSY] * 4


async def test_a_genuine_copy_is_not_told_what_a_forged_one_was(world):
    gate = Gate(says(401, b"bad signature"))
    world.consumer.answers(gate, says(200, b"welcome"))
    forged = world.delivering()
    await gate.reached.wait()
    genuine = world.delivering()
    gate.open()
    assert (await forged).reply.status == 401
    assert (await genuine) == Answered(reply(200, b"welcome"), Verdict.FIRST)
    assert not world.consumer.last.marked


async def test_a_waiter_gives_up_in_time_to_answer_its_provider(world):
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    assert isinstance(await world.deliver(), Busy)
    assert world.counted["delivery", Verdict.BUSY] == 1
    gate.open()
    await first


async def test_a_storm_of_waiters_is_bounded(world):
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    storm = [world.delivering() for _ in range(400)]
    done, _ = await asyncio.wait(storm, timeout=0.1)
    assert len(done) == 400 - 256
    assert all(isinstance(task.result(), Busy) for task in done)
    gate.open()
    await asyncio.gather(first, *storm)
    assert len(world.consumer.received) == 1


async def test_a_waiter_in_another_process_sees_the_holder_complete(world, make_world: MakeWorld):
    other = make_world(shop=world.shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    waiter = other.delivering()
    await asyncio.sleep(0.05)
    gate.open()
    await first
    assert isinstance(await waiter, Duplicate)
    assert other.consumer.received == []
    assert other.counted["duplicate", None, Shape.CONCURRENT] == 1


async def test_a_waiter_in_another_process_takes_what_the_holder_released(
    world, make_world: MakeWorld
):
    other = make_world(shop=world.shop)
    gate = Gate(says(500))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    waiter = other.delivering()
    await asyncio.sleep(0.05)
    gate.open()
    await first
    assert (await waiter).verdict is Verdict.FIRST
    assert (other.consumer.last.attempt, other.consumer.last.marked) == (2, True)


async def test_only_one_of_many_waiters_of_a_process_asks_the_store(world, make_world: MakeWorld):
    other = make_world(shop=world.shop)
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = world.delivering()
    await gate.reached.wait()
    before = world.shop.claims.asked
    waiters = [other.delivering() for _ in range(50)]
    await asyncio.sleep(0.15)
    assert world.shop.claims.asked - before <= 3
    gate.open()
    await asyncio.gather(first, *waiters)
    assert other.consumer.received == []


async def test_without_the_store_nothing_is_forwarded_and_the_provider_comes_again(world):
    world.shop.away = True
    answer = await world.deliver()
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (503, Reason.STORE_AWAY)
    assert answer.retry_after
    assert world.consumer.received == []
    world.shop.away = False
    assert (await world.deliver()).verdict is Verdict.FIRST


async def test_a_route_may_forward_without_the_store_marked_counted_and_remembered_later(
    make_world: MakeWorld,
):
    world = make_world(on_store_down=OnStoreDown.FORWARD)
    world.shop.away = True
    assert (await world.deliver()).verdict is Verdict.BYPASSED
    assert world.consumer.last.marked
    world.shop.away = False
    await world.settled()
    assert isinstance(await world.deliver(), Duplicate)
    assert world.counted["late_success"] == 0


async def test_a_claim_whose_making_stayed_unknown_is_given_back_unmarked(world):
    world.shop.replies_lost = 1
    assert isinstance(await world.deliver(), Rejected)
    assert world.consumer.received == []
    await world.settled()
    assert (await world.deliver()).verdict is Verdict.FIRST
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, False)


async def test_a_release_that_the_store_does_not_take_is_repeated(world):
    world.shop.settle_away = True
    world.consumer.answers(says(401), says(200))
    await world.deliver()
    assert isinstance(await world.deliver(), Busy)  # undecided as far as anybody knows
    world.shop.settle_away = False
    await world.settled()
    assert (await world.deliver()).verdict is Verdict.FIRST
    assert not world.consumer.last.marked


async def test_a_zombies_release_changes_nothing_and_its_success_completes(
    world, make_world: MakeWorld
):
    zombie, successor = make_world(shop=world.shop), make_world(shop=world.shop)
    gate = Gate(says(200))
    zombie.consumer.answers(gate)
    task = zombie.delivering()
    await gate.reached.wait()
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


async def test_a_cancelled_forward_leaves_doubt(world):
    world.consumer.answers(never, says(200))
    task = world.delivering()
    while not world.consumer.received:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)


async def test_nothing_is_sent_that_could_outlast_the_lease(world):
    loop = asyncio.get_running_loop()
    before = loop.time()
    await world.deliver()
    latest = world.consumer.last.send_before
    assert latest is not None
    assert before <= latest - (LEASE - 30) <= loop.time()


@pytest.mark.parametrize("event_id", [None, "", "   ", True, 7.5, [1], {"a": 1}])
async def test_without_a_usable_id_every_delivery_passes_through_unprotected(world, event_id):
    for _ in range(2):
        assert (await world.deliver(event_id)).verdict is Verdict.UNKEYED
    assert len(world.consumer.received) == 2
    assert world.consumer.last.header("Dedup-Event-Id") is None
    assert world.counted["delivery", Verdict.UNKEYED] == 2


async def test_a_route_may_refuse_what_has_no_id(make_world: MakeWorld):
    world = make_world(missing_id=OnMissingId.REFUSE)
    answer = await world.deliver("")
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (400, Reason.MISSING_ID)
    assert world.consumer.received == []


async def test_two_different_ids_are_refused(make_world: MakeWorld):
    world = make_world(recipe=Recipe((Literal("orders"),), (Header("X-Event-Id"),)))
    lines = ((b"X-Event-Id", b"a"), (b"x-event-id", b"b"))
    two = Delivery("POST", "/hooks/orders", lines, b"", "10.0.0.9", "http")
    answer = await world.receiver.receive(two)
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (400, Reason.CONFLICTING_ID)
    assert world.consumer.received == []


async def test_other_methods_pass_through_unclaimed_every_time(world):
    get = Delivery("GET", "/hooks/orders?challenge=1", (), b"", "10.0.0.9", "http")
    for _ in range(3):
        assert (await world.receiver.receive(get)).verdict is Verdict.PASSED
    assert len(world.consumer.received) == 3
    assert world.steps == []


async def test_a_new_event_older_than_the_retention_is_marked_and_counted(world):
    old = world.shop.claims.now - 46 * 86400
    await world.deliver("evt_old", at=old)
    assert world.consumer.last.marked
    assert world.counted["stale"] == 1
    await world.deliver("evt_new", at=world.shop.claims.now)
    assert not world.consumer.last.marked


async def test_another_body_under_a_known_id_is_still_a_duplicate_and_counted(world):
    await world.deliver(amount=1)
    changed = [await world.deliver(amount=amount) for amount in range(2, 12)]
    assert all(isinstance(answer, Duplicate) for answer in changed)
    assert world.counted["mismatch"] >= 8  # a fingerprint of eight bits misses one in 256


async def test_the_first_reply_is_replayed_where_the_route_says_so(make_world: MakeWorld):
    world = make_world(duplicate_reply=ReplayReply())
    world.consumer.answers(says(200, b"<xml>SUCCESS</xml>"))
    await world.deliver()
    answer = await world.deliver()
    assert isinstance(answer, Duplicate)
    assert answer.kept is not None
    assert answer.kept.body == b"<xml>SUCCESS</xml>"


async def test_a_reply_too_long_to_keep_gives_a_plain_duplicate(make_world: MakeWorld):
    world = make_world(duplicate_reply=ReplayReply())
    world.consumer.answers(says(200, b"x" * (16 * 1024 + 1)))
    await world.deliver()
    assert await world.deliver() == Duplicate(ReplayReply(), None)


async def test_a_fixed_reply_comes_from_the_route(make_world: MakeWorld):
    fixed = FixedReply(200, "text/plain", b"[accepted]")
    world = make_world(duplicate_reply=fixed)
    await world.deliver()
    assert await world.deliver() == Duplicate(fixed, None)


async def test_the_idempotency_key_is_the_id_and_only_where_asked_for(make_world: MakeWorld):
    quiet, asked = make_world(), make_world(idempotency_key=True)
    await quiet.deliver()
    await asked.deliver()
    assert quiet.consumer.last.header("Idempotency-Key") is None
    assert asked.consumer.last.header("Idempotency-Key") == "evt_1"


async def test_a_forward_slower_than_the_providers_timeout_is_counted(make_world: MakeWorld):
    world = make_world()
    gate = Gate(says(200))
    world.consumer.answers(gate)
    task = world.delivering()
    await asyncio.sleep(1.45)  # the promise says 1.4 s
    gate.open()
    await task
    assert world.counted["slow"] == 1


async def test_the_same_id_under_another_scope_is_another_event(world):
    await world.deliver()
    elsewhere = Recipe((Literal("invoices"),), (Json(("event_id",)),))
    other = World(shop=world.shop, name="invoices", recipe=elsewhere)
    assert (await other.deliver()).verdict is Verdict.FIRST


async def test_settlements_give_up_when_the_lease_is_over_but_successes_never(world):
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


def test_a_delivery_of_the_world_is_what_the_ingress_makes():
    assert delivery("evt_9").body == b'{"event_id": "evt_9"}'


async def test_the_path_of_the_upstream_replaces_the_routes(make_world: MakeWorld):
    world = make_world(upstream=replace(ROUTE.upstream, path="/in"))
    await world.deliver()
    assert world.consumer.last.target == "/in"


async def test_the_holders_deadline_counts_from_before_its_claim_left(world):
    loop = asyncio.get_running_loop()
    world.shop.slowness, before = 0.2, loop.time()
    await world.deliver()
    assert world.consumer.last.send_before - (LEASE - 30) < before + 0.1


async def test_the_store_is_asked_with_less_patience_than_a_refusal_may_take(world):
    await world.deliver()
    assert world.shop.patience == [1.8]


async def test_a_waiter_asks_the_store_less_and_less_often(make_world: MakeWorld):
    world = make_world(promise=None)  # five seconds of waiting
    await dies(world)
    before = world.shop.claims.asked
    waiter = world.delivering()
    await asyncio.sleep(1.2)
    assert 4 <= world.shop.claims.asked - before <= 6
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
