"""Secrets that change: every one of a rotation is believed, and none that has left it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.rig.deadline import eventually
from tests.rig.settings import Settings
from tests.rig.stripe_like import BOTH, NEW, OLD, signed
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_secret_of_a_rotation_is_believed_and_which_it_was_is_counted(
    world: World,
) -> None:
    gateway = await world.gateway(world.file(world.route(signature=BOTH)))
    before = await gateway.scrape()
    for secret in (NEW, OLD, OLD):
        assert (await gateway.send(signed(fresh(), secret=secret))).verdict == "first"
    after = await gateway.scrape()
    valid = [
        after.since(before, "dedup_signatures_total", result="valid", secret=place)
        for place in ("0", "1")
    ]
    assert valid == [1, 2]
    await gateway.end()


async def test_a_secret_changes_under_load_and_no_delivery_of_the_provider_is_refused(
    world: World,
) -> None:
    def with_secrets(*secrets: str) -> Settings:
        return world.file(world.route(signature={**BOTH, "secrets": list(secrets)}))

    gateway = await world.gateway(with_secrets(OLD))
    secret, told = OLD, []
    stop = asyncio.Event()

    async def provider(number: int) -> None:
        while not stop.is_set():
            event = fresh(f"rotated{number}")
            reply = await gateway.send(signed(event, secret=secret))
            told.append((event, reply.status, reply.verdict))

    async def reload(*secrets: str) -> None:
        count = len(gateway.log("config_reloaded"))
        gateway.write(with_secrets(*secrets))
        gateway.signal(signal.SIGHUP)
        await eventually(
            lambda: len(gateway.log("config_reloaded")) > count, within=20, what="reloaded"
        )

    async def more() -> None:
        count = len(told)
        await eventually(lambda: len(told) > count + 50, within=30, what="more deliveries")

    tasks = [asyncio.create_task(provider(number)) for number in range(4)]
    await more()
    await reload(NEW, OLD)
    await more()
    secret = NEW
    await more()
    await reload(NEW)
    await more()
    stop.set()
    await asyncio.gather(*tasks)
    assert {(status, verdict) for _, status, verdict in told} == {(200, "first")}
    for event, _, _ in told:
        assert world.attempts(event) == [(1, False)]
    assert (await gateway.send(signed(fresh(), secret=OLD))).status == 401
    await gateway.end()
