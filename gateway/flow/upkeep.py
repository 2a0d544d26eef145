"""Upkeep: what is done for the inbox beside the deliveries.

Looking at it: how many entries wait, for the gauges and for the high-water mark. Between two looks
the mark counts what this process has stored and ended since. Other processes' entries are seen at
the next look, so several of them can pass the mark by what they store in two seconds; it keeps a
disk from filling up, and is no exact limit.

Forgetting: entries whose payload was kept for as long as the route says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from gateway.core.claim import StoreAway
from gateway.core.inbox import EntryState, Waiting
from gateway.core.route import Route
from gateway.flow.needs import Clock, Jitter

LOOK_EVERY = 2.0
# A look reads every entry that waits, 0.1 to 0.2 s for 100,000 of them. However many there are,
# looking takes a twentieth of one connection's time at most.
LOOK_SHARE = 20
FORGET_EVERY = 60.0
# Deleting so many rows took 20 ms at the median, and nobody's statement waits for them: what is
# over is nobody else's business.
FORGET_BATCH = 500

Waits = Mapping[tuple[str, EntryState], Waiting]
UNDELIVERED = (EntryState.PENDING, EntryState.LEASED)


class Kept(Protocol):
    """What upkeep needs of the inbox."""

    async def waiting(self) -> Waits:
        """All undelivered entries, by route and state. Raises StoreAway."""
        ...

    async def forget(self, route: str, kept: float, most: int) -> int:
        """Delete up to `most` entries that ended over `kept` seconds ago. Raises StoreAway."""
        ...


class Upkeep:
    """One process's. `look` and `forget` run for as long as the process does."""

    def __init__(self, inbox: Kept, clock: Clock, jitter: Jitter) -> None:
        self._inbox = inbox
        self._clock = clock
        self._jitter = jitter
        self._routes: tuple[Route, ...] = ()
        self.waiting: Waits | None = None
        """As last seen; None while the store is away and before the first look."""
        self._filled: Counter[str] = Counter()
        """By route: entries that were pending or leased, and those stored and ended since."""

    def use(self, routes: Iterable[Route]) -> None:
        """The routes of the configuration in force."""
        self._routes = tuple(routes)

    def has_room(self, route: Route) -> bool:
        """Whether the route may store one more. True when nobody knows: the store will say."""
        return self.waiting is None or self._filled[route.name] < route.high_water

    def accepted(self, route: str) -> None:
        """This process has stored an entry that is owed to the consumer."""
        self._filled[route] += 1

    def ended(self, route: str) -> None:
        """An entry is delivered, dead or held: it fills the inbox no more."""
        self._filled[route] -= 1

    async def look_once(self) -> bool:
        """See what waits; whether the store told."""
        before = self._filled.copy()
        try:
            self.waiting = await self._inbox.waiting()
        except StoreAway:
            self.waiting = None
            return False
        # What was stored while the look was under way may not be in it: it counts on.
        self._filled.subtract(before)
        for (route, state), found in self.waiting.items():
            if state in UNDELIVERED:
                self._filled[route] += found.entries
        return True

    async def forget_once(self, route: Route) -> int:
        """Delete what the route has kept for long enough; how many entries that were."""
        kept, forgotten = route.keep_payload.total_seconds(), 0
        while True:
            try:
                batch = await self._inbox.forget(route.name, kept, FORGET_BATCH)
            except StoreAway:
                return forgotten
            forgotten += batch
            if batch < FORGET_BATCH:
                return forgotten

    async def look(self) -> None:
        """Forever."""
        while True:
            began = self._clock()
            await self.look_once()
            await asyncio.sleep(self._spread(pause_after(self._clock() - began)))

    async def forget(self) -> None:
        """Forever."""
        while True:
            await asyncio.sleep(self._spread(FORGET_EVERY))
            for route in self._routes:
                await self.forget_once(route)

    def _spread(self, seconds: float) -> float:
        """Processes that were started together shall not ask together."""
        return seconds * (1 - 0.5 * self._jitter())


def pause_after(took: float) -> float:
    """Seconds between a look that took so long and the next."""
    return max(LOOK_EVERY, took * LOOK_SHARE)
