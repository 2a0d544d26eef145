"""What is noted in `observe`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.keying import Recipe
from gateway.core.location import Header, Json, Literal
from gateway.core.observing import DELIVERIES, OTHER_TYPE, UNCHECKED, What
from gateway.core.outcome import Ambiguous
from gateway.core.route import Mode, Route
from gateway.flow import observer
from tests.flow.batched import WHOLE, bring
from tests.flow.consumer import says
from tests.flow.seals import Seals, sealed
from tests.flow.world import EPOCH, MakeWorld, World, delivery, fingerprints_differ

BY_HEADER = Recipe((Literal("orders"),), (Header("X-Delivery"),))
ORDER = {"type": "order.paid", "amount": 12}


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(mode=Mode.OBSERVE)


@pytest.fixture
async def by_header(make_world: MakeWorld) -> World:
    return make_world(mode=Mode.OBSERVE, recipe=BY_HEADER)


async def send(world: World, delivery_id: str, **members: object) -> None:
    sent = delivery("evt_1", **members)
    await world.receiver.receive(
        sent._replace(headers=(*sent.headers, (b"X-Delivery", delivery_id.encode())))
    )
    await world.settled()


async def test_each_delivery_is_noted_once_as_what_forward_would_have_made_of_it(
    world: World,
) -> None:
    world.consumer.answers(says(401), Ambiguous("timeout"), says(200))
    for _ in range(4):
        await world.deliver("evt_1")
        await world.settled()
    world.wait(4 * 86400)
    await world.deliver("evt_1")
    await world.deliver({"no": "id"})
    await world.receiver.receive(delivery("evt_1")._replace(method="GET"))
    world.shop.away = True
    await world.deliver("evt_1")
    world.shop.away = False
    found = await world.noted()
    assert found == {
        (What.NEW, ""): 1,
        (What.BODY, ""): 1,
        (What.AGAIN, ""): 1,
        (What.AGAIN, "marked"): 1,
        (What.DURABLE, "retry"): 1,
        (What.DURABLE, "redrive"): 1,
        (What.TAKEN_AGAIN, ""): 2,
        (What.UNKEYED, "json:/event_id"): 1,
        (What.PASSED, ""): 1,
        (What.BYPASSED, ""): 1,
    }
    deliveries = sum(number for (what, _), number in found.items() if what in DELIVERIES)
    assert deliveries == len(world.consumer.received)
    assert world.notebook.example(What.TAKEN_AGAIN) == "evt_1"


async def test_a_route_that_enforces_notes_nothing(make_world: MakeWorld) -> None:
    for mode in (Mode.FORWARD, Mode.INBOX):
        world = make_world(mode=mode)
        await world.deliver("evt_1")
        await world.deliver("evt_1")
        assert await world.noted() == {}


async def test_a_duplicate_beside_the_first_is_noted_as_one_that_would_wait(world: World) -> None:
    gate, first = await world.forwarding(says(200), says(500))
    await world.deliver()
    gate.open()
    await first
    found = await world.noted()
    assert found[What.CONCURRENT, ""] == 1
    assert (What.TAKEN_AGAIN, "") not in found  # the consumer refused this one


async def test_one_id_with_another_body_is_noted_with_an_example(world: World) -> None:
    await world.deliver()
    await world.settled()
    await world.deliver(**fingerprints_differ())
    assert (await world.noted())[What.MISMATCH, ""] == 1
    assert world.notebook.example(What.MISMATCH) == "evt_1"


@pytest.mark.parametrize(("kind", "detail"), [("order.paid", ""), ("order.refunded", OTHER_TYPE)])
async def test_another_type_under_one_id_says_that_it_is_another_event(
    world: World, kind: str, detail: str
) -> None:
    await world.deliver(type="order.paid")
    await world.settled()
    await world.deliver(type=kind, **fingerprints_differ())
    assert (await world.noted())[What.MISMATCH, detail] == 1


async def test_what_a_provider_changes_with_every_attempt_is_no_other_body(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.OBSERVE, per_attempt=(("amount",),))
    await world.deliver(amount=1)
    await world.settled()
    await world.deliver(**fingerprints_differ())
    assert (What.MISMATCH, "") not in await world.noted()


async def test_a_body_that_comes_again_under_another_id_is_noted_once(by_header: World) -> None:
    for attempt in range(4):
        await send(by_header, f"delivery-{attempt}", **ORDER)
    await send(by_header, "delivery-9", **{**ORDER, "amount": 13})
    found = await by_header.noted()
    assert found[What.SAME_BODY, ""] == 1
    assert found[What.BODY, ""] == 2
    assert by_header.notebook.example(What.SAME_BODY) == "delivery-1"


async def test_a_delivery_id_inside_the_body_does_not_hide_that_it_comes_again(
    world: World,
) -> None:
    for attempt in range(2):
        await world.deliver(f"delivery-{attempt}", **ORDER)
    assert (await world.noted())[What.SAME_BUT_ID, ""] == 1


async def test_two_events_of_one_operation_may_have_two_bodies(make_world: MakeWorld) -> None:
    recipe = replace(BY_HEADER, operation=(Json(("order",)),))
    world = make_world(mode=Mode.OBSERVE, recipe=recipe)
    await send(world, "evt_1", order="ord_1", **ORDER)
    await send(world, "evt_2", order="ord_1", **{**ORDER, "amount": 13})
    found = await world.noted()
    assert found[What.DURABLE, "operation"] == 1
    assert (What.MISMATCH, "") not in found


async def test_an_operation_that_is_new_with_every_delivery_is_noted_like_such_an_id(
    make_world: MakeWorld,
) -> None:
    recipe = Recipe(BY_HEADER.scope, (Json(("event_id",)),), operation=BY_HEADER.parts)
    world = make_world(mode=Mode.OBSERVE, recipe=recipe)
    for attempt in range(2):
        await send(world, f"delivery-{attempt}", **ORDER)
    assert (await world.noted())[What.SAME_BUT_ID, ""] == 1


async def test_a_route_remembers_only_so_many_bodies_and_those_that_came_last(
    by_header: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "MOST_REMEMBERED", 2)

    async def bring(delivery_id: str, amount: int) -> int:
        await send(by_header, delivery_id, **{**ORDER, "amount": amount})
        return (await by_header.noted()).get((What.SAME_BODY, ""), 0)

    assert await bring("delivery-1", 1) == 0
    assert await bring("delivery-2", 2) == 0
    assert await bring("delivery-3", 1) == 1
    assert await bring("delivery-4", 3) == 1
    assert await bring("delivery-5", 2) == 1  # gone: nobody brought it since
    assert await bring("delivery-6", 3) == 2


async def test_a_reload_keeps_the_bodies_unless_the_key_is_another(by_header: World) -> None:
    before = by_header.route
    mended = replace(before, recipe=replace(BY_HEADER, scope=(Literal("new"),)))

    async def bring(number: int, route: Route, amount: int = 1) -> int:
        by_header.receiver = by_header.receiving(route)
        await send(by_header, f"delivery-{number}", **{**ORDER, "amount": amount})
        return (await by_header.noted()).get((What.SAME_BODY, ""), 0)

    assert await bring(1, before) == 0
    assert await bring(2, replace(before, lease=99.0)) == 1
    assert await bring(3, before, amount=2) == 1
    assert await bring(4, mended) == 1
    assert await bring(5, mended) == 2
    assert await bring(6, before, amount=2) == 2  # of the first key nothing is kept


async def test_the_items_of_a_batch_are_noted_each_and_the_batch_as_one_delivery(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.OBSERVE, batch=WHOLE)
    for items in (
        ({"id": "a", "type": "y"}, "b"),
        ("b", {"id": "a", "type": "y"}),
        ("b", "c", None),
        ({"id": "a", "type": "x"},),
        ("c", None),
    ):
        await bring(world, *items)
        await world.settled()
    assert await world.noted() == {
        (What.BATCH, "new"): 1,
        (What.BATCH, "durable"): 2,
        (What.BATCH, "mixed"): 2,
        (What.ITEM, "new"): 3,
        (What.ITEM, "durable"): 5,
        (What.ITEM, "unkeyed"): 2,
        (What.TAKEN_AGAIN, ""): 5,
        (What.MISMATCH, OTHER_TYPE): 1,
        (What.BODY, ""): 1,
    }
    assert world.notebook.example(What.MISMATCH) == "a"


async def test_a_bad_signature_is_noted_by_its_flaw(signed: MakeWorld) -> None:
    world = signed(Mode.OBSERVE)
    await world.receiver.receive(delivery())
    await world.receiver.receive(sealed(EPOCH, "evt_1", secret="guessed"))
    assert await world.noted() == {(What.UNSIGNED, "missing"): 1, (What.UNSIGNED, "wrong"): 1}


async def test_where_keys_cannot_be_had_no_flaw_is_noted(signed: MakeWorld) -> None:
    world = signed(Mode.OBSERVE)
    assert isinstance(world.verifier, Seals)
    world.verifier.why = "no answer"
    await world.receiver.receive(sealed(EPOCH, "evt_1"))
    assert await world.noted() == {(What.UNSIGNED, UNCHECKED): 1}
