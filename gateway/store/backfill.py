"""Marking events as processed that the gateway never saw: claims of somebody else's records."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import State
from gateway.core.event import EventKey
from gateway.store.copying import copy
from gateway.store.known import CLAIMS
from gateway.store.operator import LOCKED_PAUSE, LOCKED_TRIES, By, Desk, Locked
from gateway.store.queries import read
from gateway.store.retention import CANARY
from gateway.store.table import kept_text

# Seconds that a batch may take; see Backfill.mark.
LONGEST = 10
# Two that register routes at once may want the same number, each of them once.
MOST_ROUNDS = 20


class Processed(NamedTuple):
    """An event that somebody says was processed."""

    key: EventKey
    at: float
    """Epoch seconds."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whose events are marked."""

    route: str
    recipe: bytes
    """The print of how its keys are made."""
    keep_ids: bool


class Backfill:
    """One source, for one route. All methods raise what a Desk does."""

    def __init__(self, desk: Desk, target: Target) -> None:
        self._desk = desk
        self._target = target
        self._statements = {name: one.sql for name, one in read("backfill.sql").items()}
        self._route = 0
        self._record = 0
        self.same_recipe = True
        """Whether the gateways that served the route last make its keys in the same way."""

    async def done(self, source: str | None) -> int:
        """How many rows of this source are done, if whoever began did not come to its end.

        None of one that has no name.
        """
        async with self._desk.transaction(LONGEST) as sql:
            if not await self._number(sql) or source is None:
                return 0
            rows: int | None = await sql.fetchval(self._statements["done"], self._route, source)
            return rows or 0

    async def begin(self, source: str, by: By, rows: int) -> None:
        """Record who does it, from which row on."""
        for _ in range(MOST_ROUNDS):
            async with self._desk.transaction(LONGEST) as sql:
                if await self._number(sql) or await self._register(sql):
                    asked = (self._route, source, rows, *by)
                    self._record = await sql.fetchval(self._statements["begin"], *asked)
                    return
        raise Locked("the numbers of the routes are in dispute")

    async def mark(
        self, events: Sequence[Processed], rows: int, *, ended: bool
    ) -> Mapping[bytes, State]:
        """Complete their claims where there are none: what was there already, and in which state.

        `rows`: so many of the source are done then. Each key once. A delivery of one of these
        events waits until this has ended, so a batch is to be done within some tens of
        milliseconds.
        """
        for _ in range(LOCKED_TRIES):
            try:
                return await self._mark(events, rows, ended)
            except Locked:
                await asyncio.sleep(LOCKED_PAUSE)
        return await self._mark(events, rows, ended)

    async def there(self, events: Sequence[Processed]) -> Mapping[bytes, State]:
        """Those of them that have claims, and in which state."""
        async with self._desk.transaction(LONGEST) as sql:
            keys = [UUID(event.key.digest) for event in events]
            return _states(await sql.fetch(self._statements["there"], keys))

    async def _mark(
        self, events: Sequence[Processed], rows: int, ended: bool
    ) -> Mapping[bytes, State]:
        async with self._desk.transaction(LONGEST) as sql:
            await sql.execute(self._statements["table"])
            await copy(sql, "marked", self._records(sql, events))
            record = (self._route, self._record, rows, ended)
            return _states(await sql.fetch(self._statements["mark"], *record))

    def _records(
        self, sql: asyncpg.Connection, events: Sequence[Processed]
    ) -> Iterator[tuple[UUID, int, str | None]]:
        utf8 = getattr(sql.get_settings(), "server_encoding", "UTF8") == "UTF8"
        keep = self._target.keep_ids
        for event in events:
            event_id = kept_text(event.key.event_id, utf8=utf8) if keep else None
            yield UUID(event.key.digest), math.floor(event.at), event_id

    async def _number(self, sql: asyncpg.Connection) -> bool:
        """Whether the route has one."""
        found = await sql.fetchrow(self._statements["number"], self._target.route)
        if found is None:
            return False
        self._route, recipe = found
        self.same_recipe = recipe == self._target.recipe
        return True

    async def _register(self, sql: asyncpg.Connection) -> bool:
        """Give it one, unless somebody else took that.

        With a canary, as old as the route: without, its memory would be less far than it is old,
        which looks like claims that were deleted.
        """
        remember, plant = read("routes.sql")["remember"], read("retention.sql")["plant"]
        await sql.execute(remember.sql, [self._target.route], [self._target.recipe])
        if not await self._number(sql):
            return False
        await sql.fetch(plant.sql, [self._route], 0, CANARY if self._target.keep_ids else None)
        return True


def _states(rows: Sequence[asyncpg.Record]) -> dict[bytes, State]:
    """By key. Whoever came after our snapshot is still at it."""
    return {
        key.bytes: State.CLAIMED if state is None else CLAIMS[state.lower()] for key, state in rows
    }
