"""Batches through the whole program: no item is lost because another was seen, and none twice."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.batches import BATCH, batch, claims, route, states, taken
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = pytest.mark.parametrize("mode", ["mail", "inbox", "slow"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    retry = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
    nested = {**BATCH, "items": "json:/entry/*/changes/*/value/messages/*"}
    wrapped = {**BATCH, "items": "json:/events/*"}
    yield await world.gateway(
        world.file(
            route(world, "mail", on_mixed="filter"),
            route(world, "whole", on_mixed="whole"),
            route(world, "inbox", mode="inbox", retry=retry),
            route(world, "slow", acknowledge_after="50ms", retry=retry),
            route(world, "watched", mode="observe"),
            route(world, "nested", batch=nested),
            route(world, "wrapped", batch=wrapped, scope=["json:/shop"]),
            route(world, "strict", missing_id="refuse"),
            log_deliveries=True,
        )
    )


@pytest.mark.case("B026")
@pytest.mark.row(110)
async def test_a_batch_is_not_its_first_element(world: World, gateway: Gateway) -> None:
    a, b, c, name = fresh("a"), fresh("b"), fresh("c"), fresh("mail")
    assert (await gateway.send(batch(name, a, b))).verdict == "first"
    assert (await gateway.send(batch(name, a, c))).verdict == "first"
    for again in (batch(name, a, b), batch(name, a, c)):
        reply = await gateway.send(again)
        assert (reply.status, reply.verdict) == (200, "duplicate")
    assert (await gateway.send(batch(name))).verdict == "passed"
    assert (await gateway.send(batch(name, a, {"no": 1}))).verdict == "unkeyed"
    assert taken(world, name) == [[a, b], [c], [], [None]]
    assert await claims(world, a, b, c) == [Claim("completed", False, None)] * 3


async def test_a_mixed_batch_goes_whole_and_marked_where_the_route_says_so(
    world: World, gateway: Gateway
) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("whole")
    await gateway.send(batch(name, a, path="/hooks/whole"))
    await gateway.send(batch(name, a, b, path="/hooks/whole"))
    assert taken(world, name) == [[a], [a, b]]
    assert [request.marked for request in world.consumer.requests(name)] == [False, True]
    assert await states(world, a, b) == ["completed"] * 2


@MODES
async def test_what_is_left_of_a_mixed_batch_is_what_came_byte_for_byte(
    world: World, gateway: Gateway, mode: str
) -> None:
    a, b, c, name = (fresh(stem) for stem in ("a", "b", "c", mode))
    await gateway.send(batch(fresh(), a, path=f"/hooks/{mode}"))
    raw = f'[ {{"id":"{a}"}},\n  {{"id" : "{b}", "n":1.50e+2}} , {{"n":"\\u00e9","id":"{c}"}} ]'
    lines = [("Content-Type", "application/json"), ("X-Rig", name), ("Content-Encoding", "gzip")]
    packed = gzip.compress(raw.encode())
    await gateway.send(sender.request(f"/hooks/{mode}", packed, headers=lines))
    await world.database.becomes(b, "completed")
    (request,) = world.consumer.requests(name)
    left = f'[ {{"id" : "{b}", "n":1.50e+2}} , {{"n":"\\u00e9","id":"{c}"}} ]'
    assert request.body == left.encode()
    assert request.header("Content-Encoding") is None
    assert request.header("Content-Length") == str(len(left))


@pytest.mark.parametrize(
    ("status", "state"),
    [(500, Claim("released", True, 1)), (400, Claim("released", False, 1))],
)
async def test_a_failure_frees_every_item(
    world: World, gateway: Gateway, status: int, state: Claim
) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("mail")
    world.consumer.script(name, Says(status=status), Says())
    assert (await gateway.send(batch(name, a, b))).status == status
    assert await claims(world, a, b) == [state] * 2
    assert (await gateway.send(batch(name, b, a))).verdict == "first"
    assert [request.marked for request in world.consumer.requests(name)] == [False, state.doubtful]
    assert await states(world, a, b) == ["completed"] * 2


async def test_a_consumer_that_is_too_slow_leaves_every_item_in_doubt(
    world: World, gateway: Gateway
) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("mail")
    world.consumer.script(name, Says(delay=4.5), Says())
    assert (await gateway.send(batch(name, a, b))).status == 504
    assert await claims(world, a, b) == [Claim("released", True, 1)] * 2
    await gateway.send(batch(name, fresh("c"), a))
    assert [request.marked for request in world.consumer.requests(name)] == [False, True]


@MODES
async def test_five_thousand_items_are_claimed_and_settled_together(
    world: World, gateway: Gateway, mode: str
) -> None:
    stem, name, path = fresh("many"), fresh(mode), f"/hooks/{mode}"
    names = [f"{stem}_{n}" for n in range(5000)]
    assert (await gateway.send(batch(name, *names[:2500], path=path))).is_success
    assert (await gateway.send(batch(name, *names, path=path))).is_success
    assert (await gateway.send(batch(name, *names[::-1], path=path))).verdict == "duplicate"
    await world.database.becomes(names[-1], "completed")
    assert taken(world, name) == [names[:2500], names[2500:]]
    done = "select count(*) from dedup.claims where state = 'd' and event_id like $1"
    assert await world.database.value(done, f"{stem}%") == 5000


async def test_items_lie_where_meta_puts_them(world: World, gateway: Gateway) -> None:
    a, b, c, name = (fresh(stem) for stem in ("a", "b", "c", "nested"))

    def entry(*names: str) -> dict[str, object]:
        value = {"messages": [{"id": one} for one in names], "metadata": {"n": 1}}
        return {"id": "0", "changes": [{"field": "messages", "value": value}]}

    async def send(*entries: dict[str, object]) -> sender.Reply:
        body = json.dumps({"object": "whatsapp", "entry": entries}).encode()
        return await gateway.send(sender.request("/hooks/nested", body, headers=[("X-Rig", name)]))

    await send(entry(a), entry(b))
    await send(entry(b, c), entry(a))
    assert (await send(entry(c, a, b))).verdict == "duplicate"
    second = json.loads(world.consumer.requests(name)[1].body)
    assert second == {"object": "whatsapp", "entry": [entry(c), entry()]}


async def test_the_scope_and_integer_ids_are_those_of_single_events(
    world: World, gateway: Gateway
) -> None:
    name, number = fresh("wrapped"), int(fresh().split("_")[1]) + 10**30

    async def send(shop: str, *items: object) -> str | None:
        body = json.dumps({"shop": shop, "events": [{"id": item} for item in items]}).encode()
        raw = sender.request("/hooks/wrapped", body, headers=[("X-Rig", name)])
        return (await gateway.send(raw)).verdict

    assert await send("one", number) == "first"
    assert await send("one", str(number)) == "duplicate"
    assert await send("two", number) == "first"


async def test_items_without_an_id_are_refused_only_where_none_has_one(
    world: World, gateway: Gateway
) -> None:
    a, name = fresh("a"), fresh("strict")
    refused = await gateway.send(batch(name, {"n": 1}, {"n": 2}, path="/hooks/strict"))
    assert refused.status == 400
    assert b"any item of the batch" in refused.body
    assert (await gateway.send(batch(name, a, {"n": 1}, path="/hooks/strict"))).verdict == "first"
    assert taken(world, name) == [[a, None]]


async def test_an_event_without_an_id_is_sent_although_all_beside_it_was_completed_elsewhere(
    world: World, gateway: Gateway
) -> None:
    """Once with one, and once without, where nothing is owed any more."""

    async def nothing_is_owed() -> bool:
        return not await world.database.owes()

    for more, came in (([{"n": 1}], [False, True]), ([], [False])):
        a, b, name = fresh("a"), fresh("b"), fresh("inbox")
        world.consumer.script(name, Says(status=500, delay=0.5), Says())
        await gateway.send(batch(name, a, b, *more, path="/hooks/inbox"))
        await eventually(partial(world.consumer.requests, name), within=10)
        await world.database.execute(
            "update dedup.claims set state = 'd' where event_id = any ($1)", [a, b]
        )
        await eventually(nothing_is_owed, within=10)
        assert [request.marked for request in world.consumer.requests(name)] == came


async def test_an_observer_only_claims_and_forwards_each_batch_as_it_came(
    world: World, gateway: Gateway
) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("watched")
    for names in ([a], [a, b, b], [b, a]):
        reply = await gateway.send(batch(name, *names, path="/hooks/watched"))
        assert reply.verdict is None
    await world.database.becomes(b, "completed")
    assert taken(world, name) == [[a], [a, b, b], [b, a]]


async def test_the_numbers_of_batches_add_up(world: World, gateway: Gateway) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("mail")
    before = await gateway.scrape()
    items = [{"id": a, "type": "open"}, {"id": b, "type": "click"}]
    await gateway.send(batch(name, *items))
    await gateway.send(batch(name, *items, *items))
    await gateway.send(batch(name, items[0], fresh("c"), {"n": 1}))
    after = await gateway.scrape()

    def counted(what: str, **labels: str) -> float:
        return after.since(before, f"dedup_{what}_total", route="mail", **labels)

    verdicts = ("first", "duplicate", "unkeyed", "busy")
    assert [counted("deliveries", verdict=verdict) for verdict in verdicts] == [2, 1, 0, 0]
    assert [counted("batch_items", verdict=verdict) for verdict in verdicts] == [3, 5, 1, 0]
    assert counted("requests") == 3
    assert counted("duplicates", shape="retry") == 1
    assert [counted("events", event_type=kind) for kind in ("open", "click")] == [1, 1]
    line = gateway.log("delivery")[-2]
    assert (line["told"], line["shape"]) == ("duplicate", "retry")


async def test_a_batch_that_meets_a_busy_item_waits_and_leaves_the_others_free(
    world: World, gateway: Gateway
) -> None:
    a, b, gate = fresh("a"), fresh("b"), asyncio.Event()
    world.consumer.script(b, Says(until=gate))
    single = asyncio.create_task(gateway.send(batch(b, b)))
    await world.database.becomes(b, "claimed")
    waiting = asyncio.create_task(gateway.send(batch(a, a, b)))
    await world.database.becomes(a, "released")
    assert (await gateway.send(batch(fresh("x"), a))).verdict == "first"
    gate.set()
    assert (await single).verdict == "first"
    assert (await waiting).verdict == "duplicate"
    assert taken(world, a) == []
