"""Which deliveries are the same event, and which are none at all."""

from __future__ import annotations

import pytest

from gateway.core.answer import Duplicate, Reason, Rejected, Verdict
from gateway.core.event import Delivery
from gateway.core.keying import Recipe
from gateway.core.location import Header, Json, Literal
from gateway.core.route import OnMissingId
from tests.flow.world import MakeWorld, World, forwarded


@pytest.mark.parametrize("event_id", [None, "", "   ", True, 7.5, [1], {"a": 1}])
async def test_without_a_usable_id_every_delivery_passes_through_unprotected(
    world: World, event_id: object
) -> None:
    for _ in range(2):
        assert forwarded(await world.deliver(event_id)).verdict is Verdict.UNKEYED
    assert len(world.consumer.received) == 2
    assert world.consumer.last.header("Dedup-Event-Id") is None
    assert world.counted["delivery", Verdict.UNKEYED] == 2


async def test_a_route_may_refuse_what_has_no_id(make_world: MakeWorld) -> None:
    world = make_world(missing_id=OnMissingId.REFUSE)
    answer = await world.deliver("")
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (400, Reason.MISSING_ID)
    assert world.consumer.received == []


async def test_two_different_ids_are_refused(make_world: MakeWorld) -> None:
    world = make_world(recipe=Recipe((Literal("orders"),), (Header("X-Event-Id"),)))
    lines = ((b"X-Event-Id", b"a"), (b"x-event-id", b"b"))
    two = Delivery("POST", "/hooks/orders", lines, b"", "10.0.0.9", "http")
    answer = await world.receiver.receive(two)
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.reason) == (400, Reason.CONFLICTING_ID)
    assert world.consumer.received == []


async def test_other_methods_pass_through_unclaimed_every_time(world: World) -> None:
    get = Delivery("GET", "/hooks/orders?challenge=1", (), b"", "10.0.0.9", "http")
    for _ in range(3):
        assert forwarded(await world.receiver.receive(get)).verdict is Verdict.PASSED
    assert len(world.consumer.received) == 3
    assert world.steps == []


async def test_a_new_event_older_than_the_retention_is_marked_and_counted(world: World) -> None:
    old = world.shop.claims.now - 46 * 86400
    await world.deliver("evt_old", at=old)
    assert world.consumer.last.marked
    assert world.counted["stale"] == 1
    await world.deliver("evt_new", at=world.shop.claims.now)
    assert not world.consumer.last.marked


async def test_another_body_under_a_known_id_is_still_a_duplicate_and_counted(world: World) -> None:
    await world.deliver(amount=1)
    changed = [await world.deliver(amount=amount) for amount in range(2, 12)]
    assert all(isinstance(answer, Duplicate) for answer in changed)
    assert world.counted["mismatch"] >= 8  # a fingerprint of eight bits misses one in 256


async def test_the_same_id_under_another_scope_is_another_event(world: World) -> None:
    await world.deliver()
    elsewhere = Recipe((Literal("invoices"),), (Json(("event_id",)),))
    other = World(shop=world.shop, name="invoices", recipe=elsewhere)
    assert forwarded(await other.deliver()).verdict is Verdict.FIRST
