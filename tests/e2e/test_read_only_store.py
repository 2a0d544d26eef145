"""The store answers and refuses writes: a demoted primary, or half a pool of sessions with one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import history, sender
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.postgres import Server
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World) -> AsyncIterator[list[Gateway]]:
    yield [await world.gateway(), await world.gateway()]


@pytest.mark.case("B010")
async def test_a_store_that_refuses_writes_is_away_and_its_sessions_are_thrown_out(
    world: World, pair: list[Gateway], server: Server
) -> None:
    for gateway in pair:
        await gateway.ready()
    done = fresh()
    await world.deliver(done)
    name = await world.database.value("select quote_ident(current_database())")
    before = await pair[0].scrape()
    seen = len(world.consumer.received)
    await world.database.execute(f"alter database {name} set default_transaction_read_only = on")
    await world.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )

    async def refused() -> bool:
        reply = await world.deliver(fresh("readonly"))
        assert reply.status == 503, reply
        return reply.retry_after > 0

    try:
        for _ in range(10):
            await refused()
        assert len(world.consumer.received) == seen
        # A read-only answer does not mean seen: what is completed may be told so, never forwarded.
        reply = await world.deliver(done)
        assert reply.status in (200, 503)
        assert (await pair[0].scrape()).since(before, "dedup_store_errors_total", kind="read_only")
    finally:
        async with world.database.session() as session:
            await session.execute("set default_transaction_read_only = off")
            await session.execute(f"alter database {name} reset default_transaction_read_only")

    async def works() -> bool:
        return (await world.deliver(fresh("writable"))).verdict == "first"

    await eventually(works, within=10, what="writes again, without a restart")
    for gateway in pair:
        await gateway.ready()
        assert (await gateway.scrape()).total("dedup_rejected_total", reason="internal") == 0


@pytest.mark.case("B010")
async def test_half_a_pool_of_read_only_sessions_is_found_out(
    world: World, pair: list[Gateway], server: Server
) -> None:
    """The setting is in force while half of the sessions are made; then it is taken back."""
    for gateway in pair:
        await gateway.ready()
    name = await world.database.value("select quote_ident(current_database())")
    await world.database.execute(f"alter database {name} set default_transaction_read_only = on")
    await world.database.execute(
        "select pg_terminate_backend(pid) from (select pid, row_number() over () as n"
        " from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()) s"
        " where n % 2 = 0"
    )
    sent = [fresh("half") for _ in range(60)]
    replies = await sender.volley(
        [gateway.address for gateway in pair], [sender.event(event) for event in sent]
    )
    assert {reply.status for reply in replies} <= {200, 503}
    async with world.database.session() as session:
        await session.execute("set default_transaction_read_only = off")
        await session.execute(f"alter database {name} reset default_transaction_read_only")
    for gateway in pair:
        await gateway.ready()

    async def all_acknowledged() -> bool:
        again = await sender.volley(
            [gateway.address for gateway in pair], [sender.event(event) for event in sent]
        )
        assert {reply.status for reply in again} <= {200, 503}
        return all(reply.is_success for reply in again)

    await eventually(all_acknowledged, within=15, what="all acknowledged")
    history.check(world.consumer, acknowledged=sent, sent=sent)
    assert all(len(world.consumer.requests(event)) == 1 for event in sent)
