"""Routes that still owe acknowledged events do not go away, and keep to the file as it is now."""

from __future__ import annotations

import copy
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.balancer import free_port
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOWHERE = {"url": f"http://127.0.0.1:{free_port()}"}


def inbox(world: World, name: str, **more: object) -> Settings:
    retry = {"base": "100ms", "cap": "100ms", "give_up": "1h"}
    return world.route(name, mode="inbox", retry=retry, **more)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def owing(world: World) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway that has acknowledged one event on `debts`, whose consumer is not there."""
    debts = inbox(world, "debts", upstream=NOWHERE)
    gateway = await world.gateway(world.file(world.route(), debts))
    event = fresh()
    assert (await gateway.send(sender.event(event, "/hooks/debts"))).verdict == "first"
    yield gateway, event
    await gateway.end()
    await world.database.execute("delete from dedup.entries")


def without_debts(gateway: Gateway) -> Settings:
    settings = copy.deepcopy(gateway.settings)
    settings["routes"] = settings["routes"][:1]
    return settings


async def test_a_reload_that_drops_a_route_with_undelivered_events_is_refused(
    owing: tuple[Gateway, str],
) -> None:
    gateway, event = owing
    before = gateway.settings
    gateway.write(without_debts(gateway))
    gateway.signal(signal.SIGHUP)
    told = await gateway.logged("config_invalid")
    assert "debts (1)" in told["detail"]
    assert (await gateway.send(sender.event(event, "/hooks/debts"))).verdict == "duplicate"
    gateway.write(before)


async def test_a_start_without_such_a_route_is_refused(
    world: World, owing: tuple[Gateway, str]
) -> None:
    gateway, _ = owing
    other = Gateway(world.directory / fresh("without"), without_debts(gateway))
    other.launch()
    assert await other.died(within=20) == 2
    (line,) = other.log("start_failed")
    assert "debts (1)" in line["detail"]
    assert "inbox list" in line["detail"]


@pytest.mark.row(99)
async def test_entries_go_to_where_their_route_leads_now(
    world: World, owing: tuple[Gateway, str]
) -> None:
    gateway, event = owing
    settings = copy.deepcopy(gateway.settings)
    settings["routes"][1] = inbox(world, "debts")
    gateway.write(settings)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    await eventually(lambda: len(world.consumer.effects(event)) == 1, within=15)
    assert world.attempts(event) == [(1, False)]
    await world.database.becomes(event, "completed")


async def test_a_route_that_owes_nothing_any_more_may_go(owing: tuple[Gateway, str]) -> None:
    gateway, _ = owing
    reloads = len(gateway.log("config_reloaded"))
    gateway.write(without_debts(gateway))
    gateway.signal(signal.SIGHUP)
    await eventually(lambda: len(gateway.log("config_reloaded")) > reloads, within=15)


@pytest.mark.parametrize("mode", ["observe", "forward"])
async def test_a_route_that_left_inbox_mode_still_delivers_what_it_acknowledged(
    world: World, mode: str
) -> None:
    name, event = f"left-for-{mode}", fresh()
    gateway = await world.gateway(world.file(inbox(world, name, upstream=NOWHERE)))
    assert (await gateway.send(sender.event(event, f"/hooks/{name}"))).verdict == "first"
    gateway.write(world.file(world.route(name, mode=mode)))
    gateway.signal(signal.SIGHUP)
    await eventually(lambda: len(world.consumer.effects(event)) == 1, within=15)
    await world.database.becomes(event, "completed")  # or the next start would be refused
    await gateway.end()
