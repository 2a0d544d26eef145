"""What workers ask of the inbox by themselves, one statement at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import StoreAway
from gateway.core.event import Delivery, EventKey, Part
from gateway.core.inbox import EntryState, Leased, Waiting
from gateway.store.deliveries import STATES, as_it_was, lines
from gateway.store.queries import Statement, read
from gateway.store.session import TRY, Aborted, Lost, NoSession, Record, Remedy, Sessions, pause
from gateway.store.table import Table

# Bytes that one lease brings, unless the first entry alone is larger: what a worker cannot fetch in
# time is leased all the same, and counted and marked for nothing.
HEAVIEST_LEASE = 16 * 1024 * 1024
# For that, or for one body of any size that we would have taken; and for counting what waits, which
# takes about a second for a million entries. Nobody's delivery waits for either, and a statement
# that runs into the usual limit would pass for a store that is away.
SLOW = 10.0
# Leases under way at one time. Forty routes look for what is due in the same moment, and a session
# for each, in each of three processes, is more than a server has. A lease takes a few milliseconds,
# but one of large bodies over a slow network takes seconds: some other has to get past it.
LEASES = 4
# Two collide at most once or twice; a pooler's surprise comes once.
MOST_TRIES = 4

NEWEST = "lease_newest"

T = TypeVar("T")


class Entries:
    """The entries table, for those who look after it. All methods raise StoreAway."""

    def __init__(self, table: Table, sessions: Sessions) -> None:
        self._table = table
        self._sessions = sessions
        self._statements = read("inbox.sql")
        self._statements[NEWEST] = self._statements["lease"].turned(NEWEST)
        self._lanes = asyncio.Semaphore(LEASES)

    async def lease(
        self, route: str, most: int, token: int, seconds: float, *, newest: bool
    ) -> list[Leased]:
        """Take up to `most` due entries, the oldest due or the newest.

        Use no token twice: it is what fences the lease. What was taken although the reply was lost
        is due again when the lease is over.
        """
        name = NEWEST if newest else "lease"
        async with self._lanes:
            self._table.expect(route)
            rows = await self._ask(name, route, most, token, seconds, HEAVIEST_LEASE, within=SLOW)
        rows.sort(key=lambda row: row[-1], reverse=newest)
        return [_leased(route, token, row) for row in rows]

    async def released(self, key: EventKey, attempt: int) -> bool:
        """Whether a person freed the event's claim after that attempt."""
        ((released,),) = await self._fetch(self._statements["released"], UUID(key.digest), attempt)
        return bool(released)

    async def due(self, routes: Iterable[str]) -> frozenset[str]:
        """The routes among these that have something to send."""
        names = await self._names()
        asked = set(routes)
        ids = [number for number, name in names.items() if name in asked]
        rows = await self._fetch(self._statements["due"], ids)
        return frozenset(names[number] for (number,) in rows)

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        """All undelivered entries of the registered routes, by route and state."""
        names = await self._names()
        rows = await self._fetch(self._statements["waiting"], within=SLOW)
        return {
            (names[number], STATES[state]): Waiting(entries, oldest)
            for number, state, entries, oldest in rows
            if number in names
        }

    async def orphans(self, names: Iterable[str]) -> dict[str, int]:
        """Undelivered entries by the names of routes that are not among these."""
        rows = await self._fetch(self._statements["orphans"], list(names), within=SLOW)
        return {name: entries for name, entries in rows}

    async def forget(self, route: str, kept: float, most: int) -> int:
        """Delete up to `most` entries that ended over `kept` seconds ago."""
        self._table.expect(route)
        return len(await self._ask("forget", route, kept, most, within=SLOW))

    async def _names(self) -> dict[int, str]:
        ids = await patiently(self._table.route_ids)
        return {number: name for name, number in ids.items()}

    async def _ask(self, name: str, route: str, *args: Any, within: float = TRY) -> list[Record]:
        ids = await patiently(self._table.route_ids)
        return await self._fetch(self._statements[name], ids[route], *args, within=within)

    async def _fetch(self, statement: Statement, *args: Any, within: float = TRY) -> list[Record]:
        return await patiently(lambda: self._sessions.fetch(statement, *args, seconds=within))


def _leased(route: str, token: int, row: Record) -> Leased:
    key, event_id, attempt, doubtful, fingerprint, age, now, *delivery, took_over, by_order = row[
        :-4
    ]
    method, target, headers, body, peer, scheme = delivery
    return Leased(
        EventKey(key.bytes, as_it_was(event_id)),
        route,
        token,
        attempt,
        doubtful,
        fingerprint[0],
        age,
        now,
        Delivery(method, target, lines(headers), body, peer, scheme),
        took_over,
        by_order,
        _items(*row[-4:-1]),
    )


def _items(
    keys: Sequence[UUID] | None, fingerprints: Sequence[bytes], ids: Sequence[bytes]
) -> tuple[Part, ...]:
    """What a batch's entry stands for; nothing for any other."""
    if keys is None:
        return ()
    return tuple(
        Part(EventKey(key.bytes, as_it_was(event_id)), fingerprint[0])
        for key, fingerprint, event_id in zip(keys, fingerprints, ids, strict=True)
    )


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """One statement of nobody's batch, again where that helps. Raises StoreAway."""
    for tries_left in reversed(range(MOST_TRIES)):
        try:
            return await ask()
        except (NoSession, Lost) as trouble:
            raise StoreAway(str(trouble), undecided=isinstance(trouble, Lost)) from trouble
        except Aborted as refused:
            if refused.remedy is not Remedy.AGAIN or not tries_left:
                raise StoreAway(str(refused)) from refused
        await pause()
    raise AssertionError("the last try returns or raises")
