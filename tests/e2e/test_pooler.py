"""PgBouncer in transaction mode in front of the store, with fewer sessions than the gateways use.

Debian 12's knows nothing of prepared statements: every statement may meet another server session
than the one before it, and what somebody leaves behind in a session is met by somebody else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.rig import sender, settings
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.pooler import Pooler
from tests.rig.postgres import Server
from tests.rig.traffic import Traffic
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

POOL = 2
# The setting that README names for a pooler like this one.
UNPREPARED = "?statement_cache_size=0"
# So much at once takes its time on a small machine, and that is not what is tested here.
PATIENT = {"timeout": "20s", "connect_timeout": "10s", "slot_timeout": "20s"}
# Two seconds are allowed; the sender's own time and a busy machine get one more.
IN_TIME = 3.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pooler(
    database_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pooler]:
    started = Pooler(tmp_path_factory.mktemp("pooler"), size=POOL)
    started.leads_to(database_dsn)
    await started.start()
    yield started
    started.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World, pooler: Pooler) -> AsyncIterator[list[Gateway]]:
    file = behind(world, pooler, UNPREPARED)
    yield list(await asyncio.gather(world.gateway(file), world.gateway(file)))


def behind(world: World, pooler: Pooler, query: str) -> settings.Settings:
    """A file for a gateway behind the pooler."""
    route = world.route(upstream=PATIENT)
    route["promise"]["timeout"] = "30s"  # a double waits ten for the first
    return world.file(route, dsn=pooler.dsn(query))


async def doubles(gateways: list[Gateway], events: list[str]) -> list[sender.Reply]:
    """Each event twice at the same time, once to each gateway as a rule."""
    return await sender.volley(
        [gateway.address for gateway in gateways],
        [sender.event(event) for event in events for _ in gateways],
    )


async def test_gateways_on_one_small_pool_do_all_they_do_elsewhere_without_an_error(
    world: World, pair: list[Gateway]
) -> None:
    before = [await gateway.scrape() for gateway in pair]
    events = [fresh("pooled") for _ in range(200)]
    replies = await doubles(pair, events)
    assert {reply.status for reply in replies} == {200}
    firsts = [reply for reply in replies if reply.verdict == "first"]
    assert len(firsts) == len(events)
    redriven = await doubles(pair, events)
    assert {(reply.status, reply.verdict) for reply in redriven} == {(200, "duplicate")}
    assert all(world.attempts(event) == [(1, False)] for event in events)
    assert len(await world.database.sessions()) <= POOL
    for gateway, earlier in zip(pair, before, strict=True):
        assert (await gateway.scrape()).since(earlier, "dedup_store_errors_total") == 0


async def test_take_overs_and_doubt_pass_through_a_pooler(
    world: World, pair: list[Gateway]
) -> None:
    events = [fresh("failing") for _ in range(50)]
    for event in events:
        world.consumer.script(event, Says(status=500), Says())
    told = await sender.volley([pair[0].address], [sender.event(event) for event in events])
    assert {reply.status for reply in told} == {500}
    told = await sender.volley([pair[1].address], [sender.event(event) for event in events])
    assert {reply.status for reply in told} == {200}
    assert all(world.attempts(event) == [(1, False), (2, True)] for event in events)


async def test_without_the_setting_a_gateway_learns_that_statements_cannot_be_prepared(
    world: World, pooler: Pooler
) -> None:
    file = behind(world, pooler, "")
    unaware = list(await asyncio.gather(world.gateway(file), world.gateway(file)))
    events = [fresh("unaware") for _ in range(100)]

    async def all_acknowledged() -> bool:
        replies = await doubles(unaware, events)
        assert {reply.status for reply in replies} <= {200, 503}
        return all(reply.is_success for reply in replies)

    async def both_learned() -> bool:
        """Which of the two meets the other's statements first is chance: one may be spared."""
        await doubles(unaware, [fresh("chance") for _ in range(20)])
        scrapes = [await gateway.scrape() for gateway in unaware]
        return all(scrape.total("dedup_store_errors_total", kind="prepared") for scrape in scrapes)

    await eventually(all_acknowledged, within=20, what="all acknowledged")
    await eventually(both_learned, within=20, what="both learned")
    scrapes = [await gateway.scrape() for gateway in unaware]
    assert all(world.attempts(event) == [(1, False)] for event in events)
    later = [fresh("aware") for _ in range(100)]
    assert {reply.status for reply in await doubles(unaware, later)} == {200}
    for gateway, earlier in zip(unaware, scrapes, strict=True):
        assert (await gateway.scrape()).since(earlier, "dedup_store_errors_total") == 0
        await gateway.stop()


async def timeouts_met_by_strangers(dsn: str) -> list[str]:
    """What `lock_timeout` is in every session of the pool, to a client that never set it."""
    strangers = [await asyncpg.connect(dsn, statement_cache_size=0) for _ in range(POOL)]
    try:
        for stranger in strangers:  # an open transaction keeps its session
            await stranger.execute("begin")
        pids = {await stranger.fetchval("select pg_backend_pid()") for stranger in strangers}
        assert len(pids) == POOL
        return [await stranger.fetchval("show lock_timeout") for stranger in strangers]
    finally:
        for stranger in strangers:
            await stranger.close(timeout=5)


async def test_the_lock_timeout_of_our_statements_is_not_left_to_other_clients(
    world: World, pooler: Pooler, pair: list[Gateway]
) -> None:
    """Neither by statements that succeed nor by those that run into it."""
    event = fresh()
    world.consumer.script(event, Says(status=503, headers=(("Retry-After", "1"),)), Says())
    assert (await world.deliver(event)).status == 503
    others = [fresh() for _ in range(50)]
    assert {reply.status for reply in await doubles(pair, others)} == {200}
    dsn = pooler.dsn()
    assert await timeouts_met_by_strangers(dsn) == ["0"] * POOL
    before = await pair[0].scrape()
    async with world.database.session() as session, session.transaction():
        await session.execute("select from dedup.claims where event_id = $1 for update", event)
        reply = await world.deliver(event)
        assert reply.status == 503
        assert reply.retry_after
    assert (await pair[0].scrape()).since(before, "dedup_store_errors_total", kind="lock") > 0
    assert await timeouts_met_by_strangers(dsn) == ["0"] * POOL
    assert (await pair[0].decided(sender.event(event))).status == 200


async def test_a_pooler_that_is_killed_costs_503_until_it_is_back_and_no_event(
    world: World, pooler: Pooler, pair: list[Gateway]
) -> None:
    traffic = Traffic(pair)
    await traffic.flows()
    pooler.kill()
    began = time.monotonic()
    reply = await pair[0].send(sender.event(fresh()))
    assert reply.status == 503
    assert reply.retry_after
    assert time.monotonic() - began < IN_TIME
    await pooler.start()
    for gateway in pair:
        await gateway.ready()
    await traffic.flows()
    await traffic.end()
    assert set(traffic.told.values()) == {200, 503}
    await traffic.again(world.consumer)
    # Also what the consumer had done when nobody could record it.
    assert all(len(world.attempts(event)) == 1 for event in traffic.acknowledged)
