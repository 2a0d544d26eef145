"""Memory is bounded by the configuration, not by whoever connects."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDLE, DRIPPING, LARGE = 2_000, 200, 30
LARGE_BODY = 20 * 2**20
LIMIT = 400 * 2**20
EVENTS_PER_SECOND = 20
EVENTS = 200
PIECE = 2**18
# The test's own loop reads and writes 1.2 GB meanwhile, so the hop to it needs patience.
PATIENT = {"timeout": "60s", "connect_timeout": "10s", "slot_timeout": "60s"}


@pytest.fixture(scope="module", autouse=True)
def _many_files() -> None:
    """Each connection is a file here and one in the gateway, which inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * (IDLE + DRIPPING) + 1000
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"this account may open only {hard} files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    world.consumer.keeps_up_to = 4096
    yield await world.gateway(world.file(world.route(), world.route("big", upstream=PATIENT)))


async def drip(connection: sender.Connection) -> None:
    """One byte a second of a head, then of a body."""
    raw = sender.event(fresh("drip"), filling="x" * 1000)
    for byte in raw:
        await connection.write(bytes([byte]))
        await asyncio.sleep(1)


async def push(gateway: Gateway, event: str, body: bytes) -> None:
    """A large push, again after each 503."""
    length = ("Content-Length", str(len(body)))
    head = sender.request("/hooks/big", headers=[("X-Rig", event), length])
    while True:
        async with sender.Connection(gateway.address) as connection:
            try:
                await connection.write(head)
                for start in range(0, len(body), PIECE):
                    await connection.write(body[start : start + PIECE])
                reply = await connection.reply()
            except (ConnectionError, sender.NoReply):
                reply = None  # refused and closed while we were still writing
        if reply is not None and reply.is_success:
            return
        assert reply is None or (reply.status == 503 and reply.retry_after), reply
        await asyncio.sleep(1)


async def steady(gateway: Gateway) -> None:
    """Twenty events a second on another route, each of which must succeed at the first try."""
    sent: list[asyncio.Task[sender.Reply]] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(EVENTS):
            sent.append(group.create_task(gateway.send(sender.event(fresh("steady")), within=15)))
            await asyncio.sleep(1 / EVENTS_PER_SECOND)
    assert {task.result().verdict for task in sent} == {"first"}


@pytest.mark.timeout(180)
@pytest.mark.case("B018")
async def test_idle_dripping_and_huge_senders_cost_bounded_memory_and_no_other_route(
    world: World, gateway: Gateway
) -> None:
    idle = [sender.Connection(gateway.address) for _ in range(IDLE)]
    dripping = [sender.Connection(gateway.address) for _ in range(DRIPPING)]
    for start in range(0, IDLE + DRIPPING, 100):
        batch = [*idle, *dripping][start : start + 100]
        await asyncio.gather(*(connection.__aenter__() for connection in batch))
    drips = [asyncio.create_task(drip(connection)) for connection in dripping]
    event, body = fresh("large"), os.urandom(LARGE_BODY)
    pushes = [asyncio.create_task(push(gateway, f"{event}_{n}", body)) for n in range(LARGE)]
    try:
        await steady(gateway)
        async with asyncio.timeout(90):
            await asyncio.gather(*pushes)
        assert not any(connection.reader.at_eof() for connection in [*idle, *dripping])
    finally:
        for task in [*drips, *pushes]:
            task.cancel()
        await asyncio.gather(*drips, *pushes, return_exceptions=True)
        for connection in [*idle, *dripping]:
            await connection.__aexit__()
    for number in range(LARGE):
        (received,) = world.consumer.requests(f"{event}_{number}")
        assert received.size == LARGE_BODY
    peak = gateway.peak_rss()
    print(f"{peak / 2**20:.0f} MiB at the peak")
    assert peak < LIMIT, f"{peak / 2**20:.0f} MiB"
    assert (await gateway.scrape()).total("dedup_rejected_total", reason="internal") == 0
