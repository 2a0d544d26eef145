"""Inbox mode: what is stored, and what each delivery of it is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.answer import Acknowledged, Duplicate, Reason, Verdict
from gateway.core.claim import State
from gateway.core.event import EventKey
from gateway.core.inbox import EntryState, Offer
from gateway.core.keying import Recipe
from gateway.core.location import Header, Literal
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.retention import Shape
from gateway.core.retry import RetryPolicy
from gateway.core.route import FixedReply, Mode
from tests import routes
from tests.flow.consumer import Gate, never, says
from tests.flow.told import SEEN, STORED, refusal
from tests.flow.world import LEASE, MakeWorld, World, delivery, fingerprints_differ
from tests.rig.deadline import eventually


def backlog(world: World, entries: int) -> None:
    """So many entries that have been due for a while, the newest for a second."""
    old = delivery("old")
    for n in range(entries):
        key = EventKey(n.to_bytes(16, "big"), f"old_{n}")
        offer = Offer(key, "orders", 1, 0, old, EntryState.PENDING, LEASE)
        world.shop.claims.put(offer, due=world.shop.claims.now - entries + n)


async def test_an_event_is_acknowledged_once_it_is_stored_and_not_when_it_is_delivered(
    inbox: World,
) -> None:
    gate = Gate(says(200))
    inbox.consumer.answers(gate)
    assert await inbox.deliver() == STORED
    await gate.reached.wait()
    assert (inbox.claim().state, inbox.entry().state) == (State.STORED, EntryState.LEASED)
    assert inbox.counted["delivery", Verdict.FIRST] == 1
    gate.open()
    await inbox.settled()
    assert (inbox.claim().state, inbox.entry().state) == (State.COMPLETED, EntryState.DELIVERED)
    assert "after_accept" in inbox.steps
    assert inbox.room.filled == 0


async def test_the_process_that_stores_an_event_sends_it_as_it_came_and_unmarked(
    inbox: World,
) -> None:
    await inbox.deliver(amount=1)
    await inbox.settled()
    (sent,) = inbox.consumer.received
    assert sent.body == delivery(amount=1).body
    assert (sent.attempt, sent.marked) == (1, False)
    assert "after_lease" not in inbox.steps  # not read back


async def test_the_acknowledgement_is_what_the_route_says(make_world: MakeWorld) -> None:
    how = FixedReply(202, "text/plain", b"ok")
    world = make_world(mode=Mode.INBOX, duplicate_reply=how)
    assert await world.deliver() == Acknowledged(how)
    assert await world.deliver() == Duplicate(how, None)


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        (says(200), EntryState.DELIVERED),
        (Unreached("connect_refused"), EntryState.PENDING),
        (never, EntryState.LEASED),
    ],
)
async def test_a_duplicate_of_what_is_stored_is_acknowledged_and_not_sent(
    inbox: World, answers: Outcome, state: EntryState
) -> None:
    inbox.consumer.answers(answers)
    await inbox.deliver()
    await eventually(lambda: inbox.consumer.received, within=2)
    assert inbox.entry().state is state
    assert await inbox.deliver() == SEEN
    assert len(inbox.consumer.received) == 1
    assert inbox.counted["delivery", Verdict.DUPLICATE] == 1
    assert inbox.counted["duplicate", None, Shape.RETRY] == 1


async def test_of_many_copies_at_once_one_is_stored_and_all_are_acknowledged(inbox: World) -> None:
    answers = await asyncio.gather(*(inbox.deliver() for _ in range(20)))
    assert sorted(map(str, answers)) == sorted(map(str, [STORED] + [SEEN] * 19))
    await inbox.settled()
    assert len(inbox.consumer.received) == 1


async def test_another_body_under_a_known_id_is_counted(inbox: World) -> None:
    await inbox.deliver()
    assert await inbox.deliver(**fingerprints_differ()) == SEEN
    assert inbox.counted["mismatch"] == 1


async def test_a_delivery_revives_a_dead_entry_with_its_bytes_and_the_attempts_and_doubt_stay(
    make_world: MakeWorld,
) -> None:
    once = RetryPolicy(base=5.0, cap=60.0, give_up=1.0)
    world = make_world(mode=Mode.INBOX, retry=once)
    world.consumer.answers(Ambiguous("timeout"), says(200))
    await world.deliver(amount=1)
    await world.settled()
    assert world.entry().state is EntryState.DEAD
    world.pass_by(3600)
    assert await world.deliver(amount=2) == SEEN
    await world.settled()
    assert world.consumer.last.body == delivery(amount=2).body
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)
    assert world.entry().state is EntryState.DELIVERED
    assert world.room.filled == 0


async def test_a_dead_entry_that_cannot_be_revived_is_not_acknowledged(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, retry=RetryPolicy(base=5.0, cap=60.0, give_up=1.0))
    world.consumer.answers(Ambiguous("timeout"), says(200))
    await world.deliver()
    await world.settled()
    world.shop.revivals_away = True
    assert refusal(await world.deliver()) is Reason.STORE_AWAY
    assert world.entry().state is EntryState.DEAD


async def test_a_full_inbox_takes_nothing_new_and_knows_what_it_has(inbox: World) -> None:
    inbox.consumer.answers(Unreached("connect_refused"))
    await inbox.deliver("evt_1")
    inbox.room.full = True
    assert refusal(await inbox.deliver("evt_2")) is Reason.INBOX_FULL
    assert await inbox.deliver("evt_1") == SEEN
    assert World.key("evt_2").digest not in inbox.shop.claims.rows
    assert inbox.counted["rejection", Reason.INBOX_FULL] == 1
    inbox.room.full = False
    assert await inbox.deliver("evt_2") == STORED


async def test_an_event_that_somebody_sends_is_not_sent_again_though_its_claim_was_lost(
    inbox: World, make_world: MakeWorld
) -> None:
    """A table of claims that was emptied is not the end of what the entries know."""
    gate = Gate(says(200))
    inbox.consumer.answers(gate)
    await inbox.deliver()
    await gate.reached.wait()
    inbox.shop.claims.rows.clear()
    other = make_world(shop=inbox.shop, mode=Mode.INBOX)
    assert await other.deliver() == SEEN
    gate.open()
    await inbox.settled()
    assert (len(inbox.consumer.received), other.consumer.received) == (1, [])


async def test_without_a_free_slot_an_event_waits_its_turn(make_world: MakeWorld) -> None:
    upstream = replace(routes.UPSTREAM, concurrency=1)
    world = make_world(mode=Mode.INBOX, upstream=upstream)
    gate = Gate(says(200))
    world.consumer.answers(gate, says(200))
    await world.deliver("evt_1")
    await gate.reached.wait()
    assert await world.deliver("evt_2") == STORED
    assert (world.entry("evt_2").state, world.entry("evt_2").attempt) == (EntryState.PENDING, 0)
    gate.open()
    await world.settled()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (1, False)
    assert world.entry("evt_2").state is EntryState.DELIVERED


async def test_a_fresh_event_is_sent_before_forty_more_of_ten_thousand_old_ones(
    make_world: MakeWorld,
) -> None:
    upstream = replace(routes.UPSTREAM, concurrency=4)
    world = make_world(mode=Mode.INBOX, upstream=upstream)
    backlog(world, 10_000)

    async def slowly() -> Outcome:
        await asyncio.sleep(0.001)
        return says(200)

    world.consumer.answers(slowly)
    world.deliverer.wake()
    await eventually(lambda: len(world.consumer.received) >= 100, within=5)
    assert await world.deliver("fresh") == STORED
    sent_before = len(world.consumer.received)

    def sent_after() -> int | None:
        """How many old ones went before it, once it is sent."""
        bodies = [sent.body for sent in world.consumer.received[sent_before:]]
        fresh = delivery("fresh").body
        return bodies.index(fresh) + 1 if fresh in bodies else None

    assert await eventually(sent_after, within=5) <= 40


async def test_an_event_older_than_the_retention_is_counted_once_and_marked(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.INBOX, retention=timedelta(days=1))
    world.consumer.answers(Unreached("connect_refused"), says(200))
    await world.deliver(at=1_700_000_000)
    await world.settled()
    world.pass_by(10)
    await world.work()
    assert [sent.marked for sent in world.consumer.received] == [True, True]
    assert world.counted["stale"] == 1


async def test_a_delivery_without_an_id_passes_through_unstored(inbox: World) -> None:
    await inbox.deliver(None)
    assert len(inbox.consumer.received) == 1
    assert inbox.counted["delivery", Verdict.UNKEYED] == 1
    assert inbox.shop.claims.entries == {}


async def test_a_sender_may_not_nominate_the_header_of_the_id_away(make_world: MakeWorld) -> None:
    by_header = Recipe((Literal("orders"),), (Header("X-Event"),))
    assert make_world(mode=Mode.INBOX, recipe=by_header).receiver.decisive == {b"x-event"}
