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


class Retention:
    """What concerns the memory as a whole. All methods raise StoreAway."""

    def __init__(self, table: Table, sessions: Sessions) -> None:
        self._table = table
        self._sessions = sessions
        self._statements = read("retention.sql")

    async def on_record(self, names: Iterable[str], places: Iterable[str]) -> list[OnRecord]:
        """What is on record of routes of these names, and of others that were at these places."""
        rows = await self._ask("routes", list(names), list(places), within=SLOW)
        return [OnRecord(*row) for row in rows]

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

    async def shortened(self, names: Iterable[str]) -> list[Shortened]:
        """The latest time that each route's retention became shorter, where it did."""
        return [Shortened(*row) for row in await self._ask("shortened", list(names))]

    async def plant(self, names: Iterable[str]) -> None:
        """Plant a canary for each route whose latest is over an hour old."""
        ids = await patiently(self._table.route_ids)
        (text,) = self._table.texts([CANARY])
        await self._ask("plant", [ids[name] for name in names], int(PLANTED_EVERY), text)

    async def memories(self, names: Iterable[str]) -> dict[str, Memory]:
        """How far the memory of each route reaches."""
        ids = await patiently(self._table.route_ids)
        by_id = {ids[name]: name for name in names}
        rows = await self._ask("memory", list(by_id), within=SLOW)
        return {by_id[number]: Memory(age, reach, kept) for number, age, kept, reach in rows}

    async def last_purge(self) -> float | None:
        """When a run was done last, by whichever process; epoch seconds."""
        rows = await self._ask("last_purge")
        return rows[0][0] if rows else None

    async def take_purge(self, token: int, lease: float) -> tuple[float, int] | None:
        """Get the purger's job for so many seconds; None while it is somebody's, or not due.

        When that was, in epoch seconds, and how many pages there are to walk.
        """
        rows = await self._ask("take_purge", token, lease)
        return (rows[0][0], rows[0][1]) if rows else None

    async def keep_purge(self, token: int, lease: float) -> bool:
        """Whether the job is still ours, and is for so many seconds more."""
        return bool(await self._ask("keep_purge", token, lease))

    async def purge(self, first: int, end: int) -> dict[str, tuple[int, int]]:
        """Forget what is over on the pages from `first` to before `end`.

        By route, how many claims, and how many of those were unresolved.
        """
        names = {number: name for name, number in (await self._ids()).items()}
        rows = await self._ask("purge", f"({first},0)", f"({end},0)", within=SLOW)
        return {names.get(number, str(number)): (all_, open_) for number, all_, open_ in rows}

    async def end_purge(
        self, token: int, began: float, again: float, gone: Mapping[str, tuple[int, int]], who: str
    ) -> bool:
        """Record a run; the next is due in `again` seconds. False where the job was lost."""
        ids = await self._ids()
        names = [name for name in gone if name in ids]
        numbers = [ids[name] for name in names]
        sums = ([gone[name][0] for name in names], [gone[name][1] for name in names])
        ended = await self._ask("end_purge", token, again, numbers, *sums, began, who)
        await self._ask("forget", within=SLOW)
        return bool(ended)

    async def _ids(self) -> dict[str, int]:
        """Of all routes on record: others than ours have claims, too."""
        rows = await self._ask("numbers")
        return {name: number for name, number in rows}

    async def _ask(self, name: str, *args: object, within: float = TRY) -> list[Record]:
        statement = self._statements[name]
        return await patiently(lambda: self._sessions.fetch(statement, *args, seconds=within))
