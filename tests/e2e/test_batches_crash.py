"""kill -9 under batches, at every step that lies between arriving and the end.

Each item's claim is right afterwards: whatever may have had its effect is sent again marked, what
had none is sent once, and what was seen before stays as it was. The dead hold nothing any more, so
their leases are ended by moving the rows.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig.batches import batch, claims, route, states, taken
from tests.rig.consumer import OK, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

RETRY = {"base": "50ms", "cap": "200ms", "give_up": "1h"}
UPSTREAM = {"timeout": "2s", "connect_timeout": "200ms", "slot_timeout": "2s"}
MODES: dict[str, Settings] = {
    "forward": {},
    "inbox": {"mode": "inbox", "retry": RETRY},
    "slow": {"acknowledge_after": "50ms", "retry": RETRY},
    "observe": {"mode": "observe"},
}
SENDING = ("before_send", "forwarding", "after_answer")
POINTS = [
    *(("forward", point) for point in ("after_claim", *SENDING, "after_settle")),
    *(("inbox", point) for point in ("after_claim", "after_accept", *SENDING, "after_conclude")),
    *(("slow", point) for point in ("after_claim", *SENDING, "after_store", "after_conclude")),
    *(("observe", point) for point in SENDING),
]


def file(world: World) -> Settings:
    routes = (route(world, name, upstream=UPSTREAM, **more) for name, more in MODES.items())
    return world.file(*routes)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def survivor(world: World) -> AsyncIterator[Gateway]:
    """A gateway on the same store that stays, and takes up what others leave behind."""
    yield await world.gateway(file(world))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(world: World, survivor: Gateway) -> AsyncIterator[Gateway]:
    gateway = Gateway(world.directory / fresh("victim"), file(world))
    yield gateway
    await gateway.end()


@pytest.mark.row(110)
@pytest.mark.parametrize(("mode", "point"), POINTS)
async def test_whatever_step_a_process_dies_at_each_items_claim_is_right(
    world: World, survivor: Gateway, victim: Gateway, mode: str, point: str
) -> None:
    seen, a, b, name, path = fresh("seen"), fresh("a"), fresh("b"), fresh(mode), f"/hooks/{mode}"
    await survivor.send(batch(fresh(), seen, path=path))
    await world.database.becomes(seen, "completed")
    world.consumer.script(name, Says(delay=0.2) if mode == "slow" else OK, OK)
    victim.env["DEDUP_FAILPOINT"] = f"{point}:kill"
    await victim.start()
    await victim.attempt(batch(name, seen, a, b, path=path))
    assert await victim.died() == -signal.SIGKILL
    await asyncio.sleep(0.3 if mode == "slow" else 0)  # the consumer ends what it has begun
    await world.database.lapse_all()
    await survivor.decided(batch(name, seen, a, b, path=path))
    for event in (a, b):
        await world.database.becomes(event, "completed", within=20)
    await eventually(lambda: not_owed(world), within=20)

    effects = world.consumer.effects(name)
    if mode != "observe":
        assert all(request == [a, b] for request in taken(world, name))
        assert [effect.marked for effect in effects].count(False) <= 1
        assert len(effects) <= 2
    assert effects
    assert await claims(world, seen) == [Claim("completed", False, None)]
    reply = await survivor.send(batch(name, b, seen, a, path=path))
    assert mode == "observe" or reply.verdict == "duplicate"


async def not_owed(world: World) -> bool:
    return not await world.database.owes()


@pytest.mark.parametrize("status", [500, 400])
async def test_a_holder_that_dies_after_the_answer_leaves_all_items_lapsed_and_together(
    world: World, survivor: Gateway, victim: Gateway, status: int
) -> None:
    a, b, name = fresh("a"), fresh("b"), fresh("forward")
    world.consumer.script(name, Says(status=status), OK)
    victim.env["DEDUP_FAILPOINT"] = "after_answer:kill"
    await victim.start()
    await victim.attempt(batch(name, a, b, path="/hooks/forward"))
    await victim.died()
    assert await states(world, a, b) == ["claimed"] * 2
    await world.database.lapse_all()
    assert (await survivor.decided(batch(name, b, path="/hooks/forward"))).verdict == "first"
    assert (await survivor.decided(batch(name, a, b, path="/hooks/forward"))).verdict == "first"
    assert taken(world, name) == [[a, b], [b], [a]]
    assert [request.marked for request in world.consumer.requests(name)] == [False, True, True]


async def test_a_lease_that_ends_while_the_holder_is_paused_goes_to_another_batch(
    world: World, survivor: Gateway, victim: Gateway
) -> None:
    """Paused after its deadline check: the one gap that nobody can close. A late success counts."""
    a, b, c, name, other = fresh("a"), fresh("b"), fresh("c"), fresh("forward"), fresh("forward")
    victim.env["DEDUP_FAILPOINT"] = "before_send:stop"
    await victim.start()
    late = asyncio.create_task(victim.attempt(batch(name, a, b, path="/hooks/forward"), within=60))
    await victim.paused()
    await world.database.lapse_all()
    world.consumer.script(other, Says(status=500), OK)
    assert (await survivor.send(batch(other, b, c, path="/hooks/forward"))).status == 500
    victim.signal(signal.SIGCONT)
    assert (await late).is_success  # type: ignore[union-attr]
    assert await states(world, a, b, c) == ["completed", "completed", "released"]
    assert (await survivor.send(batch(other, b, c, path="/hooks/forward"))).verdict == "first"
    assert taken(world, other) == [[b, c], [c]]
    assert [request.marked for request in world.consumer.requests(other)] == [True, True]
