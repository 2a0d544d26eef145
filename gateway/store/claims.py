"""Claims in Postgres: `arrive` and `settle` of many callers as few statements.

The rules are those of `gateway/core/claim.py`; claims.sql decides who wins. A first delivery and a
duplicate cost one trip. An open row costs a second one, the take-over, and that is the only
statement that must not be sent twice for one call: if its reply is lost, arriving again with the
same token tells whether it took effect. Settling costs one trip unless the claim is lost; a success
then completes, or inserts, whatever is there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import (
    Arrival,
    Ask,
    Ending,
    Held,
    Seen,
    Settled,
    Settlement,
    Won,
)
from gateway.core.event import EventKey
from gateway.store.batch import TOGETHER, Batch, Group, calls_of, unanswered
from gateway.store.queries import ForMany, read
from gateway.store.session import Lost, Record, pause
from gateway.store.table import BYTE, CHANGED, NOTHING, Table

# A settlement has a second; whoever needs it recorded goes on in the background.
SETTLE_WITHIN = 1.0

CLAIMED = (b"c", b"C")
STORED = (b"s", b"S")
COMPLETED = (b"d", b"D")
DURABLE = (*COMPLETED, *STORED)
ENDINGS = {Ending.COMPLETE: b"d", Ending.RELEASE: b"r", Ending.RELEASE_DOUBTFUL: b"R"}

Asks = list[Group[Ask, Arrival]]
Settlements = list[Group[Settlement, Settled]]


class Claims:
    """The claims table."""

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self._table = table
        statements = read("claims.sql")
        self._arrive_statement = ForMany(statements["arrive"])
        self._take_over_statement = ForMany(statements["take_over"])
        self._settle_statement = ForMany(statements["settle"])
        self._arrivals = Batch(self._arrive, clock, apart=Batch(self._arrive, clock))
        self._settlements = Batch(self._settle, clock, apart=Batch(self._settle, clock))

    def arrive(self, ask: Ask, *, within: float) -> asyncio.Future[Arrival]:
        """One delivery meets the table.

        StoreAway is raised here or, after `within` seconds at the latest, by what is given back;
        LookupError here, for a route that was never registered.
        """
        self._table.expect(ask.route)
        return self._arrivals.call(ask.key.digest, ask, within)

    def settle(self, settlement: Settlement) -> asyncio.Future[Settled]:
        """A holder ends its claim. StoreAway within a second and LookupError as above."""
        self._table.expect(settlement.route)
        return self._settlements.call(settlement.key.digest, settlement, SETTLE_WITHIN)

    async def close(self) -> None:
        """Fail what is still waiting."""
        await self._arrivals.close()
        await self._settlements.close()

    async def _arrive(self, groups: Asks, wait: str) -> None:
        ids = await self._table.route_ids()
        asks = [group[0].item for group in groups]
        columns = arrive_columns(self._table, ids, asks)
        rows = await self._table.run(self._arrive_statement, groups, wait, *columns)
        first_ever = first_of(rows)
        still_open: Asks = []
        for row, group in zip(rows, groups, strict=True):
            if row[0]:
                _tell_winner(group, first_ever)
            elif row[1]:
                still_open.append(group)
                for call in group:
                    call.seen = row[3], row[2]
            else:
                for call in group:
                    call.tell(told(self._table, row, call.item, asked=group[0].item))
        if still_open:
            await self._go_on(still_open)

    async def _go_on(self, groups: Asks) -> None:
        for call in calls_of(groups):
            call.out = False
            if call.took:
                call.fail("it is not known whether the claim was taken over")
        await self._arrivals.insist(groups, self._take_over, TOGETHER)

    async def _take_over(self, groups: Asks, wait: str) -> None:
        asks = [group[0].item for group in groups]
        seen = [cast("tuple[int, bytes]", group[0].seen) for group in groups]
        try:
            rows = await self._table.run(
                self._take_over_statement,
                groups,
                wait,
                *take_over_columns(self._table, asks, seen),
            )
        except Lost:
            for call in calls_of(groups):
                call.out, call.lost, call.took = False, True, True
            await self._arrivals.insist(groups, self._arrive, TOGETHER)
            return
        for n, attempt, doubtful, now, first_seen in rows:
            group = groups[n - 1]
            lapsed = seen[n - 1][1] in CLAIMED
            _tell_winner(group, Won(attempt, doubtful, lapsed, now, first_seen))
        # The others lost to somebody else; what that made of their rows, only the rows can tell.
        if lost := unanswered(groups):
            await pause()
            await self._arrivals.insist(lost, self._arrive, TOGETHER)

    async def _settle(self, groups: Settlements, wait: str) -> None:
        """Calls with one key take effect one after the other."""
        while groups:
            await self._settle_firsts(groups, wait)
            groups = [group[1:] for group in groups if len(group) > 1]

    async def _settle_firsts(self, groups: Settlements, wait: str) -> None:
        firsts = [group[:1] for group in groups]
        settlements = [group[0].item for group in firsts]
        rows = await self._table.run(
            self._settle_statement,
            firsts,
            wait,
            [UUID(settlement.key.digest) for settlement in settlements],
            [settlement.token for settlement in settlements],
            [ENDINGS[settlement.ending] for settlement in settlements],
        )
        for (n,) in rows:
            firsts[n - 1][0].tell(CHANGED)
        if len(rows) == len(firsts):
            return
        changed = {n - 1 for (n,) in rows}
        late: Settlements = []
        for n, group in enumerate(firsts):
            if n in changed:
                continue
            if group[0].item.ending is Ending.COMPLETE:
                late.append(group)
            else:
                group[0].tell(NOTHING)
        if late:
            await self._table.complete(late, wait)


def _tell_winner(group: Group[Ask, Arrival], won: Won) -> None:
    """The first call of a group won; the others met its claim at the same moment."""
    winner = group[0]
    winner.tell(won)
    for call in group[1:]:
        same_body = call.item.fingerprint == winner.item.fingerprint
        same_event = call.item.key.event_id == winner.item.key.event_id
        again = call.item.token == winner.item.token
        call.tell(won if again else Held(same_body, won.now, same_event))


def arrive_columns(table: Table, ids: Mapping[str, int], asks: Sequence[Ask]) -> tuple[Any, ...]:
    """What `arrive` takes, but for the wait."""
    return (
        [UUID(ask.key.digest) for ask in asks],
        [ids[ask.route] for ask in asks],
        [ask.token for ask in asks],
        [ask.lease for ask in asks],
        [BYTE[ask.fingerprint] for ask in asks],
        table.texts(ask.key.event_id for ask in asks),
    )


def take_over_columns(
    table: Table, asks: Sequence[Ask], seen: Sequence[tuple[int, bytes]]
) -> tuple[Any, ...]:
    """What `take_over` takes, but for the wait. `seen`: attempt and state of each row."""
    return (
        [UUID(ask.key.digest) for ask in asks],
        [attempt for attempt, _ in seen],
        [state for _, state in seen],
        [ask.token for ask in asks],
        [ask.lease for ask in asks],
        [BYTE[ask.fingerprint] for ask in asks],
        table.texts(ask.key.event_id for ask in asks),
    )


def first_of(rows: Sequence[Record]) -> Won:
    """What the first delivery of an event is told."""
    now = rows[0][7]
    return Won(1, False, False, now, math.floor(now))


def told(table: Table, row: Record, ask: Ask, *, asked: Ask) -> Arrival:
    """What a row that is not open tells a delivery; `asked`: the one that it was read for."""
    _, _, state, attempt, token, fingerprint, first_seen, now, dead, other_id = row
    if state is None:  # lost to a row younger than our snapshot: nothing is known of it
        return Held(True, now)
    same_body = fingerprint == BYTE[ask.fingerprint] or is_marked(state, attempt)
    same_event = is_same_event(table, other_id, ask.key, asked=asked.key)
    if state in DURABLE:
        return Seen(first_seen, same_body, now, same_event, state in STORED, bool(dead))
    if token == ask.token and state in CLAIMED:
        return Won(attempt, state == b"C", False, now, first_seen)
    return Held(same_body, now, same_event)


def is_marked(state: bytes, attempt: int | None) -> bool:
    """Whether somebody said that the event was processed, so that its fingerprint is nobody's.

    What was completed by a first forward has no attempt.
    """
    return attempt == 1 and state in COMPLETED


def is_same_event(table: Table, other_id: str | None, key: EventKey, *, asked: EventKey) -> bool:
    """Whether a row is this event's. `other_id`: what the row keeps, if that is not `asked`'s."""
    if other_id is None:
        return key.event_id == asked.event_id
    return table.text(key.event_id) == other_id
