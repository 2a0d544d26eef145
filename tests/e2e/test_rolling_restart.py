"""Rolling restarts behind a balancer: the provider and the consumer notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.rig import history, sender
from tests.rig.balancer import Balancer, NoBalancer, free_port
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS_PER_SECOND = 50
RESTARTS, RESTARTS_IN_SOAK = 4, 20
# Longer than the balancer needs to hear of it: one look at the probe and one reload.
DRAIN_DELAY = "1500ms"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World) -> AsyncIterator[dict[int, Gateway]]:
    """Two gateways on ports that stay the same."""
    gateways: dict[int, Gateway] = {}
    for _ in range(2):
        port, admin = free_port(), free_port()
        file = world.file(drain_delay=DRAIN_DELAY)
        file["listen"], file["admin"]["listen"] = f"127.0.0.1:{port}", f"127.0.0.1:{admin}"
        gateways[port] = await world.gateway(file)
    yield gateways


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def balancer(
    pair: dict[int, Gateway], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Balancer]:
    place: Path = tmp_path_factory.mktemp("nginx")
    started = Balancer(place, {port: gateway.admin for port, gateway in pair.items()})
    try:
        await started.start()
    except NoBalancer as why:
        pytest.skip(str(why))
    yield started
    await started.stop()


async def provide(address: sender.Address, stop: asyncio.Event, sent: list[str]) -> list[object]:
    """Fifty events a second, each sent once; what was told other than success."""
    refusals: list[object] = []

    async def one(event: str) -> None:
        reply = await sender.attempt(address, sender.event(event), within=15)
        if reply is None or not reply.is_success:
            refusals.append((event, reply))

    async with asyncio.TaskGroup() as group:
        while not stop.is_set():
            event = fresh("rolling")
            sent.append(event)
            group.create_task(one(event))
            await asyncio.sleep(1 / EVENTS_PER_SECOND)
    return refusals


async def roll(world: World, pair: dict[int, Gateway], balancer: Balancer, restarts: int) -> None:
    stop, sent = asyncio.Event(), list[str]()
    provider = asyncio.create_task(provide(balancer.address, stop, sent))
    ports = list(pair)
    for number in range(restarts):
        port = ports[number % 2]
        assert await pair[port].stop() == 0
        await balancer.has(port, False)
        await pair[port].start()
        await balancer.has(port, True)
    stop.set()
    refusals = await provider
    assert refusals == []
    history.check(world.consumer, acknowledged=sent, sent=sent)
    assert {len(world.consumer.requests(event)) for event in sent} == {1}
    unsettled = "select count(*) from dedup.claims where state::text not in ('d')"
    assert await world.database.value(unsettled) == 0
    for gateway in pair.values():
        assert (await gateway.scrape()).total("dedup_takeovers_total") == 0


async def test_a_rolling_restart_refuses_nothing_doubles_nothing_and_leaves_no_lease(
    world: World, pair: dict[int, Gateway], balancer: Balancer
) -> None:
    await roll(world, pair, balancer, RESTARTS)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_twenty_rolling_restarts_go_unnoticed(
    world: World, pair: dict[int, Gateway], balancer: Balancer
) -> None:
    await roll(world, pair, balancer, RESTARTS_IN_SOAK)


@pytest.mark.row(107)
async def test_this_release_runs_on_the_next_ones_schema_beside_it(world: World) -> None:
    """An upgrade that rolls: the new release has migrated, the old one is still taking requests."""
    running, event, entry = await world.gateway(), fresh(), fresh("stored")
    assert (await running.send(sender.event(event))).verdict == "first"
    assert (await running.send(sender.event(entry))).verdict == "first"
    await world.database.execute("alter table dedup.claims add column next text")
    await world.database.execute("insert into dedup.migrations (version, name) values (99, 'next')")
    # What the next release does with an event that this one has no word for yet.
    await world.database.execute(
        "update dedup.claims set state = 's', attempt = 1 where event_id = $1", entry
    )
    restarted = await world.gateway()
    for gateway in (running, restarted):
        assert (await gateway.send(sender.event(event))).verdict == "duplicate"
        assert (await gateway.send(sender.event(entry))).verdict == "duplicate"
        assert (await gateway.send(sender.event(fresh()))).verdict == "first"
        assert await gateway.is_ready()
    assert len(world.consumer.requests(event)) == 1
    assert len(world.consumer.requests(entry)) == 1
