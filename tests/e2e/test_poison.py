"""An event that kills whoever forwards it."""

from __future__ import annotations

import signal

import pytest

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
DEATHS = 3


@pytest.mark.row(89)
async def test_an_event_that_kills_its_workers_ends_dead_and_the_others_are_delivered(
    world: World,
) -> None:
    poison, others = fresh("poison"), [fresh("good") for _ in range(8)]
    gateway = Gateway(
        world.directory / "supervised",
        world.file(world.route(mode="inbox", retry=RETRY, upstream={"concurrency": 2})),
    )

    async def kill() -> None:
        gateway.signal(signal.SIGKILL)

    world.consumer.script(poison, Says(acts="never", then=kill))
    try:
        await gateway.start()
        for event in others:
            assert (await gateway.send(sender.event(event))).is_success
        await gateway.attempt(sender.event(poison))
        for death in range(1, DEATHS + 1):
            assert await gateway.died() == -signal.SIGKILL
            entry = await world.database.entry(poison)
            assert entry is not None
            assert (entry.state, entry.attempt) == ("leased", death)
            await world.database.lapse_all()
            if death == DEATHS:
                await world.database.execute(
                    "update dedup.entries set since = since - interval '1 h'"
                    " where event_id = convert_to($1, 'UTF8')",
                    poison,
                )
            await gateway.start()
        dead = await world.database.entry_becomes(poison, "dead")
        assert (dead.doubtful, dead.why) == (True, "its worker never concluded")
        for event in others:
            await world.database.entry_becomes(event, "delivered")
        assert world.attempts(poison) == [(1, False), (2, True), (3, True)]
        after = fresh("after")
        assert (await gateway.send(sender.event(after))).is_success
        await world.database.entry_becomes(after, "delivered")
        assert not await world.database.owes()
    finally:
        await gateway.end()
