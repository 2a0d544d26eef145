"""What a reload leaves behind: numbers, names, and requests that meet it half way."""

from __future__ import annotations

import asyncio
import copy
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    started = await world.gateway()
    yield started
    await started.end()


async def test_a_mistake_that_is_taken_back_is_forgotten_without_a_signal(
    world: World, gateway: Gateway
) -> None:
    good = gateway.settings
    bad = copy.deepcopy(good)
    bad["routes"][0]["modus"] = "forward"
    gateway.write(bad)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_invalid")
    gateway.write(good)

    async def well() -> bool:
        return (await gateway.scrape()).total("dedup_config_last_reload_successful") == 1

    await eventually(well, within=15)


async def test_a_restart_that_is_needed_is_named_until_it_comes(
    world: World, gateway: Gateway
) -> None:
    settings = copy.deepcopy(gateway.settings)
    settings["limits"] = {"connections": 99}
    for path in ("/one", "/two"):
        settings["routes"][0]["path"] = path
        gateway.write(settings)
        gateway.signal(signal.SIGHUP)

        async def moved(path: str = path) -> bool:
            return (await gateway.send(sender.event(fresh(), path))).status == 200

        await eventually(moved, within=15)
    await eventually(lambda: len(gateway.log("restart_needed")) == 2, within=15)


async def test_no_request_for_a_new_route_meets_a_half_made_reload(world: World) -> None:
    many = [world.route(f"old{n}") for n in range(150)]
    gateway = await world.gateway(world.file(*many))
    settings = copy.deepcopy(gateway.settings)
    for route in settings["routes"]:
        route["upstream"]["timeout"] = "29s"  # each hop is replaced
    settings["routes"].append(world.route("added"))
    stop, statuses = asyncio.Event(), set()

    async def hammer() -> None:
        while not stop.is_set():
            statuses.add((await gateway.send(sender.event(fresh(), "/hooks/added"))).status)

    hammers = [asyncio.create_task(hammer()) for _ in range(16)]
    await eventually(lambda: 404 in statuses, within=10)
    gateway.write(settings)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    await eventually(lambda: 200 in statuses, within=10)
    stop.set()
    await asyncio.gather(*hammers)
    await gateway.end()
    assert statuses == {200, 404}


async def test_without_a_file_a_hang_up_of_the_terminal_is_a_clean_end(world: World) -> None:
    flags = ["--upstream", f"http://127.0.0.1:{world.consumer.port}", "--path", "/hooks/orders"]
    flags += ["--event-id", "json:/event_id", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    gateway = Gateway(
        world.directory / fresh("flags"),
        {},
        env={"DEDUP__STORE__DSN": world.database.dsn, "DEDUP__DRAIN_DELAY": "0s"},
        arguments=["serve", *flags],
    )
    world.gateways.append(gateway)
    await gateway.start()
    gateway.signal(signal.SIGHUP)
    await gateway.logged("stopped")
