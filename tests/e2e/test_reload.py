"""A configuration that changes under a running gateway."""

from __future__ import annotations

import asyncio
import copy
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, run
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    started = await world.gateway()
    yield started
    await started.end()


def changed(gateway: Gateway, **orders: object) -> Settings:
    settings = copy.deepcopy(gateway.settings)
    settings["routes"][0].update(orders)
    return settings


async def test_a_reload_by_signal_is_in_force_for_the_next_request(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    assert (await gateway.send(sender.event(event))).verdict == "first"
    more = changed(gateway)
    more["routes"].append(world.route("added"))
    gateway.write(more)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    assert (await gateway.send(sender.event(event, "/hooks/added"))).verdict == "first"
    assert (await gateway.send(sender.event(event))).verdict == "duplicate"


async def test_a_reload_by_changed_content_needs_no_signal(world: World, gateway: Gateway) -> None:
    gateway.write(changed(gateway, path="/moved"))
    await gateway.logged("config_reloaded", within=15)  # the file is looked at every ten seconds
    assert (await gateway.send(sender.event(fresh(), "/moved"))).verdict == "first"
    assert (await gateway.send(sender.event(fresh()))).status == 404


async def test_an_invalid_file_leaves_the_old_one_running_and_says_so(
    world: World, gateway: Gateway
) -> None:
    good = gateway.settings
    gateway.write(changed(gateway, modus="forward", lease="0s"))
    gateway.signal(signal.SIGHUP)
    told = await gateway.logged("config_invalid")
    assert "modus" in str(told)
    assert "lease" in str(told)
    assert (await gateway.scrape()).total("dedup_config_last_reload_successful") == 0
    assert (await gateway.send(sender.event(fresh()))).verdict == "first"
    gateway.write(good)
    gateway.signal(signal.SIGHUP)

    async def well() -> bool:
        return (await gateway.scrape()).total("dedup_config_last_reload_successful") == 1

    await eventually(well, within=15)


async def test_a_request_in_flight_ends_under_the_configuration_it_began_with(
    world: World, gateway: Gateway
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(status=409, until=free))
    flying = asyncio.create_task(gateway.send(sender.event(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    gateway.write(changed(gateway, success_status=[409]))
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    free.set()
    assert (await flying).status == 409
    again = await gateway.send(sender.event(event))
    assert (again.status, again.verdict) == (409, "first")
    assert (await gateway.send(sender.event(event))).verdict == "duplicate"
    assert world.attempts(event) == [(1, False), (2, True)]


async def test_a_setting_that_needs_a_restart_is_named(world: World, gateway: Gateway) -> None:
    settings = changed(gateway)
    settings["limits"] = {"connections": 99}
    gateway.write(settings)
    gateway.signal(signal.SIGHUP)
    assert "limits" in str(await gateway.logged("restart_needed"))


@pytest.mark.row(21)
@pytest.mark.case("B006")
@pytest.mark.parametrize("lease", ["0s", "1s", "9s"])
async def test_a_lease_shorter_than_a_forward_is_refused_at_start_zero_included(
    world: World, lease: str
) -> None:
    bad = Gateway(world.directory / fresh("lease"), world.file(world.route(lease=lease)))
    ended = await asyncio.to_thread(run, "serve", "--config", str(bad.file))
    assert ended.returncode == 2
    assert "lease" in ended.stderr
