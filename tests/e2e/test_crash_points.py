"""kill -9 at every named step of both modes, round after round, and the whole history looked at.

Providers insist until they are told a 2xx, the consumer misbehaves by rote, and after each death a
new process goes on. The dead hold nothing any more, so their leases are ended by moving the rows.
"""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.rig import history
from tests.rig.consumer import OK
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.providers import MOODS, SLOW, Providers, nothing_owed
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHORT_ROUNDS, LONG_ROUNDS = 2, 25
# Some steps are taken by the few events that are fast, or slow, at the right moment only.
BETWEEN_EVENTS = 0.3
PROMISE = {"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
UPSTREAM = {"timeout": "1s", "connect_timeout": "200ms", "slot_timeout": "2s"}
# So that of six events four have to be leased by a worker.
FEW_SLOTS = {"inbox": {"concurrency": 2}}

SENDING = ("before_send", "forwarding", "after_answer")
POINTS = {
    "forward": ("after_claim", *SENDING, "after_settle"),
    "patient": ("after_claim", *SENDING, "after_settle", "after_store", "after_conclude"),
    "inbox": ("after_accept", "after_lease", *SENDING, "after_conclude"),
}
MORE: dict[str, Settings] = {
    "forward": {"mode": "forward"},
    "patient": {"mode": "forward", "acknowledge_after": "100ms", "retry": RETRY},
    "inbox": {"mode": "inbox", "retry": RETRY},
}


def file(world: World, mode: str) -> Settings:
    upstream = {**UPSTREAM, **FEW_SLOTS.get(mode, {})}
    route = world.route(mode, upstream=upstream, promise=PROMISE, **MORE[mode])
    return world.file(route)


async def crash_round(
    world: World, providers: Providers, mode: str, point: str, round_: int
) -> None:
    """A gateway that dies at a step, under what the round before left and new events."""
    gateway = Gateway(world.directory / fresh(mode), file(world, mode))
    gateway.env["DEDUP_FAILPOINT"] = f"{point}:kill:{1 + round_ % 3}"
    stem = f"{mode}-{point}"

    async def more_until_it_dies() -> bool:
        await asyncio.sleep(BETWEEN_EVENTS)
        if gateway.is_running:
            providers.send_moody(stem, (OK,), (SLOW,))
        return not gateway.is_running

    try:
        await gateway.start(ready=False)
        providers.use(gateway)
        providers.send_moody(stem, *MOODS)
        await eventually(more_until_it_dies, within=30, what=f"death {point}")
        assert await gateway.died() == -signal.SIGKILL, gateway.tail()
    finally:
        providers.use()
        await gateway.end()
    await world.database.lapse_all()


async def calm(world: World, providers: Providers, mode: str) -> None:
    """A gateway that lives, until nothing is left of the deaths before."""
    gateway = Gateway(world.directory / fresh(mode), file(world, mode))
    try:
        await gateway.start()
        providers.use(gateway)
        await providers.satisfied(within=60)
        await nothing_owed(world, within=60)
    finally:
        providers.use()
        await gateway.end()


async def crash_and_look(world: World, mode: str, rounds: int) -> None:
    providers = Providers(world, f"/hooks/{mode}")
    try:
        for round_ in range(rounds):
            for point in POINTS[mode]:
                await crash_round(world, providers, mode, point, round_)
            await calm(world, providers, mode)
        history.judge(await providers.stories())
    finally:
        await providers.stop()


# Up to sixteen processes one after the other, half a second of CPU each: a busy machine took 75 s.
@pytest.mark.timeout(300)
@pytest.mark.row(105)
@pytest.mark.parametrize("mode", POINTS)
async def test_whatever_step_a_process_dies_at_nothing_is_lost_or_doubled_unmarked(
    world: World, mode: str
) -> None:
    await crash_and_look(world, mode, SHORT_ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.row(105)
@pytest.mark.parametrize("mode", POINTS)
async def test_twenty_five_deaths_at_every_step_lose_and_double_nothing(
    world: World, mode: str
) -> None:
    await crash_and_look(world, mode, LONG_ROUNDS)
