"""Conversations in observe mode: nothing that a provider or a consumer could notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Duplicate, Unanswered, Verdict
from gateway.core.claim import State, StoreAway
from gateway.core.event import Delivery
from gateway.core.keying import Header, Literal, Recipe
from gateway.core.outcome import Ambiguous
from gateway.core.retention import Shape
from gateway.core.route import Mode, OnMissingId
from tests.flow.world import LEASE, Gate, World, dies, fingerprints_differ, reply, says


@pytest.fixture
async def world(make_world: Callable[..., World]) -> World:
    return make_world(mode=Mode.OBSERVE)


async def test_an_observer_forwards_duplicates_and_says_nothing_of_them(world):
    for _ in range(2):
        answer = await world.deliver()
        assert answer == Answered(reply(200), answer.verdict, visible=False)
        await world.settled()
    assert len(world.consumer.received) == 2
    assert world.counted["delivery", Verdict.FIRST] == 1
    assert world.counted["delivery", Verdict.DUPLICATE] == 1
    assert world.counted["duplicate", None, Shape.RETRY] == 1


async def test_an_observer_adds_no_headers(world):
    await world.deliver()
    assert [name for name, _ in world.consumer.last.headers] == [b"Host", b"Content-Length"]


async def test_switching_to_forward_keeps_the_memory(world):
    await world.deliver()
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    assert isinstance(await world.deliver(), Duplicate)


async def test_an_observer_does_not_need_the_store(world):
    world.shop.away = True
    assert (await world.deliver()).verdict is Verdict.BYPASSED
    world.shop.away = False
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    assert isinstance(await world.deliver(), Duplicate)


async def test_an_observer_never_waits_for_another_delivery(world):
    stuck = asyncio.Event()

    async def waits():
        await stuck.wait()
        return says(200)

    world.consumer.answers(waits, says(200))
    first = world.delivering()
    while not world.consumer.received:
        await asyncio.sleep(0)
    assert (await world.deliver()).verdict is Verdict.DUPLICATE
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 1
    stuck.set()
    await first
    await world.settled()
    assert world.counted["late_success"] == 0


async def test_an_observer_refuses_neither_missing_nor_conflicting_ids(
    make_world: Callable[..., World],
):
    recipe = Recipe((Literal("orders"),), (Header("X-Event-Id"),))
    world = make_world(mode=Mode.OBSERVE, recipe=recipe, missing_id=OnMissingId.REFUSE)
    for lines in ((), ((b"X-Event-Id", b"a"), (b"X-Event-Id", b"b"))):
        sent = Delivery("POST", "/hooks/orders", lines, b"", "10.0.0.9", "http")
        assert (await world.receiver.receive(sent)).verdict is Verdict.UNKEYED
    assert len(world.consumer.received) == 2


async def test_a_failed_first_delivery_leaves_the_doubt_that_forward_mode_would(world):
    world.consumer.answers(Ambiguous("reset"), says(200))
    failed = await world.deliver()
    assert failed == Unanswered(Verdict.FIRST, timed_out=False, sent=True, visible=False)
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)


async def test_an_observers_forward_that_breaks_leaves_no_claim_to_lapse(world):
    async def breaks():
        raise ValueError("not a request")

    world.consumer.answers(breaks)
    with pytest.raises(ValueError, match="not a request"):
        await world.deliver()
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert (row.state, row.doubtful) == (State.RELEASED, True)


async def test_an_observers_lost_claim_is_given_back_even_when_it_is_made_later(world):
    ask = world.shop.claims.arrive
    late = []

    async def lost(asked, *, within):
        late.append(asked)
        raise StoreAway("no answer in time", undecided=True)

    world.shop.arrive = lost
    world.consumer.answers(says(401))
    await world.deliver()
    await asyncio.sleep(0.05)  # the first release finds nothing
    await ask(late[0], within=1)
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert row.state is State.RELEASED


async def test_an_observer_settles_nothing_for_a_claim_that_was_not_made(world):
    world.shop.away = True
    world.consumer.answers(says(500))
    await world.deliver()
    assert world.recorder.pending == 0


async def test_an_observer_says_nothing_of_what_is_no_event_either(world):
    get = Delivery("GET", "/hooks/orders", (), b"", "10.0.0.9", "http")
    assert not (await world.receiver.receive(get)).visible
    assert not (await world.deliver(None)).visible


async def test_an_observer_waits_for_the_store_for_a_quarter_of_a_second_at_most(world):
    await world.deliver()
    assert world.shop.patience == [0.25]


async def test_an_observer_counts_what_forward_mode_would(world):
    await dies(world)
    world.wait(LEASE + 1)
    await world.deliver(at=world.shop.claims.now)
    assert (world.counted["takeover"], world.counted["possible_double"]) == (1, 1)
    await world.settled()
    await world.deliver(**fingerprints_differ())
    assert world.counted["mismatch"] == 1
    await world.deliver("evt_old", at=world.shop.claims.now - 46 * 86400)
    assert world.counted["stale"] == 1


async def test_an_observers_success_completes_what_another_holder_leaves_undecided(world):
    await dies(world)
    await world.deliver()
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert row.state is State.COMPLETED


async def test_an_observers_failure_leaves_another_holders_claim_alone(world, make_world):
    holder, gate = make_world(shop=world.shop), Gate(says(200))
    holder.consumer.answers(gate)
    first = holder.delivering()
    await gate.reached.wait()
    world.consumer.answers(says(500))
    await world.deliver()
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert (row.state, row.doubtful) == (State.CLAIMED, False)
    gate.open()
    await first
