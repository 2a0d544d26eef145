"""One consumer, one database, and the gateways of a test module between them."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.rig import sender, settings
from tests.rig.consumer import Consumer
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway

_numbers = itertools.count(1)

STATES = {"c": "claimed", "r": "released", "s": "stored", "d": "completed"}
ENTRIES = {
    "p": "pending", "l": "leased", "d": "delivered", "x": "dead", "h": "held", "o": "dropped",
}  # fmt: skip

OF_AN_EVENT = "not exists (select from dedup.canaries k where k.key = c.key)"


def fresh(stem: str = "evt") -> str:
    """An event id that nobody used before in this process."""
    return f"{stem}_{next(_numbers)}_aZ"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a test asks of a row."""

    state: str
    doubtful: bool
    attempt: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What a test asks of an entry."""

    state: str
    doubtful: bool
    attempt: int
    why: str | None


class Database:
    """The test's own look at the store."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @asynccontextmanager
    async def session(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.dsn, timeout=10)
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    async def execute(self, sql: str, *arguments: Any) -> str:
        async with self.session() as session:
            return str(await session.execute(sql, *arguments))

    async def value(self, sql: str, *arguments: Any) -> Any:
        async with self.session() as session:
            return await session.fetchval(sql, *arguments)

    async def claims(self, event: str) -> list[Claim]:
        """The rows of an event id, one per scope."""
        async with self.session() as session:
            rows = await session.fetch(
                "select state::text, attempt from dedup.claims where event_id = $1", event
            )
        return [
            Claim(STATES[state.lower()], state.isupper(), attempt)
            for state, attempt in (tuple(row) for row in rows)
        ]

    async def claim(self, event: str) -> Claim | None:
        rows = await self.claims(event)
        assert len(rows) <= 1, rows
        return rows[0] if rows else None

    async def count(self) -> int:
        """Claims of events: canaries come by themselves, each hour and at a start."""
        return int(await self.value(f"select count(*) from dedup.claims c where {OF_AN_EVENT}"))

    async def becomes(self, event: str, state: str, *, within: float = 10) -> Claim:
        async def row() -> Claim | None:
            claim = await self.claim(event)
            return claim if claim and claim.state == state else None

        return await eventually(row, within=within, what=f"{event} {state}")

    async def entry(self, event: str) -> Entry | None:
        async with self.session() as session:
            row = await session.fetchrow(
                "select state::text, doubtful, attempt, why from dedup.entries"
                " where event_id = convert_to($1, 'UTF8')",
                event,
            )
        return None if row is None else Entry(ENTRIES[row[0]], row[1], row[2], row[3])

    async def entry_becomes(self, event: str, state: str, *, within: float = 20) -> Entry:
        async def row() -> Entry | None:
            entry = await self.entry(event)
            return entry if entry and entry.state == state else None

        return await eventually(row, within=within, what=f"entry of {event} {state}")

    async def ends(self) -> dict[str, tuple[str, str | None]]:
        """By event: the states of its claim and of its entry, if it has one."""
        async with self.session() as session:
            rows = await session.fetch(
                "select c.event_id, c.state::text, e.state::text"
                " from dedup.claims c left join dedup.entries e using (key)"
                f" where {OF_AN_EVENT}"
            )
        return {
            event: (STATES[claim.lower()], entry and ENTRIES[entry])
            for event, claim, entry in (tuple(row) for row in rows)
        }

    async def owes(self) -> bool:
        """Whether an entry has to be delivered or a claim decided still. Cheap to ask often."""
        return bool(
            await self.value(
                "select exists (select from dedup.entries where state in ('p', 'l'))"
                " or exists (select from dedup.claims where state in ('c', 'C'))"
            )
        )

    async def lapse_all(self) -> None:
        """Every lease is over. Only for when no holder is alive."""
        await self.execute(
            "update dedup.claims set until = now() - interval '1 s' where state in ('c', 'C')"
        )
        await self.execute(
            "update dedup.entries set due = now() - interval '1 s' where state = 'l'"
        )

    async def lapse_entry(self, event: str) -> None:
        """As `lapse`, for the lease of an entry."""
        changed = await self.execute(
            "update dedup.entries set due = now() - interval '1 s'"
            " where event_id = convert_to($1, 'UTF8') and state = 'l'",
            event,
        )
        assert changed == "UPDATE 1", changed

    async def lapse(self, event: str) -> None:
        """The lease is over, without anybody waiting for it."""
        changed = await self.execute(
            "update dedup.claims set until = until - interval '1 hour'"
            " where event_id = $1 and until is not null",
            event,
        )
        assert changed == "UPDATE 1", changed

    async def purge(self, event: str) -> None:
        """The row is gone, as after the end of its retention."""
        changed = await self.execute("delete from dedup.claims where event_id = $1", event)
        assert changed == "DELETE 1", changed

    async def sessions(self) -> list[str]:
        """The states of the gateways' sessions."""
        async with self.session() as session:
            rows = await session.fetch(
                "select state from pg_stat_activity where datname = current_database()"
                " and pid <> pg_backend_pid() and backend_type = 'client backend'"
            )
        return [row["state"] for row in rows]


class World:
    """Consumer, database, gateways, and what was sent."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.consumer = Consumer()
        self.database = Database(dsn)
        self.directory = directory
        self.gateways: list[Gateway] = []

    def route(self, name: str = "orders", **more: Any) -> settings.Settings:
        return settings.route(name, self.consumer.port, **more)

    def file(self, *routes: settings.Settings, **more: Any) -> settings.Settings:
        """A file for this world's database; one `orders` route unless others are given."""
        dsn = more.pop("dsn", self.database.dsn)
        return settings.file(dsn, *(routes or (self.route(),)), **more)

    async def gateway(
        self,
        file: Mapping[str, Any] | None = None,
        *,
        ready: bool = True,
        **options: Any,
    ) -> Gateway:
        """One more gateway, started."""
        gateway = Gateway(
            self.directory / f"gateway{len(self.gateways)}", file or self.file(), **options
        )
        self.gateways.append(gateway)
        return await gateway.start(ready=ready)

    async def close(self) -> None:
        for gateway in self.gateways:
            await gateway.end()
        await self.consumer.stop()

    async def deliver(
        self, event: str, gateway: Gateway | None = None, path: str = "/hooks/orders", **more: Any
    ) -> sender.Reply:
        """One delivery, to the first gateway unless another is named."""
        return await (gateway or self.gateways[0]).send(sender.event(event, path, **more))

    def attempts(self, event: str) -> list[tuple[int | None, bool]]:
        """The forwards of an event: (attempt, marked) in order."""
        return [(request.attempt, request.marked) for request in self.consumer.requests(event)]


def with_database(dsn: str, name: str) -> str:
    """The same server, another database."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(path=f"/{name}"))


async def create_database(server_dsn: str) -> str:
    """A fresh database on a server; gives its DSN."""
    name = f"e2e_{next(_numbers)}_{id(object())}"
    connection = await asyncpg.connect(server_dsn, timeout=10)
    try:
        await connection.execute(f'create database "{name}"')
    finally:
        await connection.close(timeout=5)
    return with_database(server_dsn, name)


async def drop_database(server_dsn: str, dsn: str) -> None:
    name = urlsplit(dsn).path.lstrip("/")
    connection = await asyncpg.connect(server_dsn, timeout=10)
    try:
        await connection.execute(f'drop database if exists "{name}" with (force)')
    finally:
        await connection.close(timeout=5)


def json_of(reply: sender.Reply) -> Any:
    return json.loads(reply.body)
