"""A holder that died with the answer in its hands, on routes that do not just send again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway, run
from tests.rig.settings import Settings
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
# In forward mode the next delivery has won the claim; it was an attempt of which nothing was sent.
HELD = {"forward": Claim("stored", True, 2), "inbox": Claim("stored", False, 1)}
MODES = list(HELD)


def file(world: World) -> Settings:
    known = f"http://127.0.0.1:{world.consumer.port}/known?id={{event_id}}"
    probe = {"url": known, "timeout": "1s", "give_up": "1h"}
    return world.file(
        *(
            world.route(f"{mode}-{how}", mode=mode, retry=RETRY, on_doubt=how, probe=asked)
            for mode in MODES
            for how, asked in (("hold", None), ("probe", probe))
        )
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    """A gateway on the same store that stays."""
    yield await world.gateway(file(world))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(world: World, survivor: Gateway) -> AsyncIterator[Gateway]:
    """A gateway that dies once the consumer has acted and answered."""
    gateway = Gateway(world.directory / fresh("victim"), file(world), failpoint="after_answer:kill")
    yield await gateway.start()
    await gateway.end()


async def die(world: World, victim: Gateway, event: str, path: str) -> None:
    """The consumer has acted, and nobody has recorded it; the leases are over."""
    await victim.attempt(sender.event(event, path))
    assert await victim.died() == -signal.SIGKILL
    assert len(world.consumer.effects(event)) == 1
    await world.database.lapse_all()


async def come_back(world: World, event: str, path: str, mode: str) -> None:
    """In forward mode it is the provider who has to; a worker comes by itself."""
    if mode == "forward":
        assert (await world.deliver(event, path=path)).is_success


@pytest.mark.parametrize("mode", MODES)
async def test_hold_keeps_the_event_for_a_person_who_has_it_sent_marked(
    world: World, victim: Gateway, survivor: Gateway, mode: str
) -> None:
    event, route = fresh("held"), f"{mode}-hold"
    path = f"/hooks/{route}"
    await die(world, victim, event, path)
    await come_back(world, event, path, mode)
    held = await world.database.entry_becomes(event, "held")
    assert (held.doubtful, held.attempt) == (True, 1)
    assert await world.database.claim(event) == HELD[mode]
    assert (await world.deliver(event, path=path)).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]
    done = await asyncio.to_thread(
        run, "inbox", "redrive", event, "--route", route, "--by", "me", "--reason", "not shipped",
        "--yes", "--config", str(survivor.file),
    )  # fmt: skip
    assert done.returncode == 0, done
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_consumer_that_knows_the_event_is_not_sent_it_again(
    world: World, victim: Gateway, survivor: Gateway, mode: str
) -> None:
    event = fresh("known")
    path = f"/hooks/{mode}-probe"
    await die(world, victim, event, path)
    await come_back(world, event, path, mode)
    await world.database.becomes(event, "completed")
    assert world.attempts(event) == [(1, False)]
    assert len(world.consumer.requests(f"/known?id={event}")) == 1
    assert (await world.deliver(event, path=path)).verdict == "duplicate"


@pytest.mark.parametrize("mode", MODES)
async def test_a_consumer_that_does_not_know_it_gets_it_once_more_still_marked(
    world: World, victim: Gateway, survivor: Gateway, mode: str
) -> None:
    event = fresh("unknown")
    path = f"/hooks/{mode}-probe"
    world.consumer.script(f"/known?id={event}", Says(status=404))
    await die(world, victim, event, path)
    await come_back(world, event, path, mode)
    await world.database.becomes(event, "completed")
    assert world.attempts(event) == [(1, False), (2, True)]
