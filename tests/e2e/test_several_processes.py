"""Two and three gateways on one store, killed and paused under traffic.

Others are alive here all the time, so leases end by themselves.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from dataclasses import replace
from typing import Any

import pytest

from tests.rig import history
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.providers import MOODS, Providers, nothing_owed
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# slot + connect + time-out + 5 s: the shortest lease that the configuration takes.
UPSTREAM = {"timeout": "1s", "connect_timeout": "200ms", "slot_timeout": "1s", "concurrency": 4}
LEASE = 7.2
PROMISE = {"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
MODES: dict[str, Settings] = {
    "inbox": {"mode": "inbox"},
    "patient": {"mode": "forward", "acknowledge_after": "100ms"},
}


def file(world: World, mode: str) -> Settings:
    more: dict[str, Any] = {**MODES[mode], "retry": RETRY, "promise": PROMISE}
    return world.file(world.route(mode, upstream=UPSTREAM, **more))


class Fleet:
    """Several gateways on one store, and providers that know all of them."""

    def __init__(self, world: World, mode: str, size: int) -> None:
        self.gateways = [
            Gateway(world.directory / fresh(mode), file(world, mode)) for _ in range(size)
        ]
        self.providers = Providers(world, f"/hooks/{mode}")

    async def __aenter__(self) -> Fleet:
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        self.providers.use(*self.gateways)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.providers.stop()
        for gateway in self.gateways:
            await gateway.end()

    async def flow(self, stem: str) -> None:
        """New events, and some progress with them."""
        goal = len(self.providers.acknowledged) + len(MOODS)
        self.providers.send_moody(stem, *MOODS, *MOODS)
        await eventually(
            lambda: len(self.providers.acknowledged) >= goal, within=60, what="acknowledgements"
        )

    async def restart(self, gateway: Gateway) -> None:
        gateway.kill()
        self.providers.use(*(one for one in self.gateways if one is not gateway))
        await gateway.start()
        self.providers.use(*self.gateways)


async def kill_in_turn(world: World, mode: str, size: int, kills: int) -> None:
    async with Fleet(world, mode, size) as fleet:
        turns = itertools.cycle(fleet.gateways)
        for victim in itertools.islice(turns, kills):
            await fleet.flow(f"{mode}-killed")
            # Anywhere in what is under way.
            await asyncio.sleep(random.random() * 0.3)
            await fleet.restart(victim)
        await fleet.providers.satisfied(within=LEASE + 60)
        await nothing_owed(world, within=LEASE + 60)
        history.judge(await fleet.providers.stories())


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "size"), [("inbox", 3), ("patient", 2)])
async def test_several_gateways_that_are_killed_in_turn_lose_and_double_nothing(
    world: World, mode: str, size: int
) -> None:
    await kill_in_turn(world, mode, size, kills=4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("mode", MODES)
async def test_fifty_kills_among_several_gateways_lose_and_double_nothing(
    world: World, mode: str, size: int
) -> None:
    await kill_in_turn(world, mode, size, kills=50)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
async def test_a_gateway_that_stands_still_beyond_every_lease_comes_back_into_a_sound_world(
    world: World, mode: str
) -> None:
    async with Fleet(world, mode, 2) as fleet:
        sleeper, awake = fleet.gateways
        await fleet.flow(f"{mode}-paused")
        sleeper.signal(signal.SIGSTOP)
        fleet.providers.use(awake)
        await fleet.flow(f"{mode}-paused")
        await asyncio.sleep(LEASE + 0.5)  # monotonic time really has to pass
        await fleet.flow(f"{mode}-paused")
        sleeper.signal(signal.SIGCONT)
        await fleet.flow(f"{mode}-paused")
        await fleet.providers.satisfied(within=60)
        await nothing_owed(world, within=LEASE + 60)
        # One that stood still in the gap before its write sends all the same; README names it.
        history.judge(replace(s, answered=None) for s in await fleet.providers.stories())
