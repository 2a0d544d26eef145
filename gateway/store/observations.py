"""What was noted of routes in `observe`, in its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asyncpg.pgproto.pgproto import UUID

from gateway.core.observing import DELIVERIES, Noted, Observed, Sum, What
from gateway.store.entries import patiently
from gateway.store.queries import read
from gateway.store.session import Sessions
from gateway.store.table import Table

# A process has some tens of totals for each route. Nobody's delivery waits for them.
MOST_AT_ONCE = 500


class Observations:
    """The observations table. All methods raise StoreAway."""

    def __init__(self, table: Table, sessions: Sessions) -> None:
        self._table = table
        self._sessions = sessions
        self._statements = read("observations.sql")

    async def note(self, series: int, noted: Sequence[Noted]) -> None:
        """Store the totals of a series."""
        ids = await patiently(self._table.route_ids)
        for start in range(0, len(noted), MOST_AT_ONCE):
            part = noted[start : start + MOST_AT_ONCE]
            columns = (
                [ids[one.counted.route] for one in part],
                [UUID(one.counted.recipe) for one in part],
                [one.counted.what.value for one in part],
                [self._table.text(one.counted.detail) for one in part],
                [one.number for one in part],
                [one.greatest for one in part],
                [self._table.texts([one.example or ""])[0] or None for one in part],
            )
            await self._ask("note", series, *columns)

    async def forget(self, most: int) -> int:
        """Delete up to `most` that are too old to be of interest; how many."""
        return len(await self._ask("forget", most))

    async def _ask(self, name: str, *args: object) -> list[Sequence[object]]:
        statement = self._statements[name]
        return await patiently(lambda: self._sessions.fetch(statement, *args))


def observed(rows: Iterable[Mapping[str, Any]]) -> Observed:
    """The rows of the statement of that name."""
    all_of_them = list(rows)
    current = [row for row in all_of_them if row["current"]]
    others = [row for row in all_of_them if not row["current"] and row["what"] in DELIVERIES]
    return Observed(
        sums=tuple(
            Sum(What(row["what"]), row["detail"], row["number"], row["greatest"], row["example"])
            for row in current
            if row["what"] in _KNOWN  # else a newer release's
        ),
        since=min((row["since"] for row in current), default=0.0),
        until=max((row["until"] for row in current), default=0.0),
        other_keys=sum(row["number"] for row in others),
    )


_KNOWN = frozenset(What)
