"""Retention in Postgres: what is registered of routes, what is purged, and canaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.core.canary import PLANTED_EVERY, Memory
from gateway.core.retention import Changed, OnRecord, Shortened, Told
from gateway.store.entries import SLOW, patiently
from gateway.store.queries import read
from gateway.store.session import TRY, Record, Sessions
from gateway.store.table import Table

CANARY = "canary"
# Pages that are looked through for claims in one statement: 8 MiB, some ten milliseconds.
LOOK = 1024


class Retention:
    """What concerns the memory as a whole. All methods raise StoreAway."""

    def __init__(self, table: Table, sessions: Sessions) -> None:
        self._table = table
        self._sessions = sessions
        self._statements = read("retention.sql")

    @property
    def is_away(self) -> bool:
        """As everybody else's latest statements found it."""
        return self._sessions.away_since is not None

    async def is_on_record(self) -> bool:
        """Whether the schema has any of this."""
        ((on_record,),) = await self._ask("on_record")
        return bool(on_record)

    async def on_record(self, names: Iterable[str], places: Iterable[str]) -> list[OnRecord]:
        """What is on record of routes of these names, and of others that were at these places."""
        rows = await self._ask("routes", list(names), list(places), within=SLOW)
        return [OnRecord(*row) for row in rows]

    async def remembering(self, names: Iterable[str]) -> set[str]:
        """Which of these routes have claims. It looks through the table, so ask about few."""
        asked, found = set(names), set[str]()
        ((claims, _),) = await self._ask("pages")
        for first in range(0, claims, LOOK):
            if found == asked:
                break
            among = list(asked - found)
            rows = await self._ask("claiming", among, *_pages(first, first + LOOK), within=SLOW)
            found.update(name for (name,) in rows)
        return found

    async def register(self, told: Sequence[Told], who: str) -> list[Changed]:
        """Say how long this process keeps claims; which of that is new."""
        await patiently(self._table.route_ids)
        rows = await self._ask(
            "register",
            [one.route for one in told],
            [one.retention for one in told],
            [one.place for one in told],
            [one.source for one in told],
            who,
        )
        return [Changed(*row) for row in rows]

    async def renew(self, recipes: Mapping[str, bytes]) -> list[str]:
        """These routes' keys are made in another way from now on; whose were not yet."""
        rows = await self._ask("renew", list(recipes), list(recipes.values()))
        return [name for (name,) in rows]

    async def leave(self, names: Iterable[str]) -> None:
        """What was at the places of these routes is not missed there any more."""
        await self._ask("leave", list(names))

    async def shortened(self, names: Iterable[str]) -> list[Shortened]:
        """The latest time that each route's retention became shorter, where it did."""
        return [Shortened(*row) for row in await self._ask("shortened", list(names))]

    async def plant(self, names: Iterable[str]) -> None:
        """Plant a canary for each route whose latest is over an hour old."""
        ids = await patiently(self._table.route_ids)
        (text,) = self._table.texts([CANARY])
        await self._ask("plant", [ids[name] for name in names], int(PLANTED_EVERY), text)

    async def memories(self, names: Iterable[str]) -> dict[str, Memory]:
        """How far the memory of each route on record reaches."""
        rows = await self._ask("memory", list(names), int(PLANTED_EVERY), within=SLOW)
        return {name: Memory(age, reach, kept, grown) for name, age, reach, kept, grown in rows}

    async def last_purge(self) -> float | None:
        """When a run was done last, by whichever process; epoch seconds."""
        rows = await self._ask("last_purge")
        return rows[0][0] if rows else None

    async def take_purge(self, token: int, lease: float, who: str) -> int | None:
        """Get the purger's job for so many seconds; None while it is somebody's, or not due.

        The number of the run, which is on record from now on.
        """
        rows = await self._ask("take_purge", token, lease, who)
        return rows[0][0] if rows else None

    async def keep_purge(self, token: int, lease: float) -> bool:
        """Whether the job is still ours, and is for so many seconds more."""
        return bool(await self._ask("keep_purge", token, lease))

    async def pages(self) -> int:
        """How many pages there are to walk."""
        ((claims, replies),) = await self._ask("pages")
        return max(int(claims), int(replies))

    async def purge(self, run: int, first: int, end: int) -> dict[str, tuple[int, int]]:
        """Forget what is over on the pages from `first` to before `end`.

        By route, how many claims, and how many of those were unresolved. They are on record.
        """
        rows = await self._ask("purge", *_pages(first, end), run, within=SLOW)
        return {name: (claims, unresolved) for name, claims, unresolved in rows}

    async def end_purge(self, token: int, again: float, run: int) -> bool:
        """The run is done, and the next is due in `again` seconds. False where the job was lost."""
        ended = await self._ask("end_purge", token, again, run)
        await self._ask("forget", within=SLOW)
        return bool(ended)

    async def _ask(self, name: str, *args: object, within: float = TRY) -> list[Record]:
        statement = self._statements[name]
        return await patiently(lambda: self._sessions.fetch(statement, *args, seconds=within))


def _pages(first: int, end: int) -> tuple[str, str]:
    """As row addresses: from the first that a page can have."""
    return f"({first},0)", f"({end},0)"
