"""What operators do while gateways run, as consumer and provider see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.operating.lines import WHO, run, told
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETRY = {"base": "200ms", "cap": "200ms", "give_up": "1s"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(
        world.file(
            world.route("replayed", duplicate_reply="replay"),
            world.route("stored", mode="inbox", retry=RETRY),
            world.route("held", on_doubt="hold"),
            world.route("held-stored", mode="inbox", on_doubt="hold"),
            world.route("asked", on_doubt="probe", probe={"url": knows(world)}),
        )
    )


def knows(world: World) -> str:
    """Where the consumer says that it knows an event: it answers 200 to whatever it is asked."""
    return f"http://127.0.0.1:{world.consumer.port}/known?id={{event_id}}"


def meant(gateway: Gateway, event: str, route: str) -> tuple[str, ...]:
    return event, "--route", route, "--config", str(Path(gateway.file))


async def given_up(line: tuple[str, ...]) -> None:
    async def is_dead() -> bool:
        return bool((await told("inbox", "show", *line))["entry"]["state"] == "dead")

    await eventually(is_dead, within=20, what="it is given up")


async def test_a_released_event_reaches_the_consumer_once_more_marked_and_its_new_reply_is_kept(
    world: World, gateway: Gateway
) -> None:
    event, path = fresh(), "/hooks/replayed"
    world.consumer.script(event, Says(body=b"lost"), Says(body=b"shipped"))
    assert (await world.deliver(event, path=path)).body == b"lost"
    assert (await world.deliver(event, path=path)).body == b"lost"
    released = await run("claims", "release", *meant(gateway, event, "replayed"), *WHO, "--yes")
    assert released.exit_code == 0, released.output
    again = await world.deliver(event, path=path)
    assert (again.verdict, again.body) == ("first", b"shipped")

    async def replayed() -> bool:
        return (await world.deliver(event, path=path)).body == b"shipped"

    await eventually(replayed, within=10, what="the new reply is replayed")
    assert [(sent.attempt, sent.marked) for sent in world.consumer.requests(event)] == [
        (1, False), (2, True),
    ]  # fmt: skip


@pytest.mark.parametrize("route", ["held", "held-stored", "asked"])
async def test_a_released_event_goes_through_once_more_whatever_the_route_does_with_doubt(
    world: World, gateway: Gateway, route: str
) -> None:
    event, path = fresh(), f"/hooks/{route}"
    assert (await world.deliver(event, path=path)).status == 200
    await world.database.becomes(event, "completed")
    released = await run("claims", "release", *meant(gateway, event, route), *WHO, "--yes")
    assert released.exit_code == 0, released.output
    assert (await world.deliver(event, path=path)).verdict == "first"
    await world.database.becomes(event, "completed")
    sent = [one for one in world.consumer.requests(event) if one.method == "POST"]
    assert [(one.attempt, one.marked) for one in sent] == [(1, False), (2, True)]


async def test_a_dead_event_is_redriven_to_a_consumer_that_works_again(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=400))
    assert (await world.deliver(event, path="/hooks/stored")).status == 200
    line = meant(gateway, event, "stored")
    await given_up(line)
    tried = len(world.consumer.requests(event))
    world.consumer.script(event, Says())
    assert (await told("inbox", "redrive", *line, *WHO))["done"] == 1
    await eventually(
        lambda: bool(world.consumer.effects(event)), within=20, what="the consumer acted"
    )
    assert len(world.consumer.requests(event)) == tried + 1
    assert not world.consumer.effects(event)[0].marked  # every refusal came before an effect


async def test_a_dropped_event_is_sent_no_more_and_its_duplicates_hear_success(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=400))
    await world.deliver(event, path="/hooks/stored")
    line = meant(gateway, event, "stored")
    await given_up(line)
    tried = len(world.consumer.requests(event))
    assert (await told("inbox", "drop", *line, *WHO))["event"]["claim"]["state"] == "completed"
    again = await world.deliver(event, path="/hooks/stored")
    assert (again.status, again.verdict) == (200, "duplicate")
    assert (await told("inbox", "show", *line))["entry"]["state"] == "dropped"
    assert len(world.consumer.requests(event)) == tried
