"""Conversations in observe mode: nothing that a provider or a consumer could notice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Duplicate, Unanswered, Verdict
from gateway.core.claim import Arrival, Ask, State, StoreAway
from gateway.core.event import Delivery
from gateway.core.keying import Recipe
from gateway.core.location import Header, Literal
from gateway.core.outcome import Ambiguous, Outcome
from gateway.core.retention import Shape
from gateway.core.route import Mode, OnMissingId
from tests.flow.consumer import Gate, reply, says
from tests.flow.world import LEASE, MakeWorld, World, dies, fingerprints_differ, forwarded


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(mode=Mode.OBSERVE)


async def test_an_observer_forwards_duplicates_and_says_nothing_of_them(world: World) -> None:
    for _ in range(2):
        answer = forwarded(await world.deliver())
        assert answer == Answered(reply(200), answer.verdict, visible=False)
        await world.settled()
    assert len(world.consumer.received) == 2
    assert world.counted["delivery", Verdict.FIRST] == 1
    assert world.counted["delivery", Verdict.DUPLICATE] == 1
    assert world.counted["duplicate", None, Shape.RETRY] == 1


async def test_an_event_that_an_observer_lets_through_twice_is_one_event(world: World) -> None:
    gate, first = await world.forwarding(says(200), says(200), says(200))
    await world.deliver()
    gate.open()
    await first
    await world.settled()
    await world.deliver()
    assert world.counted["delivery", Verdict.DUPLICATE] == 2
    assert world.counted["event", None] == 1


async def test_an_observer_adds_no_headers(world: World) -> None:
    await world.deliver()
    assert [name for name, _ in world.consumer.last.headers] == [b"Host", b"Content-Length"]


async def test_switching_to_forward_keeps_the_memory(world: World) -> None:
    await world.deliver()
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    assert isinstance(await world.deliver(), Duplicate)


async def test_an_observer_does_not_need_the_store(world: World) -> None:
    world.shop.away = True
    assert forwarded(await world.deliver()).verdict is Verdict.BYPASSED
    world.shop.away = False
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    assert isinstance(await world.deliver(), Duplicate)


async def test_an_observer_never_waits_for_another_delivery(world: World) -> None:
    stuck = asyncio.Event()

    async def waits() -> Outcome:
        await stuck.wait()
        return says(200)

    world.consumer.answers(waits, says(200))
    first = world.delivering()
    while not world.consumer.received:
        await asyncio.sleep(0)
    assert forwarded(await world.deliver()).verdict is Verdict.DUPLICATE
    assert world.counted["duplicate", None, Shape.CONCURRENT] == 1
    stuck.set()
    await first
    await world.settled()
    assert world.counted["late_success"] == 0


async def test_an_observer_refuses_neither_missing_nor_conflicting_ids(
    make_world: MakeWorld,
) -> None:
    recipe = Recipe((Literal("orders"),), (Header("X-Event-Id"),))
    world = make_world(mode=Mode.OBSERVE, recipe=recipe, missing_id=OnMissingId.REFUSE)
    for lines in ((), ((b"X-Event-Id", b"a"), (b"X-Event-Id", b"b"))):
        sent = Delivery("POST", "/hooks/orders", lines, b"", "10.0.0.9", "http")
        assert forwarded(await world.receiver.receive(sent)).verdict is Verdict.UNKEYED
    assert len(world.consumer.received) == 2


async def test_a_failed_first_delivery_leaves_the_doubt_that_forward_mode_would(
    world: World,
) -> None:
    world.consumer.answers(Ambiguous("reset"), says(200))
    failed = await world.deliver()
    assert failed == Unanswered(Verdict.FIRST, timed_out=False, sent=True, visible=False)
    await world.settled()
    world.receiver = world.receiving(replace(world.route, mode=Mode.FORWARD))
    await world.deliver()
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (2, True)


async def test_an_observers_forward_that_breaks_leaves_no_claim_to_lapse(world: World) -> None:
    async def breaks() -> Outcome:
        raise ValueError("not a request")

    world.consumer.answers(breaks)
    with pytest.raises(ValueError, match="not a request"):
        await world.deliver()
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert (row.state, row.doubtful) == (State.RELEASED, True)


async def test_an_observers_lost_claim_is_given_back_even_when_it_is_made_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = world.shop.claims.arrive
    late: list[Ask] = []

    async def lost(asked: Ask, *, within: float) -> Arrival:
        late.append(asked)
        raise StoreAway("no answer in time", undecided=True)

    monkeypatch.setattr(world.shop, "arrive", lost)
    world.consumer.answers(says(401))
    await world.deliver()
    await asyncio.sleep(0.05)  # the first release finds nothing
    await ask(late[0], within=1)
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert row.state is State.RELEASED


async def test_an_observer_settles_nothing_for_a_claim_that_was_not_made(world: World) -> None:
    world.shop.away = True
    world.consumer.answers(says(500))
    await world.deliver()
    assert world.recorder.pending == 0


async def test_an_observer_says_nothing_of_what_is_no_event_either(world: World) -> None:
    get = Delivery("GET", "/hooks/orders", (), b"", "10.0.0.9", "http")
    assert not forwarded(await world.receiver.receive(get)).visible
    assert not forwarded(await world.deliver(None)).visible


async def test_an_observer_waits_for_the_store_for_a_quarter_of_a_second_at_most(
    world: World,
) -> None:
    await world.deliver()
    assert world.shop.patience == [0.25]


async def test_an_observer_counts_what_forward_mode_would(world: World) -> None:
    await dies(world)
    world.wait(LEASE + 1)
    await world.deliver(at=world.shop.claims.now)
    assert (world.counted["takeover"], world.counted["possible_double"]) == (1, 1)
    await world.settled()
    await world.deliver(**fingerprints_differ())
    assert world.counted["mismatch"] == 1
    await world.deliver("evt_old", at=world.shop.claims.now - 46 * 86400)
    assert world.counted["stale"] == 1


async def test_an_observers_success_completes_what_another_holder_leaves_undecided(
    world: World,
) -> None:
    await dies(world)
    await world.deliver()
    await world.settled()
    (row,) = world.shop.claims.rows.values()
    assert row.state is State.COMPLETED


async def test_an_observers_success_closes_the_entry_of_a_route_that_left_inbox_mode(
    world: World,
) -> None:
    """Else the deliverer would send the event once more, and nothing would be marked."""
    world.owes("evt_1")
    await world.deliver()
    await world.settled()
    assert world.claim().state is State.COMPLETED
    await world.work()
    assert len(world.consumer.received) == 1


async def test_an_observers_failure_leaves_an_entry_alone(world: World) -> None:
    world.owes("evt_1")
    before = world.entry()
    world.consumer.answers(says(500))
    await world.deliver()
    await world.settled()
    assert world.entry() == before


async def test_an_observers_failure_leaves_another_holders_claim_alone(
    world: World, make_world: MakeWorld
) -> None:
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
