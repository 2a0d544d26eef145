"""Processes that register the retention of their routes and plant canaries, on a real store."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from gateway.core.canary import Remembered
from gateway.core.keying import Recipe
from gateway.core.location import Json, Literal
from gateway.core.retention import Promise
from gateway.core.route import Route
from gateway.flow.remembering import Kept, Remembering
from tests import routes
from tests.store.stores import OpenStore, Stores

DAY = timedelta(days=1)
HOUR = 3600
PROMISE = Promise(None, 3 * DAY, 7 * DAY, "https://provider.example/docs", None)
"""A floor of ten days."""


def route(
    name: str = "orders",
    *,
    place: str | None = None,
    scope: str | None = None,
    id_at: str = "event_id",
    retention: timedelta = 13 * DAY,
) -> Route:
    return replace(
        routes.ROUTE,
        name=name,
        path=place or f"/hooks/{name}",
        recipe=Recipe((Literal(scope or name),), (Json((id_at,)),)),
        promise=PROMISE,
        retention=retention,
    )


def kept(one: Route, *, short: bool = False, new: bool = False) -> Kept:
    return Kept(one, short, new, one.retention.total_seconds())


class Process:
    """One process's store and what it knows of its memory."""

    def __init__(self, store: OpenStore, remembering: Remembering) -> None:
        self.store, self.remembering = store, remembering

    async def use(self, *told: Kept) -> None:
        """Starts, or reloads."""
        await self.store.inner.register({one.route.name: one.route.print for one in told})
        self.remembering.use(told)
        assert await self.remembering.look_once()

    async def begin(self, *told: Kept) -> None:
        """The same as another process would, which remembers nothing of this one."""
        self.remembering = remembering(self.store, "host:2")
        await self.use(*told)

    async def memory(self, name: str = "orders") -> Remembered:
        assert await self.remembering.look_once()
        assert self.remembering.memories is not None
        return self.remembering.memories[name]

    async def is_short(self, name: str = "orders") -> bool:
        """What alerting rules compare."""
        memory = await self.memory(name)
        return memory.reach < memory.expected - HOUR


def remembering(store: OpenStore, who: str) -> Remembering:
    return Remembering(store.inner.retention, who, time.monotonic, lambda: 0.5)


async def start(stores: Stores, *told: Kept, who: str = "host:1") -> Process:
    store = await stores.open(recipes={one.route.name: one.route.print for one in told})
    process = Process(store, remembering(store, who))
    await process.use(*told)
    return process


async def shift(sql: asyncpg.Connection, hours: float) -> None:
    """All that is on record happened so many hours earlier."""
    seconds = int(hours * HOUR)
    await sql.execute(f"""
        update dedup.claims set first_seen = first_seen - {seconds};
        update dedup.canaries set planted = {seconds} - planted;
        update dedup.canaries set planted = - planted;
        update dedup.routes set born = born - interval '{seconds} seconds';
    """)


async def live(process: Process, sql: asyncpg.Connection, hours: int) -> None:
    """So many hours pass with a process there."""
    for _ in range(hours):
        await shift(sql, 1.004)
        assert await process.remembering.look_once()


async def claim(sql: asyncpg.Connection, name: str = "orders", claims: int = 1) -> None:
    """Events that the route remembers."""
    await sql.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint)"
        " select gen_random_uuid(), extract(epoch from now())::int4, r.id, 'd', 'a'"
        " from dedup.routes r, generate_series(1, $2) where r.name = $1",
        *(name, claims),
    )


async def forget_all(sql: asyncpg.Connection) -> None:
    """As on the first day."""
    await sql.execute("truncate dedup.claims, dedup.routes, dedup.canaries, dedup.retentions")


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    """The fields of each line of that event, and forget them."""
    fields = ("route", "was", "now", "source")
    found = [
        {field: getattr(line, field) for field in fields if hasattr(line, field)}
        for line in caplog.records
        if line.getMessage() == event
    ]
    caplog.clear()
    return found
