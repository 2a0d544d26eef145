"""The network between gateway and store fails, each time at another moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fault_proxy import FaultProxy, Wire
from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.postgres import Server
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Two seconds are allowed; the sender's own time and a busy machine get one more.
IN_TIME = 3.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wire(database_dsn: str) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(database_dsn)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind(world: World, wire: FaultProxy) -> AsyncIterator[Gateway]:
    """A gateway whose store is behind that wire."""
    yield await world.gateway(world.file(dsn=wire.proxied))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def direct(world: World, behind: Gateway) -> AsyncIterator[Gateway]:
    """Another one whose store is not."""
    yield await world.gateway()


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _whole_again(wire: FaultProxy, behind: Gateway) -> AsyncIterator[None]:
    yield
    wire.set(Wire.PASS)
    await behind.ready()


@pytest.mark.row(8)
async def test_a_store_in_a_black_hole_is_503_in_time_and_back_without_a_restart(
    world: World, wire: FaultProxy, behind: Gateway
) -> None:
    seen = len(world.consumer.received)
    events = [fresh("hole") for _ in range(10)]
    wire.set(Wire.BLACK_HOLE)
    for event in events[:3]:  # also once it is known to be away
        began = time.monotonic()
        replies = await sender.volley([behind.address], [sender.event(event)] * 10)
        assert {reply.status for reply in replies} == {503}
        assert all(reply.retry_after for reply in replies)
        assert time.monotonic() - began < IN_TIME
    assert len(world.consumer.received) == seen
    wire.set(Wire.PASS)
    await behind.ready()
    for event in events:

        async def acknowledged(event: str = event) -> bool:
            reply = await behind.send(sender.event(event))
            assert reply.status in (200, 503), reply
            return reply.is_success

        await eventually(acknowledged, within=15)
        assert world.attempts(event)[-1][1] is False


@pytest.mark.row(9)
async def test_a_claim_whose_confirmation_is_lost_is_asked_for_again_with_the_same_token(
    world: World, wire: FaultProxy, behind: Gateway
) -> None:
    event = fresh()
    cut = wire.replies_cut
    wire.set(Wire.CUT_REPLIES)
    delivery = asyncio.create_task(behind.send(sender.event(event)))
    await eventually(lambda: wire.replies_cut > cut, within=5, what="a reply cut off")
    wire.set(Wire.PASS)
    reply = await delivery
    assert (reply.status, reply.verdict) == (200, "first")
    assert world.attempts(event) == [(1, False)]


async def undecided(world: World, wire: FaultProxy, behind: Gateway) -> str:
    """An event whose claim is made in the store while all that its gateway knows is silence.

    The statement leaves only if a session is open and nobody else, a health check say, has it.
    """
    for _ in range(15):
        await sender.volley([behind.address], [sender.event(fresh("warm")) for _ in range(5)])
        event = fresh()
        wire.set(Wire.HOLD_REPLIES)
        reply = await behind.send(sender.event(event))
        assert reply.status == 503
        assert reply.retry_after
        if await world.database.claim(event) is not None:
            return event
        wire.set(Wire.PASS)
        await behind.ready()
    raise AssertionError("no statement has left")


@pytest.mark.row(13)
async def test_a_claim_that_commits_after_we_gave_up_on_it_is_given_back(
    world: World, wire: FaultProxy, behind: Gateway, direct: Gateway
) -> None:
    event = await undecided(world, wire, behind)
    assert not world.consumer.requests(event)
    wire.set(Wire.PASS)
    # Far sooner than its lease: nothing was sent, so nothing is doubtful either.
    assert await world.database.becomes(event, "released", within=8) == Claim("released", False, 1)
    assert (await direct.send(sender.event(event))).verdict == "first"
    assert world.attempts(event) == [(2, False)]


@pytest.mark.row(15)
async def test_a_sender_that_leaves_while_the_claim_is_on_its_way_changes_nothing(
    world: World, wire: FaultProxy, behind: Gateway
) -> None:
    event = fresh()
    held = wire.replies_held
    wire.set(Wire.HOLD_REPLIES)
    async with sender.Connection(behind.address) as leaving:
        await leaving.write(sender.event(event))
        await eventually(lambda: wire.replies_held > held, within=5, what="a reply held")
        leaving.reset()
    wire.set(Wire.PASS)
    assert await world.database.becomes(event, "completed") == Claim("completed", False, None)
    assert world.attempts(event) == [(1, False)]
    assert (await behind.send(sender.event(event))).verdict == "duplicate"


@pytest.mark.row(57)
async def test_a_settlement_whose_confirmation_is_lost_is_repeated(
    world: World, wire: FaultProxy, behind: Gateway
) -> None:
    event = fresh()
    cut = wire.replies_cut

    async def cut_from_now_on() -> None:
        wire.set(Wire.CUT_REPLIES)

    world.consumer.script(event, Says(then=cut_from_now_on))
    delivery = asyncio.create_task(behind.send(sender.event(event)))
    await eventually(lambda: wire.replies_cut > cut, within=5, what="a reply cut off")
    wire.set(Wire.PASS)
    reply = await delivery
    assert (reply.status, reply.verdict) == (200, "first")
    assert await world.database.becomes(event, "completed") == Claim("completed", False, None)
    assert (await behind.send(sender.event(event))).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]
