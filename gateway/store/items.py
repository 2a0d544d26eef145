"""Batches in Postgres: what happens to the items of one happens to all of them in one statement.

The rules are those of `gateway/core/batch_entry.py` and `claim.py`. Each batch travels alone, in
lanes of its own: it may have thousands of keys, and would have everybody else wait, or be cut up.
One that meets a locked row goes on where only others like it wait. A statement's keys are sorted,
so those that overlap wait for each other in one order.

All of it is safe to repeat but for the take-over, and is repeated as a whole: who arrives again
with the same token is told what it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Arrival, Ask, Ending, Settled, Settlement, Won
from gateway.core.event import EventKey, Part
from gateway.core.inbox import Conclusion, Offer
from gateway.store.batch import Batch, Group
from gateway.store.claims import (
    CLAIMED,
    ENDINGS,
    SETTLE_WITHIN,
    arrive_columns,
    first_of,
    take_over_columns,
    told,
)
from gateway.store.deliveries import LETTERS, columns, time_for, whole
from gateway.store.queries import Statement, read
from gateway.store.session import TRY, Lost, Record, pause
from gateway.store.table import BYTE, Table

# 10,000 took a quarter of a second on a busy machine of two cores, whatever was done with them. A
# slower one may take four times that, and a statement that is given up half-way has helped nobody.
ITEMS_A_SECOND = 10_000


@dataclass(slots=True)
class _Errand:
    """One batch, and what is done with it."""

    send: Callable[[_Trip, str], Awaitable[None]]
    what: Any
    size: int
    """Items."""
    weight: int = 0
    """Bytes."""
    changed: bool = False
    """An earlier try changed something."""
    won: dict[int, Won] = field(default_factory=dict)
    """The asks that won, by their place, as they were told first."""

    @property
    def time(self) -> float:
        """What it needs beyond what a single event does, in seconds."""
        return self.size / ITEMS_A_SECOND + time_for(self.weight)


_Trip = list[Group[_Errand, Any]]
"""One group of one call."""


class Items:
    """The claims of batches' items, and the entries that stand for them."""

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self._table = table
        statements, claims = read("items.sql"), read("claims.sql")
        self._arrive_statement = claims["arrive"]
        self._take_over_statement = claims["take_over"]
        self._settle_statement = claims["settle"]
        self._complete_statement = statements["complete"]
        self._store_statement = statements["store"]
        self._revive_statement = statements["revive"]
        # Bodies take long on a slow network, and nobody's claim should wait for that.
        self._claims, self._entries = (
            Batch(_send, clock, largest=1, weigh=_weight, apart=Batch(_send, clock))
            for _ in range(2)
        )

    async def arrive(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        """The items of a batch meet the table: all of one route, each key once, one token.

        Raises StoreAway after `within` seconds and what so many items need, and LookupError for a
        route that was never registered. After an undecided StoreAway any of them may have been won.
        """
        if not asks:
            return []
        self._table.expect(asks[0].route)
        by_key = sorted(asks, key=lambda ask: ask.key.digest)
        errand = _Errand(self._arrive, by_key, len(asks))
        arrivals = await self._claims.call(b"", errand, within + errand.time)
        places = {ask.key.digest: arrival for ask, arrival in zip(by_key, arrivals, strict=True)}
        return [places[ask.key.digest] for ask in asks]

    def settle(self, settlement: Settlement) -> asyncio.Future[Settled]:
        """A holder ends the claims of its items. Raises as above, within a second."""
        self._table.expect(settlement.route)
        errand = _Errand(self._settle, settlement, len(settlement.items))
        return self._claims.call(b"", errand, SETTLE_WITHIN + errand.time)

    def store(self, offer: Offer, *, within: float) -> asyncio.Future[bool]:
        """A holder gives its items' claims to the inbox. Raises as above; bodies take longer."""
        self._table.expect(offer.route)
        errand = _Errand(self._store, offer, len(offer.items), len(offer.delivery.body))
        return self._entries.call(b"", errand, within + errand.time)

    def deliver(self, conclusion: Conclusion) -> asyncio.Future[Settled]:
        """A worker's attempt succeeded: all items are completed. Raises as above."""
        self._table.expect(conclusion.route)
        errand = _Errand(self._deliver, conclusion, len(conclusion.items))
        return self._claims.call(b"", errand, SETTLE_WITHIN + errand.time)

    async def revive(self, route: str, keys: Sequence[EventKey]) -> bool:
        """Have the dead entries of these events sent again, with the bytes that they have.

        Also that of an event's own, should it have one. Raises as above.
        """
        self._table.expect(route)
        errand = _Errand(self._revive, keys, len(keys))
        revived: bool = await self._entries.call(b"", errand, SETTLE_WITHIN + errand.time)
        return revived

    async def close(self) -> None:
        """Fail what is still waiting."""
        await self._claims.close()
        await self._entries.close()

    async def _arrive(self, trip: _Trip, wait: str) -> None:
        ((call,),) = trip
        asks: Sequence[Ask] = call.item.what
        columns = arrive_columns(self._table, await self._table.route_ids(), asks)
        while not call.future.done():
            rows = await self._run(self._arrive_statement, trip, (*columns, wait))
            call.out = False
            arrivals = self._met(call.item, rows)
            still_open = [n for n, arrival in enumerate(arrivals) if arrival is None]
            # What is won has to be given back, should the rest not be decided in time.
            call.lost |= bool(call.item.won)
            if still_open and call.took:
                call.fail("it is not known whether the claims were taken over")
            elif await self._take_over(trip, rows, arrivals, still_open, wait):
                call.tell(arrivals)
            else:  # some were lost to others; what that made of their rows, only the rows can tell
                await pause()

    def _met(self, errand: _Errand, rows: Sequence[Record]) -> list[Arrival | None]:
        """What the rows tell each item; None where one is open."""
        first_ever, arrivals = first_of(rows), cast("list[Arrival | None]", [])
        for n, (row, ask) in enumerate(zip(rows, errand.what, strict=True)):
            is_open = row[1] and not row[0]
            answer = first_ever if row[0] else told(self._table, row, ask, asked=ask)
            if isinstance(answer, Won) and not is_open:
                answer = errand.won.setdefault(n, answer)
            arrivals.append(None if is_open else answer)
        return arrivals

    async def _take_over(
        self,
        trip: _Trip,
        rows: Sequence[Record],
        arrivals: list[Arrival | None],
        still_open: Sequence[int],
        wait: str,
    ) -> bool:
        """Fill in what is won of the open ones; whether that is all of them."""
        if not still_open:
            return True
        ((call,),) = trip
        asks = [call.item.what[n] for n in still_open]
        seen = [(rows[n][3], rows[n][2]) for n in still_open]
        args = (*take_over_columns(self._table, asks, seen), wait)
        try:
            taken = await self._run(self._take_over_statement, trip, args, len(asks))
        except Lost:
            call.took = True
            raise
        call.out = False
        call.lost |= bool(taken)
        for n, attempt, doubtful, now, first_seen in taken:
            lapsed = seen[n - 1][1] in CLAIMED
            won = Won(attempt, doubtful, lapsed, now, first_seen)
            place = still_open[n - 1]
            arrivals[place] = call.item.won[place] = won
        return len(taken) == len(asks)

    async def _settle(self, trip: _Trip, wait: str) -> None:
        ((call,),) = trip
        settlement: Settlement = call.item.what
        parts = _sorted(settlement.items)
        rows = await self._run(
            self._settle_statement,
            trip,
            (
                [UUID(part.key.digest) for part in parts],
                [settlement.token for _ in parts],
                [ENDINGS[settlement.ending] for _ in parts],
                wait,
            ),
        )
        call.out = False
        call.item.changed |= bool(rows)
        held = {n - 1 for (n,) in rows}
        late = [part for n, part in enumerate(parts) if n not in held]
        if late and settlement.ending is Ending.COMPLETE:
            await self._complete(trip, settlement, late, wait)
        else:
            call.tell(Settled(call.item.changed, late=False))

    async def _deliver(self, trip: _Trip, wait: str) -> None:
        ((call,),) = trip
        conclusion: Conclusion = call.item.what
        await self._complete(trip, conclusion, _sorted(conclusion.items), wait)

    async def _complete(
        self, trip: _Trip, success: Settlement | Conclusion, parts: Sequence[Part], wait: str
    ) -> None:
        """Whatever the claims of these items are, and their entry."""
        ((call,),) = trip
        ids = await self._table.route_ids()
        rows = await self._run(
            self._complete_statement,
            trip,
            (
                [UUID(part.key.digest) for part in parts],
                [BYTE[part.fingerprint] for part in parts],
                self._table.texts(part.key.event_id for part in parts),
                UUID(success.key.digest),
                ids[success.route],
                success.token,
                wait,
            ),
        )
        changed = call.item.changed or bool(rows)
        call.tell(Settled(changed, late=any(not leased for (leased,) in rows)))

    async def _store(self, trip: _Trip, wait: str) -> None:
        ((call,),) = trip
        offer: Offer = call.item.what
        parts = _sorted(offer.items)
        args = (
            [UUID(part.key.digest) for part in parts],
            [BYTE[part.fingerprint] for part in parts],
            [whole(part.key.event_id) for part in parts],
            UUID(offer.key.digest),
            (await self._table.route_ids())[offer.route],
            offer.token,
            LETTERS[offer.state],
            offer.lease,
            offer.doubtful,
            BYTE[offer.fingerprint],
            whole(offer.key.event_id),
            *columns(offer.delivery),
            offer.unkeyed,
            wait,
        )
        stored = await self._run(self._store_statement, trip, args)
        if not stored and call.lost:
            # The try before this may have stored it while we waited for its locks: the rows that
            # say so are younger than our snapshot.
            call.lost = False
            stored = await self._run(self._store_statement, trip, args)
        call.tell(bool(stored))

    async def _run(
        self, statement: Statement, trip: _Trip, args: Sequence[Any], size: int | None = None
    ) -> list[Record]:
        """One statement about a batch, or about so many of its items."""
        errand = trip[0][0].item
        seconds = TRY + errand.time
        return await self._table.send(statement, trip, args, size or errand.size, seconds=seconds)

    async def _revive(self, trip: _Trip, wait: str) -> None:
        ((call,),) = trip
        keys: Sequence[EventKey] = call.item.what
        digests = [UUID(digest) for digest in sorted(key.digest for key in keys)]
        revived = await self._run(self._revive_statement, trip, (digests, wait))
        call.tell(bool(revived))


async def _send(trip: _Trip, wait: str) -> None:
    ((call,),) = trip
    await call.item.send(trip, wait)


def _weight(errand: _Errand) -> int:
    return errand.weight


def _sorted(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.key.digest)
