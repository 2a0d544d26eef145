"""Counters say what happened: they add up, and nobody outside can add a series."""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, Samples
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOISE = 5_000  # the field case


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(
        world.file(
            world.route(event_type="json:/type"),
            world.route("gh", event_id="header:X-GitHub-Delivery"),
            world.route("hasty", upstream={"timeout": "500ms"}),
        )
    )


def adds_up(scrape: Samples) -> bool:
    return scrape.total("dedup_requests_total") == (
        scrape.total("dedup_deliveries_total") + scrape.total("dedup_rejected_total")
    )


def series(scrape: Samples) -> int:
    return len([s for s in scrape.samples if not s.name.startswith(("process_", "python_"))])


async def test_at_rest_verdicts_and_rejections_add_up_to_the_requests(
    world: World, gateway: Gateway
) -> None:
    before = await gateway.scrape()
    ok, failing, slow = fresh(), fresh(), fresh()
    world.consumer.script(failing, Says(status=500), Says(hangs_up="unanswered"), Says())
    world.consumer.script(slow, Says(delay=1.0))
    deliveries = [
        sender.event(ok),
        sender.event(ok),
        *[sender.event(failing)] * 3,
        sender.event(slow, "/hooks/hasty"),
        sender.request("/hooks/orders", b"{}", headers=[("X-Rig", "x")]),
        sender.request("/hooks/orders", method="GET", headers=[("X-Rig", "x")]),
    ]
    rejections = [
        sender.request("/nowhere"),
        b"POST http://evil/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"garbage\r\n\r\n",
        sender.request(
            "/hooks/gh", headers=[("X-GitHub-Delivery", "1"), ("x-github-delivery", "2")]
        ),
    ]
    for raw in [*deliveries, *rejections]:
        await gateway.attempt(raw, within=10)
    async with sender.Connection(gateway.address) as leaving:
        await leaving.write(sender.event(fresh(), filling="x" * 100)[:-50])
    await sender.volley([gateway.address], [sender.event(fresh())] * 20)

    async def at_rest() -> Samples | None:
        now = await gateway.scrape()
        done = now.since(before, "dedup_requests_total") >= len(deliveries) + len(rejections) + 21
        return now if done and adds_up(now) else None

    after = await eventually(at_rest, within=10, what="numbers that add up")
    assert after.since(before, "dedup_deliveries_total") == len(deliveries) + 20
    assert after.since(before, "dedup_rejected_total") == len(rejections) + 1
    told = {
        verdict: after.since(before, "dedup_deliveries_total", verdict=verdict)
        for verdict in ("first", "duplicate", "busy", "unkeyed", "passed", "bypassed")
    }
    assert told == {
        "first": 1 + 3 + 1 + 1,
        "duplicate": 1 + 19,
        "busy": 0,
        "unkeyed": 1,
        "passed": 1,
        "bypassed": 0,
    }
    outcomes = {
        outcome: after.since(before, "dedup_forwards_total", outcome=outcome)
        for outcome in ("delivered", "refused", "unreached", "ambiguous")
    }
    assert outcomes == {"delivered": 5, "refused": 1, "unreached": 0, "ambiguous": 2}
    assert after.since(before, "dedup_forward_duration_seconds_count") == 8
    assert after.since(before, "dedup_duplicates_total") == 20
    assert after.since(before, "dedup_duplicate_age_seconds_count") == 20
    assert after.since(before, "dedup_possible_doubles_total") == 1


@pytest.mark.case("B027")
async def test_noise_from_outside_adds_no_series_and_leaks_into_no_label_or_log(
    world: World, gateway: Gateway
) -> None:
    dice = random.Random(27)

    def word() -> str:
        return "zqx" + "".join(dice.choices(string.ascii_lowercase, k=12))

    def noise() -> bytes:
        path = dice.choice([f"/{word()}", f"/hooks/orders/{word()}?token={word()}", "/hooks/gh"])
        method = dice.choice(["POST", "GET", "FOO", "DELETE", "PROPFIND", word().upper()])
        body = b'{"event_id":"%s","type":"%s"}' % (word().encode(), word().encode())
        headers = [("X-GitHub-Delivery", word()), (word(), word())]
        return sender.request(path, body, method=method, host=word(), headers=headers)

    async def lane(count: int) -> None:
        for _ in range(count):
            await gateway.attempt(noise(), within=20)

    refusing = world.consumer.otherwise
    world.consumer.otherwise = Says(status=400)
    try:
        await asyncio.gather(*(lane(50) for _ in range(20)))
        settled = await gateway.scrape()
        await asyncio.gather(*(lane((NOISE - 1000) // 20) for _ in range(20)))
    finally:
        world.consumer.otherwise = refusing
    after = await gateway.scrape()
    assert series(after) == series(settled)
    assert "zqx" not in after.text
    assert "zqx" not in gateway.log_file.read_text()
    assert adds_up(after)
    assert after.total("dedup_rejected_total", reason="internal") == 0


async def test_event_types_are_learned_from_accepted_events_only_and_are_bounded(
    world: World, gateway: Gateway
) -> None:
    forged = fresh()
    world.consumer.script(forged, Says(status=401))
    await world.deliver(forged, type="forged.type")
    for number in range(40):
        await world.deliver(fresh(), type=f"order.kind{number}")
    scrape = await gateway.scrape()
    types = {labels["event_type"] for labels in scrape.labels("dedup_events_total")}
    assert "forged.type" not in scrape.text
    assert "other" in types
    assert len(types - {"other", ""}) == 25
