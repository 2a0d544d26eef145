"""How an observer knows bodies again, and what it takes for an effect that happened twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.keying import Recipe
from gateway.core.location import Header, Json, Literal
from gateway.core.observing import LONGEST_BODY, ONCE_MORE, What
from gateway.core.route import Mode
from gateway.flow import observer
from tests.flow.batched import WHOLE, bring
from tests.flow.consumer import says
from tests.flow.world import MakeWorld, World, delivery, fingerprints_differ


@pytest.fixture
async def batches(make_world: MakeWorld) -> World:
    return make_world(mode=Mode.OBSERVE, batch=WHOLE)


def item(delivery_id: str, **members: object) -> dict[str, object]:
    return {"id": delivery_id, "order": "order-1234", "type": "paid", **members}


async def test_an_id_of_items_that_is_new_with_every_delivery_is_seen_by_their_bodies(
    batches: World,
) -> None:
    for attempt in range(3):
        items = (item(f"delivery-{attempt}{n}", amount=n) for n in range(2))
        await bring(batches, *items)
        await batches.settled()
    found = await batches.noted()
    assert found[What.ITEM, "new"] == 6
    assert found[What.SAME_BUT_ID, ""] == 2
    assert (found[What.BODY, ""], found[What.BODY, ONCE_MORE]) == (2, 4)
    assert batches.notebook.example(What.SAME_BUT_ID) == "delivery-11"


async def test_items_that_were_seen_say_nothing_about_bodies(batches: World) -> None:
    for _ in range(2):
        await bring(batches, item("event-1"))
        await batches.settled()
    found = await batches.noted()
    assert (found[What.BODY, ""], found[What.ITEM, "durable"]) == (1, 1)
    assert (What.SAME_BUT_ID, "") not in found


async def test_only_so_many_items_and_no_bodies_that_take_long_are_compared(
    batches: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "MOST_COMPARED", 2)
    await bring(batches, *(item(f"event-{n}", amount=n) for n in range(4)))
    assert (await batches.noted())[What.BODY, ""] == 2
    await bring(batches, item("event-5", note="x" * LONGEST_BODY))
    found = await batches.noted()
    assert (found[What.BODY, ""], found[What.ITEM, "new"]) == (2, 5)


async def test_two_events_that_differ_in_two_parts_of_their_id_are_no_attempts_of_one(
    make_world: MakeWorld,
) -> None:
    recipe = Recipe((Literal("orders"),), (Json(("event_id",)), Json(("status",))))
    world = make_world(mode=Mode.OBSERVE, recipe=recipe)
    for message, status in (("msg_1", "sent"), ("msg_2", "read")):
        await world.deliver(message, status=status, to="recipient-1")
    assert (await world.noted())[What.BODY, ""] == 2
    await world.deliver("msg_3", status="sent", to="recipient-1")
    assert (await world.noted())[What.SAME_BUT_ID, ""] == 1


async def test_a_delivery_id_beside_an_id_in_the_body_is_seen_once_for_each_event(
    make_world: MakeWorld,
) -> None:
    recipe = Recipe((Literal("orders"),), (Json(("event_id",)), Header("X-Delivery")))
    world = make_world(mode=Mode.OBSERVE, recipe=recipe)
    for event_id in ("evt_1", "evt_2"):
        for attempt in range(3):
            sent = delivery(event_id, amount=12)
            line = (b"X-Delivery", f"{event_id}-{attempt}".encode())
            await world.receiver.receive(sent._replace(headers=(*sent.headers, line)))
            await world.settled()
    found = await world.noted()
    assert (found[What.SAME_BODY, ""], found[What.BODY, ""]) == (2, 2)
    assert (What.SAME_BUT_ID, "") not in found


async def test_what_met_the_first_one_undecided_is_not_known_to_have_happened_twice(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.OBSERVE)
    gate, first = await world.forwarding(says(500), says(200), says(200))
    await world.deliver()
    gate.open()
    await first
    assert (What.TAKEN_AGAIN, "") not in await world.noted()
    await world.deliver()
    found = await world.noted()
    assert (found[What.CONCURRENT, ""], found[What.TAKEN_AGAIN, ""]) == (1, 1)


async def test_an_event_of_before_a_change_of_per_attempt_is_no_other_body_afterwards(
    make_world: MakeWorld,
) -> None:
    world = make_world(mode=Mode.OBSERVE)
    await world.deliver("evt_1", sent=1)
    await world.settled()
    world.receiver = world.receiving(replace(world.route, per_attempt=(("sent",),)))
    world.wait(60)
    await world.deliver("evt_2", sent=1)
    await world.settled()
    for event_id in ("evt_1", "evt_2"):
        await world.deliver(event_id, sent=2)
    found = await world.noted()
    assert found[What.DURABLE, "retry"] == 2
    assert (What.MISMATCH, "") not in found
    await world.deliver("evt_2", **fingerprints_differ())
    assert (await world.noted())[What.MISMATCH, ""] == 1


@pytest.mark.parametrize("since", [True, False])
async def test_a_first_copy_that_another_gateway_had_is_compared_where_it_came_since(
    make_world: MakeWorld, since: bool
) -> None:
    world = make_world(mode=Mode.OBSERVE)
    other = make_world(mode=Mode.OBSERVE, shop=world.shop)
    mine = (world, "evt_of_mine")
    for taker, event_id in (mine, (other, "evt_1")) if since else ((other, "evt_1"), mine):
        await taker.deliver(event_id)
        await taker.settled()
        world.wait(60)
    await world.deliver("evt_1", **fingerprints_differ())
    assert (await world.noted()).get((What.MISMATCH, ""), 0) == int(since)
