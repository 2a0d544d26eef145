"""A real Prometheus scrapes real gateways, and finds out that claims are missing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gateway import config
from gateway.rules import Watched, rules
from scripts.dashboard import dashboard
from tests.rig.balancer import free_port
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.prometheus import Prometheus
from tests.rig.world import World, create_database, drop_database, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIFT = "DedupEffectiveRetentionBelowFloor"
FORTY_DAYS = 40 * 86400
"""More than the floor of the rig's routes, less than their retention."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A gateway with a store of its own."""

    world: World
    gateway: Gateway

    async def restart(self) -> None:
        assert await self.gateway.stop() == 0
        await self.gateway.start()

    async def is_planted(self) -> bool:
        planted = await self.world.database.value("select count(*) from dedup.canaries")
        return bool(planted == len(self.gateway.settings["routes"]))

    async def grow_old(self) -> None:
        """Its routes are forty days old, with a canary for each hour of them."""
        async with self.world.database.session() as session, session.transaction():
            await session.execute(
                """
                with planted as (
                  insert into dedup.canaries (route, planted, key)
                  select k.route, k.planted - 3600 * hour, gen_random_uuid()
                    from dedup.canaries k, generate_series(1, $1) hour
                  returning route, planted, key
                )
                insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
                select p.key, p.planted, p.route, c.state, c.fingerprint, c.event_id
                  from planted p
                  join dedup.canaries k on k.route = p.route
                  join dedup.claims c on c.key = k.key
                """,
                FORTY_DAYS // 3600,
            )
            await session.execute("update dedup.routes set born = born - interval '40 days'")
        await self.restart()  # it looks at once

    def rules(self) -> Path:
        """The rules that are made from its file; missing claims need not be missing for long."""
        loaded = config.load(self.gateway.file, env={})
        groups = yaml.safe_load(rules(Watched(loaded.routes)))
        (drift,) = [
            rule
            for group in groups["groups"]
            for rule in group["rules"]
            if rule.get("alert") == DRIFT
        ]
        drift["for"] = "0s"
        file = self.gateway.file.with_name("rules.yaml")
        file.write_text(yaml.safe_dump(groups))
        return file


async def installed(world: World, *routes: str) -> Installation:
    await world.consumer.start()
    admin = {"listen": f"127.0.0.1:{free_port()}"}  # outlives a restart
    file = world.file(*(world.route(name, event_type="json:/type") for name in routes), admin=admin)
    made = Installation(world, await world.gateway(file))
    await eventually(made.is_planted, within=20, what="a canary for each route")
    await made.grow_old()
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installations(
    postgres_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Installation]]:
    place = tmp_path_factory.mktemp("installations")
    served = [("deleted", "kept"), ("truncated",), ("restarted",)]
    worlds = [World(await create_database(postgres_dsn), place / one[0]) for one in served]
    try:
        yield await asyncio.gather(
            *(installed(world, *routes) for world, routes in zip(worlds, served, strict=True))
        )
    finally:
        for world in worlds:
            await world.close()
            await drop_database(postgres_dsn, world.database.dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(
    installations: list[Installation], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prometheus]:
    started = Prometheus(
        tmp_path_factory.mktemp("prometheus"),
        [one.rules() for one in installations],
        [one.gateway.admin for one in installations],
    )
    try:
        await started.start()
        yield started
    finally:
        started.stop()


async def fires(prometheus: Prometheus) -> set[tuple[str, str]]:
    return {
        (alert["labels"]["alertname"], alert["labels"].get("route", ""))
        for alert in await prometheus.firing()
    }


@pytest.mark.case("B012")
async def test_missing_claims_fire_after_delete_after_truncate_and_after_a_restart_in_between(
    installations: list[Installation], prometheus: Prometheus
) -> None:
    old = f"count(dedup_retention_effective_seconds > {FORTY_DAYS - 3600})"

    async def all_are_old() -> bool:
        return [found["value"][1] for found in await prometheus.query(old)] == ["4"]

    await eventually(all_are_old, within=30, what="four memories of forty days")
    await asyncio.sleep(2)  # two evaluations
    assert await fires(prometheus) == set()

    first, second, third = installations
    deleted = "delete from dedup.claims where route = (select id from dedup.routes where name = $1)"
    older = " and first_seen < extract(epoch from now() - interval '7 days')"
    await first.world.database.execute(deleted + older, "deleted")
    await second.world.database.execute("truncate dedup.claims")
    await third.world.database.execute(deleted, "restarted")
    await third.restart()

    async def all_fire() -> bool:
        return len(await fires(prometheus)) >= 3

    await eventually(all_fire, within=60, what="three alerts")
    missing = {(DRIFT, route) for route in ("deleted", "truncated", "restarted")}
    assert await fires(prometheus) == missing
    for alert in await prometheus.firing():
        route, said = alert["labels"]["route"], alert["annotations"]
        assert said["runbook_url"] == f"deploy/runbook.md#{DRIFT.lower()}"
        assert said["summary"] == f"{route}: claims are missing that should be there"
        days = "(6d 23h|7d 0h)" if route == "deleted" else r"\w+"
        assert re.search(rf" reaches back {days} ", said["description"])


# Panels of what need not be there, and is not here.
MAY_BE_EMPTY = {
    "Doubt, in an hour",
    "Refused, by reason",
    "Store errors",
    "Until the consumer's certificate ends",
}


async def test_each_panel_of_the_dashboard_has_series_and_their_legends_are_whole(
    installations: list[Installation], prometheus: Prometheus
) -> None:
    first = installations[0]
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]

    async def drawn(panel: dict[str, Any]) -> bool:
        found = False
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "30s").replace("$route", ".*")
            for one in await prometheus.query(expr):
                found = True
                named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert named <= one["metric"].keys(), (panel["title"], one)
        return found or panel["title"] in MAY_BE_EMPTY

    async def all_drawn() -> bool:
        # A rate needs two scrapes, and a type its first event before the duplicate that counts.
        event = fresh()
        for _ in range(2):
            await first.world.deliver(event, path="/hooks/kept", type="order.paid")
        empty = [panel["title"] for panel in panels if not await drawn(panel)]
        return not empty

    await eventually(all_drawn, within=20, what="series in each panel")
