"""How what is noted in `observe` reaches the store: late, once, and in series."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from gateway.core.observing import What
from gateway.core.route import Mode
from gateway.flow.observing import FORGET_BATCH, SERIES_LASTS
from tests.flow.world import MakeWorld, World


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(mode=Mode.OBSERVE)


async def test_nothing_is_lost_while_the_store_is_away_and_it_is_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.notebook.away = True
    with caplog.at_level(logging.WARNING, "gateway.observing"):
        for number in range(3):
            await world.deliver(f"evt_{number}")
            world.pass_by(SERIES_LASTS + 1)
            assert not await world.observations.keep_once()
    assert [record.getMessage() for record in caplog.records] == ["observations_postponed"]
    world.notebook.away = False
    assert (await world.noted())[What.NEW, ""] == 3


async def test_a_reply_that_was_lost_counts_nothing_twice(world: World) -> None:
    for number in range(3):
        await world.deliver(f"evt_{number}")
        world.notebook.reply_lost = number < 2
        await world.observations.keep_once()
    assert world.notebook.sums[What.NEW, ""] == 3


async def test_a_series_ends_after_an_hour_and_what_is_old_is_deleted_then(world: World) -> None:
    for _ in range(2):
        await world.deliver("evt_1")
        await world.settled()
        world.pass_by(SERIES_LASTS + 1)
        await world.observations.keep_once()
    assert len({series for series, _ in world.notebook.pages}) == 2
    assert world.notebook.forgot == [0, 0]
    assert world.notebook.sums[What.DURABLE, "retry"] == 1


async def test_all_that_is_old_is_deleted_in_one_go(world: World) -> None:
    world.notebook.old = 2 * FORGET_BATCH + 1
    world.pass_by(SERIES_LASTS + 1)
    await world.observations.keep_once()
    assert world.notebook.forgot == [FORGET_BATCH, FORGET_BATCH, 1]


async def test_what_a_reload_changes_is_noted_in_a_series_of_its_own(world: World) -> None:
    """So that a report can leave out what was noted before a mend."""
    for _ in range(2):
        await world.deliver("evt_1")
        await world.settled()
        world.receiver = world.receiving(replace(world.route, lease=99.0))
        await world.noted()
    assert len({series for series, _ in world.notebook.pages}) == 2
    assert world.notebook.sums[What.DURABLE, "retry"] == 1


async def test_what_is_noted_while_a_series_is_stored_is_stored_next(world: World) -> None:
    await world.deliver("evt_1")
    await world.settled()
    gate = asyncio.Event()
    world.notebook.gates = [gate]
    storing = asyncio.ensure_future(world.observations.keep_once())
    await world.notebook.asked.wait()
    await world.deliver("evt_2")
    gate.set()
    await storing
    assert (await world.noted())[What.NEW, ""] == 2


async def test_two_that_store_at_once_lose_no_series_that_a_reload_ends_meanwhile(
    world: World,
) -> None:
    """The loop, and the end of the process."""
    await world.deliver("evt_1")
    world.receiver = world.receiving(replace(world.route, lease=98.0))
    first, second = asyncio.Event(), asyncio.Event()
    world.notebook.gates = [first, second]
    storing = [asyncio.ensure_future(world.observations.keep_once()) for _ in range(2)]
    while world.notebook.gates:
        await asyncio.sleep(0)
    first.set()
    await storing[0]
    await world.deliver("evt_2")
    world.receiver = world.receiving(replace(world.route, lease=99.0))
    second.set()
    await storing[1]
    assert (await world.noted())[What.NEW, ""] == 2


async def test_nothing_new_asks_nothing_of_the_store(world: World) -> None:
    await world.deliver("evt_1")
    await world.noted()
    world.notebook.away = True
    assert await world.observations.keep_once()
