"""Adopting the gateway on a live endpoint as README tells it, and leaving again, under load.

Observe, report, backfill, forward, observe; deliveries come all the while, and the provider sends
each until it is acknowledged, some of them again later.
"""

from __future__ import annotations

import asyncio
import copy
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, run
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

LANES = 8
PHASE = 100
"""Events that are acknowledged before the next step is taken."""
OLD = 200
"""Events from before the gateway, which the consumer has."""


class Provider:
    """Sends until it is told to stop; every third event twice, and some of them fail first."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.address: sender.Address | None = None
        self.acknowledged: list[str] = []
        self.refused: Counter[int] = Counter()
        self._going = True

    async def lane(self, name: str) -> None:
        number = 0
        while self._going:
            number += 1
            event = f"{name}-{number}"
            if number % 7 == 0:
                self.world.consumer.script(event, Says(status=503), Says())
            await self.until_acknowledged(event)
            if number % 3 == 0:
                await self.until_acknowledged(event)

    async def until_acknowledged(self, event: str) -> None:
        assert self.address is not None
        while True:
            reply = await sender.attempt(self.address, sender.event(event))
            if reply is not None and reply.is_success:
                self.acknowledged.append(event)
                return
            self.refused[0 if reply is None else reply.status] += 1
            await asyncio.sleep(0.01)

    async def goes_on(self) -> int:
        """Wait for a phase's worth; where the next phase begins."""
        until = len(self.acknowledged) + PHASE
        await eventually(lambda: len(self.acknowledged) >= until, within=30, what="a phase")
        return len(self.acknowledged)

    def stop(self) -> None:
        self._going = False


async def switch(gateway: Gateway, mode: str) -> None:
    settings = copy.deepcopy(gateway.settings)
    settings["routes"][0]["mode"] = mode
    before = len(gateway.log("config_reloaded"))
    gateway.write(settings)
    gateway.signal(signal.SIGHUP)
    await eventually(lambda: len(gateway.log("config_reloaded")) > before, within=15, what=mode)


async def command(gateway: Gateway, *words: str) -> str:
    ended = await asyncio.to_thread(run, *words, "--config", str(gateway.file))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


async def test_a_live_endpoint_is_adopted_and_left_without_losing_or_doubling_an_event(
    world: World, tmp_path: Path
) -> None:
    old = [fresh("before") for _ in range(OLD)]
    provider = Provider(world)
    provider.address = ("127.0.0.1", world.consumer.port)  # as before the gateway
    lanes = [asyncio.ensure_future(provider.lane(fresh("lane"))) for _ in range(LANES)]
    try:
        for event in old:
            await provider.until_acknowledged(event)
        gateway = await world.gateway(world.file(world.route(mode="observe")))
        provider.address = gateway.address
        observed = await provider.goes_on()
        await provider.goes_on()
        await command(gateway, "report", "--route", "orders")
        # What the consumer did before the gateway came is known to its own database.
        listed = tmp_path / "shipped.csv"
        known = dict.fromkeys([*old, *provider.acknowledged[:observed]])
        listed.write_text("id\n" + "".join(f"{event}\n" for event in known))
        who = ("--by", "alice", "--reason", "adopting the gateway")
        await command(gateway, "backfill", "--route", "orders", str(listed), *who)
        await switch(gateway, "forward")
        forwarding = await provider.goes_on()
        effects = {event: len(world.consumer.effects(event)) for event in known}
        redriven = await sender.sweep(gateway.address, [sender.event(event) for event in known])
        assert {(reply.status, reply.verdict) for reply in redriven} == {(200, "duplicate")}
        assert effects == {event: len(world.consumer.effects(event)) for event in known}
        enforced = set(provider.acknowledged[forwarding:])
        left = await provider.goes_on()
        enforced |= set(provider.acknowledged[forwarding:left])
        await switch(gateway, "observe")
        await provider.goes_on()
        provider.address = ("127.0.0.1", world.consumer.port)
        await provider.goes_on()
    finally:
        provider.stop()
        await asyncio.gather(*lanes)
    assert await gateway.stop() == 0
    for event in set(provider.acknowledged):
        assert world.consumer.effects(event), f"{event} is lost"
    first_seen_enforced = enforced - set(provider.acknowledged[:forwarding])
    assert len(first_seen_enforced) > PHASE // 3
    again = set(provider.acknowledged[left:])
    for event in first_seen_enforced - again:
        assert len(world.consumer.effects(event)) == 1, f"{event} is doubled"
