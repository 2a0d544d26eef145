"""`on_doubt: probe`: the consumer is asked whether it knows an event."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Busy, Verdict
from gateway.core.claim import State
from gateway.core.inbox import EntryState
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.retention import Shape
from gateway.core.route import Mode, OnDoubt
from tests.flow.consumer import Gate, never, says
from tests.flow.told import SEEN, STORED
from tests.flow.world import GIVE_UP, MakeWorld, forwarded, in_doubt

UNDECIDED = [says(500), says(403), Ambiguous("timeout"), Unreached("connect_refused")]


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_nobody_is_asked_about_an_event_that_is_not_in_doubt(
    doubting: MakeWorld, mode: Mode
) -> None:
    world = doubting(OnDoubt.PROBE, mode)
    world.consumer.answers(says(401), says(200))
    await world.deliver()
    await world.settled()
    world.pass_by(5)
    await (world.deliver() if mode is Mode.FORWARD else world.work())
    assert len(world.consumer.received) == 2
    assert world.prober.received == []


async def test_the_consumer_is_asked_by_the_percent_encoded_id(doubting: MakeWorld) -> None:
    world = doubting(OnDoubt.PROBE)
    await in_doubt(world, "a/b?c=ü&d %")
    await world.deliver("a/b?c=ü&d %")
    (asked,) = world.prober.received
    assert asked.target == "/known?id=a%2Fb%3Fc%3D%C3%BC%26d%20%25"
    assert asked.header("Host") == "app.example:3000"
    assert asked.body == b""


async def test_an_event_that_the_consumer_knows_is_completed_and_told_as_a_duplicate(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.PROBE)
    await in_doubt(world)
    assert await world.deliver() == SEEN
    assert world.claim().state is State.COMPLETED
    assert len(world.consumer.received) == 1
    assert world.counted["duplicate", None, Shape.RETRY] == 1
    assert await world.deliver() == SEEN
    assert len(world.prober.received) == 1


async def test_an_entry_that_the_consumer_knows_is_delivered_without_being_sent(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.PROBE, Mode.INBOX)
    await in_doubt(world)
    await world.work()
    assert (world.claim().state, world.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    assert (len(world.consumer.received), world.room.filled) == (1, 0)


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_an_event_that_the_consumer_does_not_know_is_sent_still_marked(
    doubting: MakeWorld, mode: Mode
) -> None:
    world = doubting(OnDoubt.PROBE, mode)
    world.prober.answers(says(404))
    await in_doubt(world)
    await (world.deliver() if mode is Mode.FORWARD else world.work())
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.claim().state is State.COMPLETED


@pytest.mark.parametrize("undecided", UNDECIDED, ids=str)
async def test_a_delivery_whose_event_stays_undecided_comes_again(
    doubting: MakeWorld, undecided: Outcome
) -> None:
    world = doubting(OnDoubt.PROBE)
    world.prober.answers(undecided, says(404))
    await in_doubt(world)
    assert isinstance(await world.deliver(), Busy)
    assert (world.claim().state, world.claim().doubtful) == (State.RELEASED, True)
    assert len(world.consumer.received) == 1
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST


@pytest.mark.parametrize("undecided", UNDECIDED, ids=str)
async def test_an_entry_that_stays_undecided_is_asked_about_again_and_keeps_its_attempt(
    doubting: MakeWorld, undecided: Outcome
) -> None:
    world = doubting(OnDoubt.PROBE, Mode.INBOX)
    world.prober.answers(undecided, says(404))
    await in_doubt(world)
    await world.work()
    assert (world.entry().state, world.entry().attempt) == (EntryState.PENDING, 1)
    assert world.entry().due == world.shop.claims.now + 10
    world.pass_by(10)
    await world.work()
    assert (world.consumer.last.attempt, world.entry().state) == (2, EntryState.DELIVERED)


@pytest.mark.parametrize(("age", "held"), [(GIVE_UP - 1, False), (GIVE_UP, True)])
@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_an_event_that_stays_undecided_for_too_long_is_held(
    doubting: MakeWorld, mode: Mode, age: float, held: bool
) -> None:
    world = doubting(OnDoubt.PROBE, mode)
    world.prober.answers(says(500))
    await in_doubt(world)
    world.pass_by(age - 5)
    if mode is Mode.INBOX:
        await world.work()
        expected = EntryState.HELD if held else EntryState.PENDING
        assert world.entry().state is expected
    elif held:
        assert await world.deliver() == STORED
        assert world.entry().state is EntryState.HELD
    else:
        assert isinstance(await world.deliver(), Busy)
    assert len(world.consumer.received) == 1


@pytest.mark.parametrize("known", [says(200), says(404)], ids=str)
async def test_a_consumer_that_says_so_at_last_is_believed_however_late(
    doubting: MakeWorld, known: Outcome
) -> None:
    world = doubting(OnDoubt.PROBE)
    world.prober.answers(known)
    await in_doubt(world)
    world.pass_by(10 * GIVE_UP)
    await world.deliver()
    assert world.claim().state is State.COMPLETED
    assert world.shop.claims.entries == {}


async def test_a_holder_that_is_cut_off_while_it_asks_gives_its_claim_back(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.PROBE)
    world.prober.answers(never)
    await in_doubt(world)
    task = world.delivering()
    while not world.prober.received:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert world.claim().state is State.RELEASED


async def test_a_worker_that_is_cut_off_while_it_asks_hands_its_entry_back(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.PROBE, Mode.INBOX)
    world.prober.answers(never)
    await in_doubt(world)
    world.deliverer.wake()
    while not world.prober.received:
        await asyncio.sleep(0)
    await world.end()
    assert (world.entry().state, world.entry().attempt) == (EntryState.PENDING, 1)


async def test_time_that_a_probe_takes_counts_before_a_late_acknowledgement(
    doubting: MakeWorld,
) -> None:
    world = doubting(OnDoubt.PROBE, acknowledge_after=30.0)
    await in_doubt(world)
    probing, gate = Gate(says(404)), Gate(says(200))
    world.prober.answers(probing)
    world.consumer.answers(gate)
    second = world.delivering()
    await probing.reached.wait()
    world.pass_by(30)
    probing.open()
    assert await asyncio.wait_for(second, 10) == STORED
    gate.open()
    await world.settled()
    assert world.consumer.last.marked


@pytest.mark.parametrize(
    ("answer", "why"),
    [(says(500), "it said 500"), (Unreached("connect_refused"), "connect_refused")],
    ids=str,
)
async def test_a_probe_that_does_not_say_is_a_line_in_the_log(
    doubting: MakeWorld, caplog: pytest.LogCaptureFixture, answer: Outcome, why: str
) -> None:
    world = doubting(OnDoubt.PROBE)
    await in_doubt(world)
    world.prober.answers(answer)
    await world.deliver()
    (line,) = [line for line in caplog.records if line.message == "probe_undecided"]
    assert vars(line)["why"] == why
    assert vars(line)["event_id"] == "evt_1"
