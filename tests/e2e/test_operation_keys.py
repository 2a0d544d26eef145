"""Operation keys through the whole program: one operation starts once, whoever asks for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.operating.lines import told
from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = ["literal:ticket", "json:/order/id", "header:X-Topic"]
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
ROUNDS = 10
MODES = pytest.mark.parametrize("route", ["orders", "stored"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(world: World) -> AsyncIterator[list[Gateway]]:
    file = world.file(
        world.route(operation_key=KEY, idempotency_key=True),
        world.route("stored", operation_key=KEY, mode="inbox", retry=RETRY),
        world.route("watched", operation_key=KEY, mode="observe"),
        log_deliveries=True,
    )
    yield [await world.gateway(file) for _ in range(2)]


@pytest.fixture
def gateway(gateways: list[Gateway]) -> Gateway:
    return gateways[0]


def event(event_id: str, order: str, topic: str = "paid", route: str = "orders") -> bytes:
    body = f'{{"event_id": "{event_id}", "order": {{"id": "{order}"}}}}'.encode()
    return sender.request(f"/hooks/{route}", body, headers=[("X-Topic", topic), ("X-Rig", order)])


@MODES
async def test_two_events_of_one_operation_start_it_once_and_are_told_apart(
    world: World, gateway: Gateway, route: str
) -> None:
    one, two, order = fresh("one"), fresh("two"), fresh("order")
    before = await gateway.scrape()
    assert (await gateway.send(event(one, order, route=route))).verdict == "first"
    await world.database.becomes(one, "completed")
    for again in (two, one, two):
        assert (await gateway.send(event(again, order, route=route))).verdict == "duplicate"
    assert (await gateway.send(event(one, order, "shipped", route))).verdict == "first"
    assert [request.header("X-Topic") for request in world.consumer.requests(order)] in (
        ["paid", "shipped"],
        ["paid"],  # the second is on its way
    )
    after = await gateway.scrape()
    shapes = {
        shape: after.since(before, "dedup_duplicates_total", route=route, shape=shape)
        for shape in ("operation", "retry", "concurrent")
    }
    assert shapes == {"operation": 2, "retry": 1, "concurrent": 0}
    assert after.since(before, "dedup_payload_mismatches_total", route=route) == 0
    lines = [line for line in gateway.log("delivery") if line["route"] == route][-4:-1]
    assert [(line["event_id"], line["shape"]) for line in lines] == [
        (two, "operation"), (one, "retry"), (two, "operation"),
    ]  # fmt: skip


@MODES
async def test_events_of_one_operation_that_come_at_once_start_it_once(
    world: World, gateways: list[Gateway], route: str
) -> None:
    for _ in range(ROUNDS):
        order = fresh("order")
        world.consumer.script(order, Says(delay=0.05))
        raws = [event(fresh("event"), order, route=route) for _ in range(8)]
        replies = await sender.volley([one.address for one in gateways], raws)
        assert Counter(reply.verdict for reply in replies) == {"first": 1, "duplicate": 7}
        assert len(world.consumer.requests(order)) <= 1


async def test_after_doubt_another_event_of_the_operation_is_marked_with_the_same_key(
    world: World, gateway: Gateway
) -> None:
    one, two, order = fresh("one"), fresh("two"), fresh("order")
    world.consumer.script(order, Says(status=500), Says())
    assert (await gateway.send(event(one, order))).status == 500
    assert (await gateway.send(event(two, order))).verdict == "first"
    first, second = world.consumer.requests(order)
    assert (first.header("Dedup-Event-Id"), second.header("Dedup-Event-Id")) == (one, two)
    assert (first.marked, second.marked) == (False, True)
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")


async def test_an_event_without_its_operation_goes_by_its_id(
    world: World, gateway: Gateway
) -> None:
    one = fresh("one")
    assert (await gateway.send(sender.event(one))).verdict == "first"
    assert (await gateway.send(sender.event(one))).verdict == "duplicate"
    assert (await gateway.send(sender.event(fresh("two")))).verdict == "first"


async def test_an_observer_learns_of_operations_and_forwards_them(
    world: World, gateway: Gateway
) -> None:
    order, before = fresh("order"), await gateway.scrape()
    for name in ("one", "two"):
        await gateway.send(event(fresh(name), order, route="watched"))
        await asyncio.sleep(0.1)
    after = await gateway.scrape()
    assert after.since(before, "dedup_duplicates_total", route="watched", shape="operation") == 1
    assert len(world.consumer.requests(order)) == 2


async def test_claims_show_says_that_the_key_is_an_operations(
    world: World, gateway: Gateway
) -> None:
    one, two, order = fresh("one"), fresh("two"), fresh("order")
    for name in (one, two):
        await gateway.send(event(name, order))
    config = ("--route", "orders", "--config", str(gateway.file))
    values = ("--operation", order, "--operation", "paid")
    shown = await told("claims", "show", *values, *config)
    assert (shown["event_id"], shown["operation_key"]) == (one, KEY)
    assert shown == await told("claims", "show", one, *config)
