"""What is counted and told of batches, and what their forwards say of themselves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.core.answer import Duplicate
from gateway.core.claim import Ending, State
from gateway.core.retention import Shape
from gateway.core.route import Mode, ReplayReply
from gateway.core.signature import Signature
from tests.flow.batched import (
    FILTER,
    bring,
    bringing,
    end,
    hold,
    key,
    print_of,
    sent,
    states,
)
from tests.flow.consumer import says
from tests.flow.world import MakeWorld, World
from tests.rig.deadline import eventually


@pytest.fixture
async def filtering(make_world: MakeWorld) -> World:
    return make_world(batch=FILTER)


async def test_items_count_as_events_with_their_types_once_accepted(filtering: World) -> None:
    filtering.consumer.answers(says(500), says(200))
    items = [{"id": "a", "type": "open"}, {"id": "b", "type": "click"}, {"id": "c", "type": "open"}]
    await bring(filtering, *items)
    assert filtering.counted["event", "open"] == 0
    await bring(filtering, *items)
    assert [filtering.counted["event", kind] for kind in ("open", "click")] == [2, 1]
    await bring(filtering, items[0], items[2])
    assert filtering.counted["duplicate", "open", Shape.RETRY] == 1
    await bring(filtering, *items)
    assert filtering.counted["duplicate", None, Shape.RETRY] == 1


async def test_a_batch_is_a_redrive_when_its_youngest_item_is_that_old(filtering: World) -> None:
    await bring(filtering, "old")
    filtering.wait(73 * 3600)
    await bring(filtering, "young")
    await bring(filtering, "old", "young")
    filtering.wait(73 * 3600)
    await bring(filtering, "old", "young")
    shapes = [filtering.counted["duplicate", None, shape] for shape in (Shape.RETRY, Shape.REDRIVE)]
    assert shapes == [1, 1]


async def test_the_same_item_with_other_bytes_is_counted_once_for_each(filtering: World) -> None:
    await bring(filtering, *({"id": name, "n": 0} for name in "abc"))
    changed = [{"id": name, "n": other(name)} for name in "ab"]
    await bring(filtering, *changed, {"id": "c", "n": 0}, "d")
    assert filtering.counted["mismatch"] == 2
    assert sent(filtering)[-1] == ["d"]


async def test_items_of_one_id_with_other_bodies_in_one_batch_are_counted_and_none_is_dropped(
    filtering: World,
) -> None:
    """One claim has them all, and yet they are no repeats: more likely the key is wrong."""
    alike, differs = {"id": "a", "n": 0}, {"id": "a", "n": other("a")}
    await bring(filtering, "seen")
    await bring(filtering, "seen", alike, differs, alike)
    assert filtering.counted["mismatch"] == 1
    assert json.loads(filtering.consumer.received[-1].body) == [alike, differs]


async def test_other_bytes_are_counted_once_however_often_their_batch_asks(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, promise=None)
    token = await hold(world, "busy")
    held = print_of({"id": "busy"})
    changed = next(n for n in range(99) if print_of({"id": "busy", "n": n}) != held)
    waiting = bringing(world, {"id": "busy", "n": changed}, "new")
    await eventually(lambda: world.shop.claims.asked >= 5, within=4)
    await end(world, token, Ending.COMPLETE, "busy")
    await waiting
    assert sent(world) == [["new"]]
    assert world.counted["mismatch"] == 1


def other(name: str) -> int:
    first = print_of({"id": name, "n": 0})
    return next(n for n in range(1, 99) if print_of({"id": name, "n": n}) != first)


async def test_stale_items_are_counted_and_mark_the_batch(filtering: World) -> None:
    old = "2020-01-01T00:00:00Z"
    await bring(filtering, {"id": "a", "at": old}, {"id": "b", "at": old}, "c")
    assert filtering.counted["stale"] == 2
    assert filtering.consumer.last.marked


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.INBOX])
async def test_stale_items_are_counted_once_though_their_batch_had_to_wait(
    make_world: MakeWorld, mode: Mode
) -> None:
    world = make_world(batch=FILTER, mode=mode, promise=None)
    token = await hold(world, "busy")
    old = {"id": "old", "at": "2020-01-01T00:00:00Z"}
    waiting = bringing(world, old, "busy", "new")
    await eventually(lambda: states(world, "old") == [State.RELEASED], within=4)
    await end(world, token, Ending.RELEASE, "busy")
    await waiting
    await world.settled()
    assert world.consumer.last.marked
    assert (world.consumer.last.attempt, world.counted["stale"]) == (2, 1)


async def test_only_a_verified_provider_is_told_when_its_batch_came_first(
    make_world: MakeWorld,
) -> None:
    signature = Signature("hmac", ("s",), (), None, None, (), frozenset(), resign=False)
    signed, plain = make_world(batch=FILTER, signature=signature), make_world(batch=FILTER)
    told = []
    for world in (signed, plain):
        await bring(world, "a")
        world.wait(60)
        await bring(world, "b")
        answer = await bring(world, "a", "b")
        assert isinstance(answer, Duplicate)
        told.append(answer.first_seen)
    assert told == [1_800_000_060.0, None]


async def test_a_batch_that_was_let_through_again_has_another_reply(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, duplicate_reply=ReplayReply())
    told = []
    for body in (b"first", b"second"):
        world.consumer.answers(says(200, body))
        await bring(world, "a", "b")
        answer = await bring(world, "b", "a")
        assert isinstance(answer, Duplicate)
        assert answer.kept is not None
        told.append(answer.kept.body)
        for name in "ab":
            row = world.shop.claims.rows[key(name).digest]
            released = replace(row, state=State.RELEASED, doubtful=True)
            world.shop.claims.rows[key(name).digest] = released
    assert told == [b"first", b"second"]


async def test_no_reply_is_kept_of_a_batch_that_is_never_a_duplicate(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER, duplicate_reply=ReplayReply())
    await bring(world, "a", {"n": 1})
    assert world.replies.kept == {}


async def test_an_idempotency_key_is_that_of_the_same_bytes_where_an_item_has_no_id(
    make_world: MakeWorld,
) -> None:
    world = make_world(batch=FILTER, idempotency_key=True)
    world.consumer.answers(says(500), says(500), says(200))
    for n in (1, 1, 2):
        await bring(world, "a", {"n": n})
    first, second, other = (one.header("Idempotency-Key") for one in world.consumer.received)
    assert first == second
    assert other not in (first, None)


async def test_an_idempotency_key_is_the_batchs_own(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER, idempotency_key=True)
    world.consumer.answers(says(500), says(200))
    await bring(world, "a", "b")
    await bring(world, "b", "a")
    first, second = (one.header("Idempotency-Key") for one in world.consumer.received)
    assert first == second
    assert first is not None
    assert len(first) == 32
    await bring(world, "a", "c")
    assert world.consumer.last.header("Idempotency-Key") not in (first, "c")
