"""Observe, report, mend, forward: what a key looks like from the traffic that it meets."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.rig import sender, settings
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, run
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = 12


def observing(world: World) -> settings.Settings:
    return world.file(
        world.route("right", mode="observe"),
        world.route("delivery", mode="observe", event_id="header:X-Delivery"),
        world.route("business", mode="observe", event_id="json:/order"),
        world.route("mistyped", mode="observe", event_id="json:/evnt_id"),
    )


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    """Each test reads what it noted itself."""
    if world.gateways:
        await world.database.execute("delete from dedup.observations")
    started = await world.gateway(observing(world))
    yield started
    await started.end()


def attempts(route: str, number: int = 2) -> list[list[bytes]]:
    """All events once, and as often again. Four of them are about the same order."""
    stem = fresh(route)

    def sent(event: int, attempt: int) -> bytes:
        body = {"event_id": f"{stem}-{event}", "order": f"{stem}-{event % 3}", "amount": event}
        named = ("X-Delivery", f"{stem}-{event}-{attempt}")
        return sender.request(f"/hooks/{route}", json.dumps(body).encode(), headers=[named])

    return [[sent(event, attempt) for event in range(EVENTS)] for attempt in range(number)]


async def send(world: World, gateway: Gateway, *volleys: list[bytes]) -> None:
    """One after the other; each is settled before the next, which an observer does not wait for."""
    for volley in volleys:
        for raw in volley:
            assert (await gateway.send(raw)).status == 200
        await eventually(lambda: _settled(world), within=20, what="nothing is under way")


async def _settled(world: World) -> bool:
    return not await world.database.owes()


async def report(gateway: Gateway, route: str, code: int) -> dict[str, Any]:
    words = ("report", "--route", route, "--config", str(gateway.file), "--json")
    ended = await asyncio.to_thread(run, *words)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return dict(json.loads(ended.stdout))


EXPECTED = [
    ("right", [], 0),
    ("delivery", ["delivery_id"], 1),
    ("business", ["business_id"], 1),
    ("mistyped", ["no_id"], 1),
]


async def test_a_key_announces_what_is_wrong_with_it_and_forwards_all_the_same(
    world: World, gateway: Gateway
) -> None:
    for route, _, _ in EXPECTED:
        await send(world, gateway, *attempts(route))
    assert await gateway.stop() == 0  # what was noted last is stored at the end
    for route, kinds, code in EXPECTED:
        said = await report(gateway, route, code)
        assert said["deliveries"] == 2 * EVENTS
        assert [finding["kind"] for finding in said["findings"]] == kinds
    right = await report(gateway, "right", 0)
    assert right["enforcing"]["answered"] == right["taken_again"] == EVENTS
    assert right["standing"] == "early"


async def test_notes_of_several_processes_and_lives_are_one_report(
    world: World, gateway: Gateway
) -> None:
    other = await world.gateway(observing(world))
    first, again, later = attempts("right", 3)
    await send(world, gateway, first)
    await send(world, other, again)
    await gateway.stop()
    await gateway.start()
    await send(world, gateway, later)
    await gateway.stop()
    await other.stop()
    said = await report(gateway, "right", 0)
    assert said["deliveries"] == 3 * EVENTS
    assert said["duplicates"] == {"retry": 2 * EVENTS}


async def test_a_kill_costs_what_was_noted_in_the_last_seconds_and_nothing_older(
    world: World, gateway: Gateway
) -> None:
    raws, again = attempts("right")
    await send(world, gateway, raws)

    async def stored() -> bool:
        return bool((await report(gateway, "right", 0))["deliveries"] == len(raws))

    await eventually(stored, within=30, what="notes of a running gateway in the report")
    gateway.kill()
    await gateway.start()
    await send(world, gateway, again)
    await gateway.stop()
    said = await report(gateway, "right", 0)
    assert (said["deliveries"], said["duplicates"]) == (2 * EVENTS, {"retry": EVENTS})


async def test_what_is_noted_while_the_store_is_away_is_in_the_report_once_it_is_back(
    world: World, gateway: Gateway
) -> None:
    raws, again = attempts("right")
    await send(world, gateway, raws)
    await world.database.execute("alter table dedup.observations rename to elsewhere")
    await send(world, gateway, again)
    await gateway.logged("observations_postponed")
    await world.database.execute("alter table dedup.elsewhere rename to observations")
    await gateway.stop()
    said = await report(gateway, "right", 0)
    assert (said["deliveries"], said["duplicates"]) == (2 * EVENTS, {"retry": EVENTS})


async def test_a_mended_key_starts_with_nothing_against_it(world: World, gateway: Gateway) -> None:
    await send(world, gateway, *attempts("business"))
    mended = observing(world)
    mended["routes"][2]["event_id"] = "json:/event_id"
    gateway.write(mended)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    await send(world, gateway, *attempts("business"))
    await gateway.stop()
    said = await report(gateway, "business", 0)
    assert said["findings"] == []
    assert (said["deliveries"], said["under_another_key"]) == (2 * EVENTS, 2 * EVENTS)
    assert said["enforcing"]["answered"] == EVENTS


async def test_what_is_named_as_changing_with_each_attempt_is_not_held_against_earlier_events(
    world: World, gateway: Gateway
) -> None:
    stem = fresh("sent")
    ids = [f"{stem}-{number}" for number in range(EVENTS)]

    def at(time: int) -> list[bytes]:
        return [sender.event(event, "/hooks/right", sent=time) for event in ids]

    await send(world, gateway, at(1), at(2))
    mended = observing(world)
    mended["routes"][0]["per_attempt"] = ["json:/sent"]
    gateway.write(mended)
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    await send(world, gateway, at(3), [sender.event(fresh(), "/hooks/right")], at(4))
    await gateway.stop()
    said = await report(gateway, "right", 0)
    assert (said["findings"], said["duplicates"]) == ([], {"retry": 2 * EVENTS})
    assert said["under_another_key"] == 2 * EVENTS


async def test_concurrent_doubles_and_failures_are_told_apart(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=429), Says(status=500), Says(delay=1.0), Says())
    raw = sender.event(event, "/hooks/right")
    for _ in range(2):
        await gateway.send(raw)
        await world.database.becomes(event, "released")
    await asyncio.gather(gateway.send(raw), gateway.send(raw))
    await gateway.stop()
    said = await report(gateway, "right", 0)
    assert said["duplicates"] == {"concurrent": 1}
    assert (said["enforcing"]["forwarded"], said["enforcing"]["again"]) == (1, 2)
    assert said["enforcing"]["marked"] == 1
    assert said["taken_again"] == 0
