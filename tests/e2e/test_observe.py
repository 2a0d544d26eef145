"""`mode: observe` is harmless: a dry run, and the panic switch."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.postgres import Server
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    started = await world.gateway(world.file(world.route(mode="observe")))
    yield started
    await started.end()


async def test_everything_is_forwarded_and_only_the_counters_know_better(
    world: World, gateway: Gateway
) -> None:
    event, before = fresh(), await gateway.scrape()
    world.consumer.script(event, Says(headers=(("X-Their", "v"),)))
    replies = [await gateway.send(sender.event(event)) for _ in range(3)]
    for reply in replies:
        assert reply.status == 200
        assert [name for name, _ in reply.headers] == [b"X-Their", b"Content-Length"]
    received = world.consumer.requests(event)
    assert len(received) == 3
    for request in received:
        assert [name for name, _ in request.headers] == [
            b"Host",
            b"Content-Type",
            b"Content-Length",
        ]
    after = await gateway.scrape()
    told = [
        after.since(before, "dedup_deliveries_total", verdict=verdict)
        for verdict in ("first", "duplicate")
    ]
    assert told == [1, 2]


async def test_nobody_waits_for_anybody(world: World, gateway: Gateway) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free), Says())
    first = asyncio.create_task(gateway.send(sender.event(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    began = time.monotonic()
    assert (await gateway.send(sender.event(event))).status == 200
    assert time.monotonic() - began < 3  # who waits, waits five seconds
    free.set()
    assert (await first).status == 200


async def test_a_store_that_is_away_costs_a_quarter_of_a_second_and_nothing_else(
    world: World, gateway: Gateway, server: Server
) -> None:
    server.stop()
    try:
        for _ in range(3):
            event = fresh()
            began = time.monotonic()
            reply = await gateway.send(sender.event(event))
            took = time.monotonic() - began
            assert (reply.status, reply.verdict) == (200, None)
            assert took < 0.25 + 1.0  # the rest is a busy machine's; forward mode waits 1.8 s
            assert len(world.consumer.requests(event)) == 1
    finally:
        server.start()
    await gateway.ready()


async def test_bad_and_missing_ids_pass_and_are_counted(world: World, gateway: Gateway) -> None:
    rig, before = fresh("odd"), await gateway.scrape()
    for body in (b"", b"ping", b'{"event_id":null}'):
        raw = sender.request("/hooks/orders", body, headers=[("X-Rig", rig)])
        assert (await gateway.send(raw)).status == 200
    assert len(world.consumer.requests(rig)) == 3
    after = await gateway.scrape()
    assert after.since(before, "dedup_deliveries_total", verdict="unkeyed") == 3


async def test_switching_to_forward_is_a_reload_that_keeps_the_memory(
    world: World, gateway: Gateway
) -> None:
    event, failed = fresh(), fresh()
    world.consumer.script(failed, Says(status=500), Says())
    await gateway.send(sender.event(event))
    await gateway.send(sender.event(failed))
    await world.database.becomes(event, "completed")
    await world.database.becomes(failed, "released")
    gateway.write(world.file(world.route(mode="forward")))
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    assert (await gateway.send(sender.event(event))).verdict == "duplicate"
    assert (await gateway.send(sender.event(failed))).verdict == "first"
    assert world.consumer.requests(failed)[-1].marked
    assert len(world.consumer.requests(event)) == 1
