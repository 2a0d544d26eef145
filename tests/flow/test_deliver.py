"""Delivering what the inbox owes: one entry's attempts, from the first to the last."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from gateway.core.claim import State
from gateway.core.inbox import EntryEnding, EntryState
from gateway.core.outcome import Ambiguous, Outcome, Refused, Unreached
from gateway.core.retry import RetryPolicy
from gateway.core.route import Mode
from tests.flow.consumer import Gate, never, reply, says
from tests.flow.world import LEASE, MakeWorld, World, delivery
from tests.rig.deadline import eventually


async def killed(world: World, event_id: str = "evt_1") -> None:
    """A worker of another process leases what is due, and dies while it forwards it."""
    doomed = World(shop=world.shop, mode=Mode.INBOX)
    doomed.consumer.answers(never)
    doomed.deliverer.wake()
    await eventually(lambda: doomed.consumer.received, within=2)
    doomed.shop.settle_away = True  # its last words are not heard
    await doomed.end()
    world.shop.settle_away = False


async def test_a_stored_event_is_delivered_by_whoever_looks_for_it(inbox: World) -> None:
    inbox.owes("evt_1")
    await inbox.work()
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (1, False)
    assert inbox.consumer.last.body == delivery("evt_1").body
    assert (inbox.claim().state, inbox.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    assert inbox.counted["event", None] == 1
    assert inbox.counted["concluded", EntryEnding.DELIVER] == 1
    assert inbox.counted["takeover"] == 0
    assert inbox.steps == ["after_lease", "after_conclude"]
    assert inbox.deliverer.busy == 0


@pytest.mark.parametrize(
    ("failure", "marked"),
    [(Ambiguous("timeout"), True), (says(500), True), (says(422), False), (says(503), True)],
)
async def test_what_failed_is_sent_again_after_pauses_that_double_and_marked_after_doubt(
    inbox: World, failure: Outcome, marked: bool
) -> None:
    inbox.consumer.answers(failure)
    inbox.owes("evt_1")
    await inbox.work()
    for seconds in (5, 10, 20):
        inbox.pass_by(seconds - 0.25)
        sent = len(inbox.consumer.received)
        await inbox.work()
        assert len(inbox.consumer.received) == sent
        inbox.pass_by(0.25)
        await inbox.work()
        assert len(inbox.consumer.received) == sent + 1
    found = [(sent.attempt, sent.marked) for sent in inbox.consumer.received]
    assert found == [(1, False), (2, marked), (3, marked), (4, marked)]
    assert inbox.counted["concluded", EntryEnding.RETRY] == 4
    assert inbox.counted["event", None] == 0  # nobody took it


@pytest.mark.parametrize(("asked", "seconds"), [(b"60", 60), (b"1", 5), (b"99999", 3600)])
async def test_a_consumers_retry_after_is_honoured_within_the_cap(
    inbox: World, asked: bytes, seconds: float
) -> None:
    busy = Refused(reply(429)._replace(headers=((b"Retry-After", asked),)), doubtful=False)
    inbox.consumer.answers(busy, says(200))
    inbox.owes("evt_1")
    await inbox.work()
    assert inbox.entry().due == inbox.shop.claims.now + seconds


async def test_what_was_not_reached_keeps_its_attempt_and_stays_unmarked(inbox: World) -> None:
    inbox.consumer.answers(Unreached("connect_refused"), Unreached("connect_refused"), says(200))
    inbox.owes("evt_1")
    for _ in range(3):
        await inbox.work()
        inbox.pass_by(5)
    found = [(sent.attempt, sent.marked) for sent in inbox.consumer.received]
    assert found == [(1, False)] * 3
    assert inbox.counted["concluded", EntryEnding.HAND_BACK] == 2


@pytest.mark.parametrize("failure", [says(422), Unreached("connect_refused")])
async def test_an_entry_is_dead_after_giving_up_and_is_sent_no_more(
    make_world: MakeWorld, failure: Outcome
) -> None:
    world = make_world(mode=Mode.INBOX, retry=RetryPolicy(base=5.0, cap=8.0, give_up=30.0))
    world.consumer.answers(failure)
    world.owes("evt_1")
    await world.work()
    for _ in range(100):
        world.pass_by(1)
        await world.work()
    assert world.entry().state is EntryState.DEAD
    assert 4 <= len(world.consumer.received) <= 6
    assert world.counted["concluded", EntryEnding.BURY] == 1
    assert world.claim().state is State.STORED
    assert world.room.filled == -1


async def test_an_attempt_that_takes_long_counts_from_when_its_entry_was_stored(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, retry=RetryPolicy(base=5.0, cap=8.0, give_up=30.0))
    gate = Gate(says(422))
    world.consumer.answers(gate)
    world.owes("evt_1")
    world.wait(13)
    world.deliverer.wake()
    await gate.reached.wait()
    world.pass_by(13)
    gate.open()
    await world.settled()
    assert world.entry().state is EntryState.DEAD


async def test_an_entry_that_waited_past_giving_up_is_tried_once_all_the_same(
    inbox: World,
) -> None:
    inbox.owes("evt_1")
    inbox.pass_by(30 * 86400)
    await inbox.work()
    assert inbox.entry().state is EntryState.DELIVERED


async def test_an_entry_that_grew_old_in_the_inbox_is_not_older_than_our_memory(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, retention=timedelta(days=1))
    world.consumer.answers(says(422), says(200))
    await world.deliver(at=world.shop.claims.now - 80_000)
    await world.settled()
    world.pass_by(20_000)
    await world.work()
    assert [sent.marked for sent in world.consumer.received] == [False, False]


async def test_a_lease_that_lapsed_is_taken_over_and_sent_marked(inbox: World) -> None:
    inbox.owes("evt_1")
    await killed(inbox)
    await inbox.work()
    assert inbox.consumer.received == []
    inbox.wait(LEASE + 0.001)
    await inbox.work()
    assert (inbox.consumer.last.attempt, inbox.consumer.last.marked) == (2, True)
    assert inbox.counted["takeover"] == 1
    assert inbox.counted["possible_double"] == 1


async def test_an_event_that_kills_its_workers_is_paced_and_dead_in_the_end(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, retry=RetryPolicy(base=40.0, cap=3600.0, give_up=7200.0))
    world.owes("evt_1")
    deaths: list[float] = []
    while world.entry().state is not EntryState.DEAD:
        if world.entry().is_due(world.shop.claims.now):
            await killed_again(world, deaths)
        world.pass_by(10)
        assert len(deaths) < 100
    gaps = [later - sooner for sooner, later in itertools.pairwise(deaths)]
    assert gaps[0] <= LEASE + 20
    assert gaps[-1] >= 1200
    assert 5 <= len(deaths) <= 9


async def killed_again(world: World, deaths: list[float]) -> None:
    """A worker takes it, decides not to send it, or is killed by it."""
    doomed = World(shop=world.shop, mode=Mode.INBOX, retry=world.route.retry)
    doomed.consumer.answers(never)
    before = world.shop.leases
    doomed.deliverer.wake()
    await eventually(
        lambda: (
            world.shop.leases > before and (doomed.consumer.received or not doomed.deliverer.busy)
        ),
        within=2,
    )
    if doomed.consumer.received:
        deaths.append(world.shop.claims.now)
        doomed.shop.settle_away = True
    await doomed.end()
    world.shop.settle_away = False


async def test_a_zombies_late_success_completes_and_its_successors_failure_changes_nothing(
    make_world: MakeWorld, inbox: World
) -> None:
    zombie = make_world(shop=inbox.shop, mode=Mode.INBOX)
    first, second = Gate(says(200)), Gate(says(500))
    zombie.consumer.answers(first)
    inbox.consumer.answers(second)
    inbox.owes("evt_1")
    zombie.deliverer.wake()
    await first.reached.wait()
    inbox.wait(LEASE + 1)
    inbox.deliverer.wake()
    await second.reached.wait()
    first.open()
    await zombie.settled()
    assert zombie.counted["late_success"] == 1
    second.open()
    await inbox.settled()
    assert (inbox.claim().state, inbox.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    assert inbox.counted["concluded", EntryEnding.RETRY] == 0  # it changed nothing
    inbox.pass_by(3600)
    await inbox.work()
    assert len(inbox.consumer.received) == 1


async def test_a_zombies_failure_changes_nothing_and_is_not_counted(
    make_world: MakeWorld, inbox: World
) -> None:
    zombie = make_world(shop=inbox.shop, mode=Mode.INBOX)
    first, second = Gate(says(422)), Gate(says(200))
    zombie.consumer.answers(first)
    inbox.consumer.answers(second)
    inbox.owes("evt_1")
    zombie.deliverer.wake()
    await first.reached.wait()
    inbox.wait(LEASE + 1)
    inbox.deliverer.wake()
    await second.reached.wait()
    before = inbox.entry()
    first.open()
    await zombie.settled()
    assert inbox.entry() == before
    assert zombie.counted["concluded", EntryEnding.RETRY] == 0
    second.open()
    await inbox.settled()
    assert inbox.entry().state is EntryState.DELIVERED


async def test_nothing_is_sent_that_could_outlast_the_lease(inbox: World) -> None:
    inbox.owes("evt_1")
    before = inbox.clock()
    await inbox.work()
    await inbox.deliver("evt_2")
    await inbox.settled()
    after = inbox.clock()
    for sent in inbox.consumer.received:
        assert sent.send_before is not None
        assert before <= sent.send_before - (LEASE - 30) <= after


async def test_a_slow_lease_shortens_what_may_be_sent_under_it(inbox: World) -> None:
    inbox.owes("evt_1")
    inbox.shop.slowness, before = 0.2, inbox.clock()
    await inbox.work()
    latest = inbox.consumer.last.send_before
    assert latest is not None
    assert latest - (LEASE - 30) < before + 0.2


async def test_an_attempt_that_is_cut_off_leaves_doubt_and_a_pause(inbox: World) -> None:
    inbox.consumer.answers(never)
    inbox.owes("evt_1")
    inbox.deliverer.wake()
    await eventually(lambda: inbox.consumer.received, within=2)
    await inbox.end()
    entry = inbox.entry()
    assert (entry.state, entry.doubtful, entry.attempt) == (EntryState.PENDING, True, 1)
    assert entry.due == inbox.shop.claims.now + 5


async def test_what_cannot_be_sent_at_all_is_paced_like_any_failure(inbox: World) -> None:
    async def impossible() -> Outcome:
        raise ValueError("a line break where none may be")

    inbox.consumer.answers(impossible)
    inbox.owes("evt_1")
    await inbox.work()
    assert isinstance(inbox.failures.pop(), ValueError)
    assert len(inbox.consumer.received) == 1
    assert inbox.entry().due == inbox.shop.claims.now + 5
    assert inbox.deliverer.busy == 0
