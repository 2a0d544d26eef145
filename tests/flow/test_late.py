"""`acknowledge_after`: a consumer that takes longer than the provider waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.answer import Acknowledged, Answered, Unanswered, Verdict
from gateway.core.claim import State
from gateway.core.inbox import EntryEnding, EntryState
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.route import FixedReply, ReplayReply
from gateway.flow.deliverers import Deliverers
from tests.flow.consumer import Gate, never, reply, says
from tests.flow.shop import Failure
from tests.flow.told import SEEN, STORED
from tests.flow.world import LEASE, MakeWorld, World, answered, delivery, forwarded
from tests.rig.deadline import eventually

SOON = 0.05
FAILURES = [says(401), says(500), Ambiguous("timeout"), Unreached("no_slot", timed_out=True)]


@pytest.fixture
async def late(make_world: MakeWorld) -> World:
    return make_world(acknowledge_after=SOON)


async def acknowledged(world: World, outcome: Outcome, *then: Outcome) -> Gate:
    """A delivery that was stored and acknowledged while its consumer is still at it."""
    gate, first = await world.forwarding(outcome, *then)
    assert await first == STORED
    return gate


async def still_waiting(world: World, outcome: Outcome) -> tuple[Gate, asyncio.Task[object]]:
    """A delivery that could not be stored in time, and so still waits for its consumer."""
    gate, first = await world.forwarding(outcome, says(200))
    await eventually(lambda: world.shop.stores, within=2)
    await asyncio.sleep(0)
    assert not first.done()
    return gate, first


def concluded(world: World) -> int:
    """Attempts of entries that have ended."""
    return sum(world.counted["concluded", ending] for ending in EntryEnding)


@pytest.mark.parametrize("outcome", [says(200, b"shipped"), says(422, b"no")])
async def test_a_consumer_that_answers_in_time_answers_the_provider(
    late: World, outcome: Outcome
) -> None:
    late.consumer.answers(outcome)
    assert forwarded(await late.deliver()).verdict is Verdict.FIRST
    assert late.shop.stores == 0
    assert late.shop.claims.entries == {}


async def test_a_slow_consumers_event_is_stored_under_its_holder_and_acknowledged(
    late: World,
) -> None:
    gate = await acknowledged(late, says(200))
    entry = late.entry()
    assert (late.claim().state, entry.state) == (State.STORED, EntryState.LEASED)
    assert (entry.attempt, entry.doubtful) == (1, False)
    assert late.counted["delivery", Verdict.FIRST] == 1
    assert late.steps == ["after_claim", "after_store"]
    assert (late.deliverer.busy, late.room.filled) == (1, 1)
    assert await late.deliver() == SEEN
    gate.open()
    await late.settled()
    assert len(late.consumer.received) == 1


async def test_the_acknowledgement_is_what_the_route_says(make_world: MakeWorld) -> None:
    how = FixedReply(202, "text/plain", b"ok")
    world = make_world(acknowledge_after=SOON, duplicate_reply=how)
    gate, first = await world.forwarding(says(200))
    assert await first == Acknowledged(how)
    gate.open()
    await world.settled()


async def test_a_late_success_completes_claim_and_entry(late: World) -> None:
    gate = await acknowledged(late, says(200))
    gate.open()
    await late.settled()
    assert (late.claim().state, late.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    assert late.counted["event", None] == 1
    assert late.counted["late_success"] == 0
    assert late.counted["concluded", EntryEnding.DELIVER] == 1
    assert (late.deliverer.busy, late.room.filled) == (0, 0)


async def test_a_late_success_is_replayed_to_duplicates(make_world: MakeWorld) -> None:
    world = make_world(acknowledge_after=SOON, duplicate_reply=ReplayReply())
    gate, first = await world.forwarding(says(200, b"shipped"))
    assert isinstance(await first, Acknowledged)
    gate.open()
    await world.settled()
    assert (await world.replies.recall(World.key("evt_1"))) == reply(200, b"shipped")


@pytest.mark.parametrize(
    ("failure", "attempt", "marked", "seconds"),
    [
        (says(401), 2, False, 5),
        (says(500), 2, True, 5),
        (Ambiguous("timeout", timed_out=True), 2, True, 5),
        (Unreached("connect_refused"), 1, False, 5),
    ],
)
async def test_a_late_failure_becomes_a_normal_retry(
    late: World, failure: Outcome, attempt: int, marked: bool, seconds: float
) -> None:
    gate = await acknowledged(late, failure, says(200))
    gate.open()
    await late.settled()
    assert late.entry().state is EntryState.PENDING
    late.pass_by(seconds)
    await late.work()
    assert (late.consumer.last.attempt, late.consumer.last.marked) == (attempt, marked)
    assert late.consumer.last.body == delivery().body
    assert (late.claim().state, late.room.filled) == (State.COMPLETED, 0)


async def test_a_forward_that_dies_after_it_was_acknowledged_is_taken_over_marked(
    make_world: MakeWorld,
) -> None:
    doomed = make_world(acknowledge_after=SOON)
    other = make_world(shop=doomed.shop)
    await acknowledged(doomed, says(200))
    doomed.shop.settle_away = True
    await doomed.end()
    doomed.shop.settle_away = False
    other.wait(LEASE + 1)
    await other.work()
    assert (other.consumer.last.attempt, other.consumer.last.marked) == (2, True)


async def test_an_acknowledged_forward_that_is_cut_off_leaves_doubt(late: World) -> None:
    await acknowledged(late, says(200))
    await late.end()
    entry = late.entry()
    assert (entry.state, entry.doubtful, entry.attempt) == (EntryState.PENDING, True, 1)
    assert late.deliverer.busy == 0


async def test_a_delivery_that_is_cut_off_before_it_is_late_takes_its_forward_with_it(
    late: World,
) -> None:
    cut_off = asyncio.Event()

    async def slowly() -> Outcome:
        try:
            return await never()
        finally:
            cut_off.set()

    late.shop.storing_fails = Failure.AWAY
    late.consumer.answers(slowly)
    task = late.delivering()
    await eventually(lambda: late.shop.stores, within=2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.wait_for(cut_off.wait(), 2)
    assert (late.claim().state, late.claim().doubtful) == (State.RELEASED, True)


async def test_a_drain_waits_for_an_acknowledged_forward(late: World) -> None:
    gate = await acknowledged(late, says(200))
    running = Deliverers(late.shared)
    running.use([late.deliverer])
    running.stop()
    assert not await running.wait_idle(0.03)
    gate.open()
    assert await running.wait_idle(2)


async def test_time_that_was_spent_waiting_for_another_counts(make_world: MakeWorld) -> None:
    world = make_world(acknowledge_after=30.0)
    gate, first = await world.forwarding(says(401), never)
    second = world.delivering()
    await asyncio.sleep(0)
    world.pass_by(30)
    gate.open()
    await first
    assert await asyncio.wait_for(second, 10) == STORED


async def test_those_who_wait_for_the_flight_are_told_so_too(late: World) -> None:
    gate, first = await late.forwarding(says(200))
    waiting = [late.delivering() for _ in range(3)]
    assert await asyncio.gather(first, *waiting) == [STORED, SEEN, SEEN, SEEN]
    gate.open()
    await late.settled()
    assert len(late.consumer.received) == 1


@pytest.mark.parametrize("how", Failure)
async def test_what_may_not_be_stored_waits_for_its_consumer_and_passes_a_success_on(
    late: World, how: Failure
) -> None:
    late.shop.storing_fails = how
    gate, first = await still_waiting(late, says(200, b"shipped"))
    gate.open()
    assert await first == Answered(reply(200, b"shipped"), Verdict.FIRST)
    assert late.claim().state is State.COMPLETED
    await late.settled()
    late.pass_by(3600)
    await late.work()
    assert len(late.consumer.received) == 1
    assert late.deliverer.busy == 0


@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("how", [Failure.AWAY, Failure.REQUEST_LOST])
async def test_what_was_not_stored_passes_a_failure_on_and_releases_the_claim(
    late: World, how: Failure, failure: Outcome
) -> None:
    late.shop.storing_fails = how
    gate, first = await still_waiting(late, failure)
    gate.open()
    assert isinstance(await first, Answered | Unanswered)
    assert late.claim().state is State.RELEASED
    assert late.claim().doubtful is (failure in (FAILURES[1], FAILURES[2]))
    assert late.shop.claims.entries == {}
    assert concluded(late) == 0
    assert forwarded(await late.deliver()).verdict is Verdict.FIRST


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_what_was_stored_without_our_knowing_becomes_a_normal_retry_after_a_failure(
    late: World, failure: Outcome
) -> None:
    late.shop.storing_fails = Failure.REPLY_LOST
    gate, first = await still_waiting(late, failure)
    gate.open()
    assert isinstance(await first, Answered | Unanswered)
    entry = late.entry()
    assert (late.claim().state, entry.state) == (State.STORED, EntryState.PENDING)
    assert entry.doubtful is (failure in (FAILURES[1], FAILURES[2]))
    assert concluded(late) == 1
    assert await late.deliver() == SEEN
    late.pass_by(5)
    await late.work()
    assert late.claim().state is State.COMPLETED


@pytest.mark.parametrize("how", [Failure.REQUEST_LOST, Failure.REPLY_LOST])
async def test_a_store_that_stays_away_after_that_loses_nothing(late: World, how: Failure) -> None:
    late.shop.storing_fails = how
    gate, first = await still_waiting(late, Ambiguous("timeout"))
    late.shop.settle_away = True
    gate.open()
    await first
    late.shop.settle_away = False
    late.pass_by(LEASE + 1)
    await late.settled()
    await late.work()
    late.shop.storing_fails = None
    await late.deliver()
    assert late.claim().state is State.COMPLETED
    assert late.consumer.last.marked


async def test_a_claim_that_was_lost_meanwhile_is_not_stored_and_a_success_counts_all_the_same(
    make_world: MakeWorld, late: World
) -> None:
    other = make_world(shop=late.shop)
    successor = Gate(says(500))
    other.consumer.answers(successor)
    late.route = replace(late.route, acknowledge_after=0.3)
    late.receiver, late.deliverer = late.wired(late.route)
    gate, first = await late.forwarding(says(200, b"shipped"))
    late.wait(LEASE + 1)
    second = other.delivering()
    await successor.reached.wait()
    await eventually(lambda: late.shop.stores, within=2)
    assert late.shop.claims.entries == {}
    gate.open()
    assert answered(await first).reply.body == b"shipped"
    assert late.counted["late_success"] == 1
    successor.open()
    await second
    assert late.claim().state is State.COMPLETED
