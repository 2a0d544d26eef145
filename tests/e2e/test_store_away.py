"""The store is away or comes and goes: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import history, sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.postgres import Server
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Two seconds are allowed; the sender's own time and a busy machine get one more.
IN_TIME = 3.0
STORM_SECONDS, STORM_SECONDS_IN_SOAK = 8, 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World) -> AsyncIterator[list[Gateway]]:
    yield [await world.gateway(), await world.gateway()]


async def all_ready(gateways: list[Gateway]) -> None:
    for gateway in gateways:
        await gateway.ready()


async def timed(gateway: Gateway, raw: bytes) -> tuple[sender.Reply, float]:
    began = time.monotonic()
    reply = await gateway.send(raw)
    return reply, time.monotonic() - began


@pytest.mark.case("B008")
@pytest.mark.row(7)
async def test_without_a_store_nothing_is_forwarded_and_all_is_well_again_when_it_returns(
    world: World, pair: list[Gateway], server: Server
) -> None:
    done = [fresh("done") for _ in range(20)]
    new = [fresh("new") for _ in range(20)]
    for event in done:
        assert (await world.deliver(event)).verdict == "first"
    seen = len(world.consumer.received)
    server.stop()
    try:
        asked = [(gateway, event) for gateway in pair for event in [*done, *new]]
        told = await asyncio.gather(*(timed(g, sender.event(event)) for g, event in asked))
        assert {reply.status for reply, _ in told} == {503}
        assert all(reply.retry_after > 0 for reply, _ in told)
        assert max(took for _, took in told) < IN_TIME
        assert len(world.consumer.received) == seen

        async def red() -> bool:
            return not any([await gateway.is_ready() for gateway in pair])

        await eventually(red, within=10, what="red readiness")
        for gateway in pair:
            assert (await gateway.get("/healthz")).status == 200
            scrape = await gateway.scrape()
            assert scrape.total("dedup_store_up") == 0
            assert scrape.total("dedup_rejected_total", reason="store_away") == 40
    finally:
        server.start()
    await all_ready(pair)
    for event in done:
        assert [(await world.deliver(event, gateway)).verdict for gateway in pair] == [
            "duplicate",
            "duplicate",
        ]
    for event in new:
        assert [(await world.deliver(event, gateway)).verdict for gateway in pair] == [
            "first",
            "duplicate",
        ]
    history.check(world.consumer, acknowledged=[*done, *new], sent=[*done, *new])
    assert all(len(world.consumer.effects(event)) == 1 for event in [*done, *new])


@pytest.mark.row(7)
async def test_a_route_may_forward_without_a_store_marked_and_counted(
    world: World, pair: list[Gateway], server: Server
) -> None:
    gateway = await world.gateway(world.file(world.route(on_store_down="forward")))
    event = fresh("open")
    server.stop()
    try:
        reply = await world.deliver(event, gateway)
        assert (reply.status, reply.verdict) == (200, "bypassed")
        assert world.attempts(event) == [(1, True)]
        assert await gateway.is_ready()
    finally:
        server.start()
    await all_ready([*pair, gateway])
    # The success was recorded late, so the retry is a duplicate.
    await world.database.becomes(event, "completed", within=15)
    assert (await pair[0].decided(sender.event(event))).verdict == "duplicate"
    await gateway.stop()


async def test_a_gateway_starts_without_a_store_and_needs_no_restart_when_it_comes(
    world: World, pair: list[Gateway], server: Server
) -> None:
    server.stop()
    try:
        gateway = await world.gateway(ready=False)
        assert not await gateway.is_ready()
        assert (await gateway.send(sender.event(fresh()))).status == 503
    finally:
        server.start()
    await all_ready([*pair, gateway])  # the next test needs the pair
    assert (await gateway.send(sender.event(fresh()))).verdict == "first"
    await gateway.stop()


@pytest.mark.row(56)
async def test_a_success_that_cannot_be_recorded_is_answered_and_recorded_later(
    world: World, pair: list[Gateway], server: Server
) -> None:
    event, stopped = fresh(), 0.0
    await all_ready(pair)

    async def stop_the_store() -> None:
        nonlocal stopped
        server.stop()
        stopped = time.monotonic()

    world.consumer.script(event, Says(acts="before", then=stop_the_store))
    try:
        reply = await pair[0].send(sender.event(event))
        assert (reply.status, reply.verdict) == (200, "first")
        assert time.monotonic() - stopped < IN_TIME
        # This process knows what it could not record, and forwards no copy meanwhile.
        copy = await world.deliver(event, pair[0])
        assert copy.status in (200, 503)
    finally:
        server.start()
    await all_ready(pair)
    assert await world.database.becomes(event, "completed", within=15)
    assert (await pair[1].decided(sender.event(event))).verdict == "duplicate"
    assert [effect.marked for effect in world.consumer.effects(event)] == [False]


@pytest.mark.row(64)
async def test_a_release_that_did_not_get_through_is_repeated_and_adds_no_doubt(
    world: World, pair: list[Gateway], server: Server
) -> None:
    event = fresh()
    await all_ready(pair)

    async def stop_the_store() -> None:
        server.stop()

    world.consumer.script(event, Says(status=422, then=stop_the_store), Says())
    try:
        assert (await world.deliver(event, pair[0])).status == 422
    finally:
        server.start()
    await all_ready(pair)
    assert await world.database.becomes(event, "released", within=9) == Claim("released", False, 1)
    assert (await world.deliver(event, pair[1])).verdict == "first"
    assert world.attempts(event) == [(1, False), (2, False)]


async def load(
    world: World, gateways: list[Gateway], stop: asyncio.Event, sent: list[str]
) -> list[str]:
    """A provider that sends 50 events a second and retries each until it is acknowledged."""
    acknowledged: list[str] = []

    async def until_acknowledged(event: str) -> None:
        gateway = gateways[hash(event) % len(gateways)]
        while True:
            reply = await gateway.attempt(sender.event(event))
            assert reply is None or reply.is_success or reply.status == 503, reply
            if reply is not None and reply.is_success:
                acknowledged.append(event)
                return
            await asyncio.sleep(0.3)

    async with asyncio.TaskGroup() as group:
        while not stop.is_set():
            event = fresh("load")
            sent.append(event)
            group.create_task(until_acknowledged(event))
            await asyncio.sleep(0.02)
    return acknowledged


async def storm(world: World, pair: list[Gateway], server: Server, seconds: int) -> None:
    sent: list[str] = []
    stop = asyncio.Event()
    provider = asyncio.create_task(load(world, pair, stop, sent))
    for _ in range(seconds):
        await asyncio.sleep(1)
        await world.database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    for how in (signal.SIGINT, signal.SIGQUIT):
        await server.restart(how)
        await asyncio.sleep(1)
    stop.set()
    acknowledged = await asyncio.wait_for(provider, 60)
    assert sorted(acknowledged) == sorted(sent)
    history.check(world.consumer, acknowledged=sent, sent=sent)
    for _ in range(3):
        events = [fresh("after") for _ in range(20)]
        replies = await sender.volley(
            [gateway.address for gateway in pair], [sender.event(event) for event in events]
        )
        assert {reply.verdict for reply in replies} == {"first"}
    for gateway in pair:
        assert (await gateway.scrape()).total("dedup_rejected_total", reason="internal") == 0


@pytest.mark.case("B009")
async def test_killed_sessions_and_restarts_cost_short_503s_and_no_event(
    world: World, pair: list[Gateway], server: Server
) -> None:
    await all_ready(pair)
    await storm(world, pair, server, STORM_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.case("B009")
async def test_a_minute_of_killed_sessions_costs_no_event(
    world: World, pair: list[Gateway], server: Server
) -> None:
    await all_ready(pair)
    await storm(world, pair, server, STORM_SECONDS_IN_SOAK)
