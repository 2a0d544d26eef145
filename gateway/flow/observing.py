"""Observing: how what is noted in `observe` is collected, and brought to the store.

A process counts in memory, and stores its counts every few seconds and when it ends: a kill costs
the last seconds, a restart nothing. It stores the totals of a *series* of notes, not steps: stored
twice they are the same, so a reply that was lost costs nothing either. A series is an hour long, or
as long as the store is away, so that there are never more than two of them to remember.

Which body came under which id is remembered by the process alone, and not for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, assert_never

from gateway.core.claim import Arrival, Held, Seen, StoreAway, Won
from gateway.core.event import EventKey
from gateway.core.keying import Conflicting, Missing
from gateway.core.observing import (
    MARKED,
    UNCHECKED,
    Count,
    Noted,
    What,
    print_of,
    shape,
    trace,
)
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.core.signature import Flaw
from gateway.flow.events import Event
from gateway.flow.needs import Clock, Dice, Jitter

log = logging.getLogger("gateway.observing")

# A kill costs what was noted since the last time.
KEEP_EVERY = 5.0
SERIES_LASTS = 3600.0
# Bodies that a route remembers: 1.5 MB of digests. Providers retry first after seconds or minutes.
MOST_BODIES = 10_000
# Deleting so many rows takes some milliseconds.
FORGET_BATCH = 500
# Ids have no length limit; an example does.
LONGEST_EXAMPLE = 255

Bodies = OrderedDict[int, int | None]
"""By what it is known by: a hash of the id that a body came under, None once it had several."""


class Keeper(Protocol):
    """What keeps notes."""

    async def note(self, series: int, noted: Sequence[Noted]) -> None:
        """Store totals. Repeating it is harmless. Raises StoreAway."""
        ...

    async def forget_notes(self, most: int) -> int:
        """Delete up to `most` that are over 90 days old; how many. Raises StoreAway."""
        ...


class _Total:
    __slots__ = ("example", "greatest", "number", "stored")

    def __init__(self) -> None:
        self.number = self.stored = 0
        self.greatest = 0.0
        self.example: str | None = None


class _Series:
    def __init__(self, token: int, began: float) -> None:
        self.token = token
        self.began = began
        self.totals: dict[Count, _Total] = {}

    def add(self, count: Count, number: int, greatest: float, example: str | None) -> None:
        total = self.totals.get(count)
        if total is None:
            total = self.totals[count] = _Total()
        total.number += number
        total.greatest = max(total.greatest, greatest)
        if example is not None:
            total.example = example[:LONGEST_EXAMPLE]

    def unstored(self) -> list[Noted]:
        """What has changed since it was stored, in one order for all."""
        return [
            Noted(count, total.number, total.greatest, total.example)
            for count, total in sorted(self.totals.items(), key=lambda item: item[0])
            if total.number != total.stored
        ]


class Observations:
    """One process's. `keep` runs for as long as the process does."""

    def __init__(self, keeper: Keeper, clock: Clock, dice: Dice, jitter: Jitter) -> None:
        self._keeper = keeper
        self._clock = clock
        self._dice = dice
        self._jitter = jitter
        self._series = _Series(dice(), clock())
        self._ended: _Series | None = None
        """The one before, until all of it is stored."""
        self._bodies: dict[tuple[str, bytes], Bodies] = {}
        self._postponed = False

    def of(self, route: Route) -> Observer:
        """What notes the deliveries of a route. A reload keeps the bodies, unless ids change."""
        key = (route.name, print_of(route))
        for old in [old for old in self._bodies if old[0] == route.name and old != key]:
            del self._bodies[old]
        return Observer(route, self, self._bodies.setdefault(key, OrderedDict()))

    def add(
        self, count: Count, number: int = 1, greatest: float = 0.0, example: str | None = None
    ) -> None:
        """So many more. `greatest`: seconds."""
        self._series.add(count, number, greatest, example)

    async def keep_once(self) -> bool:
        """Store what was noted since the last time; whether the store has all of it."""
        if self._ended is None and self._clock() - self._series.began > SERIES_LASTS:
            self._ended, self._series = self._series, _Series(self._dice(), self._clock())
        try:
            if self._ended is not None:
                await self._store(self._ended)
                self._ended = None
                await self._keeper.forget_notes(FORGET_BATCH)
            await self._store(self._series)
        except StoreAway as away:
            if not self._postponed:
                log.warning("observations_postponed", extra={"why": str(away)})
            self._postponed = True
            return False
        self._postponed = False
        return True

    async def keep(self) -> None:
        """Forever."""
        while True:
            await asyncio.sleep(KEEP_EVERY * (1 - 0.5 * self._jitter()))
            await self.keep_once()

    async def _store(self, series: _Series) -> None:
        noted = series.unstored()
        if not noted:
            return
        await self._keeper.note(series.token, noted)
        for one in noted:
            series.totals[one.counted].stored = one.number


class Observer:
    """Notes what a route's deliveries are. Each of them is told to one of its methods, once."""

    def __init__(self, route: Route, observations: Observations, bodies: Bodies) -> None:
        self._route = route
        self._observations = observations
        self._bodies = bodies
        self._recipe = print_of(route)

    def keyless(self, found: Missing | Conflicting | None) -> None:
        """A delivery without a key; None for one that is no event."""
        match found:
            case None:
                self._note(What.PASSED)
            case Missing(where):
                self._note(What.UNKEYED, where)
            case Conflicting(where, why):
                self._note(What.CONFLICTING, f"{where}: {why}")
            case _:
                assert_never(found)

    def unsigned(self, flaw: Flaw | None) -> None:
        """A delivery whose signature is bad; None where nobody could check it."""
        self._note(What.UNSIGNED, UNCHECKED if flaw is None else flaw.value)

    def saw(self, event: Event, met: Sequence[Arrival] | StoreAway, *, accepted: bool) -> None:
        """A delivery with a key, or with several, and whether the consumer answered success."""
        if isinstance(met, StoreAway):
            self._note(What.BYPASSED)
        elif event.items:
            self._saw_batch(event, met, accepted=accepted)
        else:
            self._saw_one(event, met[0], accepted=accepted)

    def _saw_one(self, event: Event, arrival: Arrival, *, accepted: bool) -> None:
        match arrival:
            case Won(attempt=1):
                self._note(What.NEW)
                self._remember(event.key, event.delivery.body)
            case Won():
                self._note(What.AGAIN, MARKED if arrival.doubtful else "")
            case Seen():
                which, age = shape(arrival, self._route.promise)
                self._note(What.DURABLE, which.value, age, event.key.event_id)
                self._repeated(event.key, arrival, accepted=accepted)
            case Held():
                self._note(What.CONCURRENT, "" if arrival.same_event else Shape.OPERATION.value)
                self._repeated(event.key, arrival, accepted=accepted)
            case _:
                assert_never(arrival)

    def _saw_batch(self, event: Event, met: Sequence[Arrival], *, accepted: bool) -> None:
        """Each of its events once, and all of it as one delivery."""
        kinds = {_kind(arrival) for arrival in met}
        for part, arrival in zip(event.parts, met, strict=True):
            self._note(What.ITEM, _kind(arrival).value)
            if isinstance(arrival, Seen | Held):
                self._repeated(part.key, arrival, accepted=accepted)
        unkeyed = 0 if event.batch is None else event.batch.unkeyed
        if unkeyed:
            self._observations.add(self._count(What.ITEM, What.UNKEYED.value), unkeyed)
        self._note(What.BATCH, _together(kinds, unkeyed))

    def _repeated(self, key: EventKey, arrival: Seen | Held, *, accepted: bool) -> None:
        if arrival.same_event and not arrival.same_body:
            self._note(What.MISMATCH, example=key.event_id)
        if accepted:
            self._note(What.TAKEN_AGAIN, example=key.event_id)

    def _remember(self, key: EventKey, body: bytes) -> None:
        """An id that nobody has seen: did its body come before, under another one?"""
        known_by = trace(body, key.event_id, self._route.per_attempt)
        if known_by is None:
            return
        # Two events of one operation may well have one body.
        name = hash(key.digest if self._route.recipe.operation else key.event_id)
        if known_by.body not in self._bodies:
            self._note(What.BODY)
            self._bodies[known_by.body] = name
        elif self._bodies[known_by.body] not in (name, None):
            # Once for each body: that of a heartbeat comes under any number of ids.
            what = What.SAME_BUT_ID if known_by.holds_id else What.SAME_BODY
            self._note(what, example=key.event_id)
            self._bodies[known_by.body] = None
        self._bodies.move_to_end(known_by.body)
        if len(self._bodies) > MOST_BODIES:
            self._bodies.popitem(last=False)

    def _note(
        self, what: What, detail: str = "", greatest: float = 0.0, example: str | None = None
    ) -> None:
        self._observations.add(self._count(what, detail), 1, greatest, example)

    def _count(self, what: What, detail: str) -> Count:
        return Count(self._route.name, self._recipe, what, detail)


def _kind(arrival: Arrival) -> What:
    match arrival:
        case Won(attempt=1):
            return What.NEW
        case Won():
            return What.AGAIN
        case Seen():
            return What.DURABLE
        case Held():
            return What.CONCURRENT
        case _:
            assert_never(arrival)


def _together(kinds: set[What], unkeyed: int) -> str:
    """What a batch of these is: `concurrent`, `durable`, `mixed` or `new`."""
    if What.CONCURRENT in kinds:
        return What.CONCURRENT.value
    if What.DURABLE not in kinds:
        return What.NEW.value
    return "mixed" if unkeyed or len(kinds) > 1 else What.DURABLE.value
