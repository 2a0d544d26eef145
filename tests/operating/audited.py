"""Claims to be audited, and lists to audit them with."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.config import load
from gateway.core.keying import digest
from gateway.core.route import Route
from gateway.operating.wording import stamp
from tests.operating.lines import told
from tests.operating.rows import TOKEN

DAY = 86_400.0


class Audited:
    """Routes that have been there for 40 days, claims as they are after a while, and lists."""

    def __init__(self, file: Path, sql: asyncpg.Connection) -> None:
        self._file = file
        self.sql = sql
        self.now = 0.0
        self._numbers: dict[str, int] = {}

    async def begin(self) -> None:
        self.now = await self.sql.fetchval("select floor(extract(epoch from now()))::float8")
        await self.sql.execute("delete from dedup.routes")
        for number, route in enumerate(self.routes(), 1):
            self._numbers[route.name] = number
            await self.sql.execute(
                "insert into dedup.routes (id, name, recipe, since, born)"
                " values ($1, $2, $3, to_timestamp($4::float8), to_timestamp($4))",
                number, route.name, route.print, self.now - 40 * DAY,
            )  # fmt: skip

    def configure(self, text: str) -> None:
        self._file.write_text(text)

    def routes(self) -> tuple[Route, ...]:
        return load(self._file, env={}, variables_required=False).routes

    def at(self, ago: float) -> str:
        """So many seconds ago, to the second."""
        return stamp(self.now - ago)

    async def claim(
        self,
        *event_ids: str,
        ago: float = DAY,
        state: str = "d",
        attempt: int = 1,
        route: str = "orders",
        key: bytes | None = None,
        kept: bool = True,
    ) -> None:
        """First seen so many seconds ago."""
        said = None if attempt == 1 and state in "dD" else attempt
        for event_id in event_ids:
            held = state in "cC"
            await self.sql.execute(
                "insert into dedup.claims"
                " (key, first_seen, route, state, fingerprint, token, until, attempt, event_id)"
                " values ($1, $2, $3, $4, $5, $6, case when $7 then now() end, $8, $9)",
                UUID(key or digest([route], [event_id])), int(self.now - ago),
                self._numbers[route], state.encode(), b"\x07", TOKEN if held else None, held,
                said, event_id if kept else None,
            )  # fmt: skip

    def csv(self, *rows: tuple[str, float | None], name: str = "effects.csv") -> str:
        """A file of ids and how many seconds ago each was."""
        path = self._file.with_name(name)
        with path.open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(("id", "time"))
            writer.writerows((one, "" if ago is None else self.at(ago)) for one, ago in rows)
        return str(path)

    def ndjson(self, rows: Iterable[dict[str, Any]], name: str = "effects.ndjson") -> str:
        path = self._file.with_name(name)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    async def entry(self, event_id: str, *, state: str, settled_ago: float) -> None:
        """Of an event that is claimed."""
        key = digest(["orders"], [event_id])
        await self.sql.execute(
            "insert into dedup.entries"
            " (key, route, state, doubtful, attempt, fingerprint, token, due, settled, event_id,"
            " method, target, peer, scheme, headers, body)"
            " values ($1, $2, $3, false, 1, $4, $5, now(), now() - $6 * interval '1 second', $7,"
            " 'POST', '/hooks/orders', '192.0.2.1', 'http', '', '')",
            UUID(key), self._numbers["orders"], state.encode(), b"\x07", TOKEN, settled_ago,
            event_id.encode(),
        )  # fmt: skip

    async def act(self, event_id: str, action: str) -> None:
        """As an operator did, of whom there is a record."""
        await self.sql.execute(
            "insert into dedup.actions (who, action, key, route) values ('alice', $1, $2, $3)",
            action, UUID(digest(["orders"], [event_id])), self._numbers["orders"],
        )  # fmt: skip

    async def remember(self, **columns: str) -> None:
        """SQL for what the store has on record of route orders."""
        changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
        await self.sql.execute(f"update dedup.routes set {changes} where name = 'orders'")

    async def audit(self, *words: str, code: int = 1) -> dict[str, Any]:
        """What it says with --json; the findings by kind, as event ids."""
        said: dict[str, Any] = await told("audit", "--route", "orders", *words, code=code)
        found: dict[str, list[str]] = {}
        for one in said["findings"]:
            found.setdefault(one["kind"], []).append(one["event_id"])
        return {**said, "by_kind": found}
