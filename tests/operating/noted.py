"""A configuration, and notes of its route, for `report`."""

from __future__ import annotations

from pathlib import Path

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.config import load
from gateway.core.observing import What, print_of
from gateway.core.route import Route
from tests.operating.rows import ORDERS

HEAD = """\
store: {dsn: "${DATABASE_URL}"}
routes:
"""
ROUTE = """\
  - name: orders
    path: /hooks/orders
    upstream: {url: "http://127.0.0.1:3000"}
    mode: observe
    promise: {timeout: 8s, retry_horizon: 3d, redrive_window: 30d, source: "https://docs.example.com"}
"""
RIGHT = "    event_id: json:/event_id\n"
Notes = list[tuple[What, str, int]]


class Noted:
    """A configuration, and notes under its key."""

    def __init__(self, file: Path, sql: asyncpg.Connection) -> None:
        self._file = file
        self._sql = sql

    def route(self, *lines: str) -> Route:
        self._file.write_text(HEAD + ROUTE + "".join(lines or (RIGHT,)))
        (route,) = load(self._file, env={}, variables_required=False).routes
        return route

    def set_mode(self, mode: str) -> None:
        text = self._file.read_text()
        self._file.write_text(text.replace("mode: observe", f"mode: {mode}"))

    async def notes(
        self,
        route: Route,
        notes: Notes,
        *,
        series: int = 1,
        days: float = 3.0,
        ago: float = 0.0,
        age: float = 7200.0,
    ) -> None:
        """Over so many days, until so many days ago. `age`: of the oldest duplicate, in seconds."""
        for what, detail, number in notes:
            await self._sql.execute(
                "insert into dedup.observations values ($1, $2, $3, $4, $5,"
                " now() - $6 * interval '1 day', now() - $7 * interval '1 day', $8, $9, $10)",
                series, ORDERS, UUID(print_of(route)), what.value, detail, days + ago, ago, number,
                age if what is What.DURABLE else 0.0, f"evt_of_{what.value}",
            )  # fmt: skip


HEALTHY: Notes = [
    (What.NEW, "", 12_345),
    (What.BODY, "", 12_345),
    (What.AGAIN, "", 15),
    (What.AGAIN, "marked", 5),
    (What.DURABLE, "retry", 312),
    (What.DURABLE, "redrive", 40),
    (What.CONCURRENT, "", 3),
    (What.TAKEN_AGAIN, "", 340),
    (What.UNKEYED, "json:/event_id", 10),
    (What.PASSED, "", 7),
]
DIFFERING: Notes = [(What.MISMATCH, "", 12), (What.MISMATCH, "other_type", 40)]
OTHER_BODIES: Notes = [(What.NEW, "", 500), (What.DURABLE, "retry", 60), *DIFFERING]
