"""Batches in forward mode: new, seen and mixed ones, and what becomes of each item."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from gateway.core.answer import Answered, Duplicate, Reason, Rejected, Verdict
from gateway.core.claim import State
from gateway.core.event import Delivery
from gateway.core.keying import Recipe
from gateway.core.outcome import Ambiguous, Outcome, Unreached
from gateway.core.retention import Shape
from gateway.core.route import OnDoubt, OnMissingId, OnStoreDown
from tests.flow.batched import (
    FILTER,
    WHOLE,
    batch,
    bring,
    claim,
    entries,
    hold,
    sent,
    states,
)
from tests.flow.consumer import reply, says
from tests.flow.world import LEASE, MakeWorld, World, answered, forwarded

COMPLETED, RELEASED = State.COMPLETED, State.RELEASED
BOTH = pytest.mark.parametrize("how", [FILTER, WHOLE], ids=["filter", "whole"])


@pytest.fixture
async def filtering(make_world: MakeWorld) -> World:
    return make_world(batch=FILTER)


@pytest.fixture
async def whole(make_world: MakeWorld) -> World:
    return make_world(batch=WHOLE)


@BOTH
@pytest.mark.row(110)
async def test_a_new_batch_is_forwarded_as_it_came_and_settled_together(
    make_world: MakeWorld, how: object
) -> None:
    world = make_world(batch=how)
    world.consumer.answers(says(201, b"made"))
    answer = await bring(world, "a", "b", "c")
    assert answer == Answered(reply(201, b"made"), Verdict.FIRST)
    assert world.consumer.last.body == batch("a", "b", "c").body
    assert (world.consumer.last.attempt, world.consumer.last.marked) == (1, False)
    assert world.consumer.last.header("Dedup-Event-Id") == "a%2Cb%2Cc"
    assert states(world, "a", "b", "c") == [COMPLETED] * 3
    assert len(world.shop.claims.rows) == 3
    assert world.counted["delivery", Verdict.FIRST] == 1
    assert world.counted["items", Verdict.FIRST] == 3


@BOTH
async def test_a_batch_of_which_all_was_seen_is_a_duplicate_in_any_order(
    make_world: MakeWorld, how: object
) -> None:
    world = make_world(batch=how)
    await bring(world, "a", "b")
    await bring(world, "c")
    assert isinstance(await bring(world, "c", "b", "a", "b"), Duplicate)
    assert len(world.consumer.received) == 2
    assert world.counted["delivery", Verdict.DUPLICATE] == 1
    assert world.counted["items", Verdict.DUPLICATE] == 4
    assert world.counted["duplicate", None, Shape.RETRY] == 1


async def test_of_a_mixed_batch_only_what_is_new_is_forwarded(filtering: World) -> None:
    await bring(filtering, "a", "b")
    answer = await bring(filtering, "a", "c", "b", "d", "c")
    assert answered(answer).verdict is Verdict.FIRST
    assert sent(filtering) == [["a", "b"], ["c", "d"]]
    assert not filtering.consumer.last.marked
    assert states(filtering, "a", "b", "c", "d") == [COMPLETED] * 4
    assert filtering.counted["items", Verdict.FIRST] == 4
    assert filtering.counted["items", Verdict.DUPLICATE] == 3
    assert filtering.counted["possible_double"] == 0


async def test_or_the_batch_is_forwarded_whole_marked_and_counted(whole: World) -> None:
    await bring(whole, "a", "b")
    await bring(whole, "a", "c")
    assert sent(whole) == [["a", "b"], ["a", "c"]]
    assert whole.consumer.last.marked
    assert states(whole, "a", "b", "c") == [COMPLETED] * 3
    assert whole.counted["possible_double"] == 1
    assert [whole.counted["items", v] for v in (Verdict.FIRST, Verdict.DUPLICATE)] == [3, 1]


async def test_a_repeat_inside_a_body_is_one_item(filtering: World, whole: World) -> None:
    await bring(filtering, "a", "a", "b")
    assert sent(filtering) == [["a", "b"]]
    assert not filtering.consumer.last.marked
    await bring(whole, "a", "a", "b")
    assert sent(whole) == [["a", "a", "b"]]
    assert whole.consumer.last.marked
    assert [filtering.counted["items", v] for v in (Verdict.FIRST, Verdict.DUPLICATE)] == [2, 1]


async def test_an_item_without_an_id_counts_as_new_every_time(filtering: World) -> None:
    for _ in range(2):
        await bring(filtering, "a", {"n": 1})
    await bring(filtering, "b", "a", {"n": 1})
    assert sent(filtering) == [["a", None], [None], ["b", None]]
    assert states(filtering, "a", "b") == [COMPLETED] * 2
    assert len(filtering.shop.claims.rows) == 2
    assert [filtering.counted["delivery", v] for v in (Verdict.FIRST, Verdict.UNKEYED)] == [2, 1]
    assert filtering.counted["items", Verdict.UNKEYED] == 3
    assert filtering.counted["items", Verdict.DUPLICATE] == 2
    assert filtering.consumer.last.header("Dedup-Verdict") is None


async def test_whole_is_marked_too_where_only_what_has_no_id_is_new(whole: World) -> None:
    await bring(whole, "a", {"n": 1})
    assert not whole.consumer.last.marked
    await bring(whole, "a", {"n": 2})
    assert sent(whole) == [["a", None], ["a", None]]
    assert whole.consumer.last.marked


async def test_a_batch_without_any_id_is_unprotected_or_refused(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER)
    assert forwarded(await bring(world, {"n": 1}, {"n": 2})).verdict is Verdict.UNKEYED
    assert world.counted["items", Verdict.UNKEYED] == 2
    strict = make_world(batch=FILTER, missing_id=OnMissingId.REFUSE)
    refused = await bring(strict, {"n": 1}, {"n": 2})
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.status) == (Reason.MISSING_ID, 400)
    assert strict.counted["items", Verdict.UNKEYED] == 0
    assert answered(await bring(strict, "a", {"n": 1})).verdict is Verdict.FIRST


async def test_an_empty_batch_has_no_event_in_it(filtering: World) -> None:
    assert forwarded(await bring(filtering)).verdict is Verdict.PASSED
    assert filtering.shop.claims.rows == {}


async def test_a_body_without_the_list_goes_by_the_routes_own_id(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER)
    await world.deliver("evt_1")
    assert isinstance(await world.deliver("evt_1"), Duplicate)
    scope = world.route.recipe.scope
    world = make_world(batch=FILTER, recipe=Recipe(scope, ()))
    assert forwarded(await world.deliver("evt_1")).verdict is Verdict.UNKEYED


async def test_a_route_that_passes_through_claims_nothing(make_world: MakeWorld) -> None:
    world = make_world(pass_through="its events have no ids")
    for _ in range(2):
        assert forwarded(await world.deliver()).verdict is Verdict.PASSED
    assert len(world.consumer.received) == 2
    assert world.shop.claims.rows == {}


@pytest.mark.parametrize(
    ("outcome", "doubtful"),
    [
        (says(500), True),
        (says(503), True),
        (Ambiguous("timeout", timed_out=True), True),
        (says(400), False),
        (Unreached("refused"), False),
    ],
)
async def test_a_failure_releases_every_item_with_or_without_doubt(
    filtering: World, outcome: Outcome, doubtful: bool
) -> None:
    filtering.consumer.answers(outcome, says(200))
    await bring(filtering, "a", "b")
    assert states(filtering, "a", "b") == [RELEASED] * 2
    await bring(filtering, "b", "a")
    assert (filtering.consumer.last.attempt, filtering.consumer.last.marked) == (2, doubtful)
    assert states(filtering, "a", "b") == [COMPLETED] * 2
    assert filtering.counted["possible_double"] == doubtful


async def test_one_item_in_doubt_marks_the_whole_batch(filtering: World) -> None:
    filtering.consumer.answers(Ambiguous("reset"), says(200))
    await bring(filtering, "a")
    await bring(filtering, "b", "a")
    assert (filtering.consumer.last.attempt, filtering.consumer.last.marked) == (2, True)
    assert not claim(filtering, "b").doubtful


async def test_a_narrowed_batch_that_failed_leaves_what_was_seen_alone(filtering: World) -> None:
    await bring(filtering, "a")
    filtering.consumer.answers(says(500), says(200))
    await bring(filtering, "a", "b")
    assert states(filtering, "a", "b") == [COMPLETED, RELEASED]
    await bring(filtering, "a", "b")
    assert sent(filtering) == [["a"], ["b"], ["b"]]
    assert filtering.consumer.last.marked


async def test_a_holder_that_died_is_taken_over_for_all_items_at_once(filtering: World) -> None:
    await hold(filtering, "a", "b")
    filtering.pass_by(LEASE + 1)
    await bring(filtering, "a", "b", "c")
    assert (filtering.consumer.last.attempt, filtering.consumer.last.marked) == (2, True)
    assert filtering.counted["takeover"] == 1
    assert states(filtering, "a", "b", "c") == [COMPLETED] * 3


async def test_an_integer_id_is_the_same_item_as_its_text(filtering: World) -> None:
    await bring(filtering, 7, "8")
    assert isinstance(await bring(filtering, 8, "7"), Duplicate)


async def test_an_item_is_the_same_event_as_a_delivery_of_its_own(make_world: MakeWorld) -> None:
    single = make_world()
    await single.deliver("a")
    world = make_world(shop=single.shop, batch=FILTER)
    await bring(world, "a", "b")
    assert sent(world) == [["b"]]


async def test_a_packed_body_is_narrowed_and_leaves_as_it_is_where_all_is_new(
    filtering: World,
) -> None:
    def packed(*items: object) -> Delivery:
        plain = batch(*items)
        headers = (*plain.headers, (b"Content-Encoding", b"gzip"))
        return plain._replace(headers=headers, body=gzip.compress(plain.body, mtime=0))

    first = packed("a", "b")
    await filtering.receiver.receive(first)
    assert filtering.consumer.last.body == first.body
    assert filtering.consumer.last.header("Content-Encoding") == "gzip"
    await filtering.receiver.receive(packed("a", "c"))
    assert json.loads(filtering.consumer.last.body) == [{"id": "c"}]
    assert filtering.consumer.last.header("Content-Encoding") is None


async def test_doubt_holds_what_is_new_in_a_batch_for_a_person(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER, on_doubt=OnDoubt.HOLD)
    await bring(world, "seen")
    world.consumer.answers(Ambiguous("reset"), says(200))
    await bring(world, "a")
    await bring(world, "seen", "a", "b")
    assert sent(world) == [["seen"], ["a"]]
    assert [entry.state.value for entry in entries(world)] == ["held"]
    assert states(world, "seen", "a", "b") == [COMPLETED, State.STORED, State.STORED]
    assert isinstance(await bring(world, "b", "a"), Duplicate)


async def test_without_the_store_a_batch_is_refused_or_forwarded_marked(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER)
    world.shop.away = True
    refused = await bring(world, "a", "b")
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.STORE_AWAY
    loose = make_world(shop=world.shop, batch=FILTER, on_store_down=OnStoreDown.FORWARD)
    assert forwarded(await bring(loose, "a", "b")).verdict is Verdict.BYPASSED
    assert loose.consumer.last.marked
    assert loose.counted["items", Verdict.BYPASSED] == 2
    world.shop.away = False
    await loose.settled()
    assert states(world, "a", "b") == [COMPLETED] * 2


@pytest.mark.parametrize("lost", ["requests_lost", "replies_lost"])
async def test_an_undecided_claim_of_a_batch_is_given_back(filtering: World, lost: str) -> None:
    setattr(filtering.shop, lost, 1)
    assert isinstance(await bring(filtering, "a", "b"), Rejected)
    for _ in range(9):
        await asyncio.sleep(0)
    filtering.pass_by(LEASE + 1)  # so that nobody tries for longer
    await filtering.settled()
    assert State.CLAIMED not in states(filtering, "a", "b")
    await bring(filtering, "a", "b")
    assert not filtering.consumer.last.marked


async def test_five_thousand_items_are_one_forward(filtering: World) -> None:
    names = [f"evt_{n}" for n in range(5000)]
    await bring(filtering, *names[:2500])
    assert answered(await bring(filtering, *names)).verdict is Verdict.FIRST
    assert sent(filtering)[1] == names[2500:]
    assert isinstance(await bring(filtering, *names), Duplicate)
    line = filtering.consumer.last.header("Dedup-Event-Id")
    assert line is not None
    assert len(line) < 100
