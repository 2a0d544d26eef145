"""Observing: how what is noted in `observe` is collected, and brought to the store.

A process counts in memory, and stores its counts every few seconds and when it ends: a kill costs
the last seconds, a restart nothing. It stores the totals of a *series* of notes, not steps: stored
twice they are the same, so a reply that was lost costs nothing either. A series is an hour long, or
as long as the store is away, so that there are never more than two of them to remember.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from gateway.core.claim import StoreAway
from gateway.core.observing import Count, Noted, print_of
from gateway.core.route import Route
from gateway.flow.needs import Clock, Dice, Jitter
from gateway.flow.observer import Memory, Observer

log = logging.getLogger("gateway.observing")

# A kill costs what was noted since the last time.
KEEP_EVERY = 5.0
SERIES_LASTS = 3600.0
# Deleting so many rows takes some milliseconds.
FORGET_BATCH = 500
# Ids have no length limit; an example does.
LONGEST_EXAMPLE = 255


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
        self._memories: dict[tuple[str, bytes], Memory] = {}
        self._postponed = False

    def of(self, route: Route) -> Observer:
        """What notes the deliveries of a route from now on, in a series of their own.

        A reload keeps what is remembered of deliveries, unless ids change.
        """
        if self._series.totals:
            self._begin_another()
        key = (route.name, print_of(route))
        for old in [old for old in self._memories if old[0] == route.name and old != key]:
            del self._memories[old]
        return Observer(route, self.add, self._memories.setdefault(key, Memory()))

    def add(self, counted: Count, number: int, greatest: float, example: str | None) -> None:
        """So many more. `greatest`: seconds."""
        self._series.add(counted, number, greatest, example)

    async def keep_once(self) -> bool:
        """Store what was noted since the last time; whether the store has all of it."""
        if self._clock() - self._series.began > SERIES_LASTS:
            self._begin_another()
        try:
            if (ended := self._ended) is not None:
                await self._store(ended)
                # The last call of a process may overlap with the loop's, and a reload with both.
                self._ended = None if self._ended is ended else self._ended
                await self._forget()
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

    def _begin_another(self) -> None:
        if self._ended is None:
            self._ended, self._series = self._series, _Series(self._dice(), self._clock())

    async def _forget(self) -> None:
        while await self._keeper.forget_notes(FORGET_BATCH) == FORGET_BATCH:
            pass

    async def _store(self, series: _Series) -> None:
        noted = series.unstored()
        if not noted:
            return
        await self._keeper.note(series.token, noted)
        for one in noted:
            series.totals[one.counted].stored = one.number
