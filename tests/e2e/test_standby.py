"""The primary is lost and its standby takes over, with what it had been sent and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.cluster import Cluster
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.pooler import Pooler
from tests.rig.traffic import Traffic
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# A consumer's reply may be held back for as long as a failover takes here.
PATIENT = {"timeout": "30s", "connect_timeout": "5s", "slot_timeout": "5s"}
# Two seconds are allowed; the sender's own time and a busy machine get one more.
IN_TIME = 3.0


@pytest_asyncio.fixture(loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    made.remove()


@pytest_asyncio.fixture(loop_scope="module")
async def world(cluster: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    """Its gateways know both servers; its own look at the store goes to the first one."""
    built = World("", tmp_path)
    await built.consumer.start()
    yield built
    await built.close()


async def begin(world: World, cluster: Cluster, *, synchronous: bool, gateways: int) -> None:
    await cluster.start(synchronous=synchronous)
    world.database = cluster.primary.database(cluster.name)
    file = world.file(world.route(upstream=PATIENT), dsn=cluster.dsn)
    await asyncio.gather(*(world.gateway(file) for _ in range(gateways)))


async def fail_over(world: World, cluster: Cluster) -> None:
    """Nothing is left of the primary, and the standby is one from now on."""
    cluster.primary.crash()
    await cluster.standby.promote()
    world.database = cluster.standby.database(cluster.name)


async def test_a_failover_to_a_synchronous_standby_forgets_nothing_that_was_acknowledged(
    world: World, cluster: Cluster
) -> None:
    await begin(world, cluster, synchronous=True, gateways=2)
    traffic = Traffic(world.gateways)
    await traffic.flows()
    await fail_over(world, cluster)
    for gateway in world.gateways:
        await gateway.ready()
    await traffic.flows()
    await traffic.end()
    assert set(traffic.told.values()) <= {200, 503}
    again = await traffic.again(world.consumer)
    assert {again[event].verdict for event in traffic.acknowledged} == {"duplicate"}
    assert all(world.attempts(event) == [(1, False)] for event in traffic.acknowledged)


@pytest.mark.row(65)
async def test_a_success_whose_claim_the_new_primary_never_had_is_recorded_there(
    world: World, cluster: Cluster
) -> None:
    await begin(world, cluster, synchronous=False, gateways=1)
    (gateway,) = world.gateways
    kept, lost, flying, free = fresh("kept"), fresh("lost"), fresh("flying"), asyncio.Event()
    assert (await world.deliver(kept)).verdict == "first"
    await cluster.replicated()
    await cluster.standby.stops_receiving()
    assert (await world.deliver(lost)).verdict == "first"
    world.consumer.script(flying, Says(until=free))
    first = asyncio.create_task(world.deliver(flying))
    await eventually(lambda: world.consumer.requests(flying), within=5, what="in flight")
    await fail_over(world, cluster)
    await gateway.ready()
    assert await world.database.claim(kept) == Claim("completed", False, None)
    assert await world.database.claim(lost) is None
    assert await world.database.claim(flying) is None
    before = await gateway.scrape()
    free.set()
    assert (await first).status == 200
    assert await world.database.becomes(flying, "completed") == Claim("completed", False, None)
    assert (await gateway.scrape()).since(before, "dedup_late_successes_total") == 1
    assert (await world.deliver(flying)).verdict == "duplicate"
    assert (await world.deliver(kept)).verdict == "duplicate"
    assert world.attempts(flying) == world.attempts(kept) == [(1, False)]
    # What README says of an asynchronous standby: this event is new to everybody who is left.
    assert (await world.deliver(lost)).verdict == "first"
    assert world.attempts(lost) == [(1, False), (1, False)]


@pytest.mark.row(66)
async def test_a_claim_that_only_the_primary_has_is_not_acted_on_until_the_standby_is_back(
    world: World, cluster: Cluster
) -> None:
    await begin(world, cluster, synchronous=True, gateways=2)
    here, elsewhere = world.gateways
    done, flying, event, free = fresh("done"), fresh("flying"), fresh("alone"), asyncio.Event()
    assert (await world.deliver(done)).verdict == "first"
    world.consumer.script(flying, Says(until=free))
    first = asyncio.create_task(world.deliver(flying, here))
    await eventually(lambda: world.consumer.requests(flying), within=5, what="in flight")
    cluster.standby.crash()
    for gateway in world.gateways:
        began = time.monotonic()
        reply = await world.deliver(event, gateway)
        assert reply.status == 503
        assert reply.retry_after
        assert time.monotonic() - began < IN_TIME
    assert not world.consumer.requests(event)
    free.set()
    assert (await first).status == 200  # though nothing can be recorded
    assert (await world.deliver(flying, elsewhere)).status == 503
    cluster.standby.start()
    for gateway in world.gateways:
        await gateway.ready()
        assert (await gateway.decided(sender.event(event))).status == 200
        for old in (done, flying):
            assert (await gateway.decided(sender.event(old))).verdict == "duplicate"
    assert [marked for _, marked in world.attempts(event)] == [False]
    assert world.attempts(flying) == world.attempts(done) == [(1, False)]


@pytest.mark.row(69)
async def test_a_primary_that_comes_back_as_a_standby_is_passed_over(
    world: World, cluster: Cluster
) -> None:
    """A switchover by plan; the DSN still names the demoted one first."""
    await begin(world, cluster, synchronous=False, gateways=1)
    (gateway,) = world.gateways
    done = fresh()
    assert (await world.deliver(done)).verdict == "first"
    cluster.primary.stop()
    reply = await world.deliver(fresh())
    assert (reply.status, reply.retry_after > 0) == (503, True)
    cluster.primary.follow(cluster.standby)
    cluster.primary.start()
    began = time.monotonic()
    reply = await world.deliver(fresh())  # both are there, and neither takes writes
    assert (reply.status, reply.retry_after > 0) == (503, True)
    assert time.monotonic() - began < IN_TIME
    await cluster.standby.promote()
    await gateway.ready()
    assert (await world.deliver(done)).verdict == "duplicate"
    promoted = await gateway.scrape()
    assert promoted.total("dedup_store_errors_total", kind="read_only") > 0
    for _ in range(10):  # both hosts are asked each time, and the wrong one never gets a statement
        await cluster.standby.database(cluster.name).execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        assert (await gateway.decided(sender.event(fresh()))).verdict == "first"
    after = await gateway.scrape()
    assert after.since(promoted, "dedup_store_errors_total", kind="read_only") == 0


@pytest.mark.row(69)
async def test_a_session_that_finds_itself_with_a_standby_is_not_used_again(
    world: World, cluster: Cluster
) -> None:
    """A pooler leads to the standby before it is promoted; the gateways' connections stay open."""
    pooler = Pooler(cluster.place)
    await cluster.start(synchronous=False)
    world.database = cluster.primary.database(cluster.name)
    pooler.leads_to(world.database.dsn)
    await pooler.start()
    try:
        dsn = pooler.dsn("?statement_cache_size=0")
        gateway = await world.gateway(world.file(dsn=dsn))
        done = fresh()
        assert (await world.deliver(done)).verdict == "first"
        await cluster.replicated()
        before = await gateway.scrape()
        pooler.leads_to(cluster.standby.database(cluster.name).dsn)
        pooler.reload()

        async def refused() -> bool:
            reply = await world.deliver(fresh("readonly"))
            assert reply.status in (200, 503)
            return reply.status == 503

        await eventually(refused, within=5, what="503")
        seen = len(world.consumer.received)
        for _ in range(10):
            assert await refused()
        assert len(world.consumer.received) == seen
        errors = (await gateway.scrape()).since(
            before, "dedup_store_errors_total", kind="read_only"
        )
        assert errors > 0
        cluster.primary.crash()
        await cluster.standby.promote()
        await gateway.ready()
        assert (await world.deliver(done)).verdict == "duplicate"
        assert (await world.deliver(fresh())).verdict == "first"
    finally:
        pooler.stop()
