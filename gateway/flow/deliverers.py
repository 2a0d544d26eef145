"""The deliverers of all routes: those of the configuration in force, and the look for what is due.

A reload replaces a deliverer whose route has changed. The old one leases nothing more, and what it
has under way ends under the configuration that it began with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from weakref import WeakSet

from gateway.core.claim import StoreAway
from gateway.flow.deliver import Deliverer
from gateway.flow.shared import Shared

# How late an entry may be noticed that another process stored or whose pause is over.
LOOK_EVERY = 1.0
# How late the end of the last entry may be noticed when the process stops.
IDLE_LOOKS = 0.02


class Deliverers:
    """Those of all routes, and the look for what is due."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._by_route: dict[str, Deliverer] = {}
        # A request that began under one holds it, and may still become an entry of it.
        self._replaced: WeakSet[Deliverer] = WeakSet()
        self._stopped = False

    def use(self, deliverers: Iterable[Deliverer]) -> None:
        """Those of the configuration in force; others lease nothing more."""
        before = list(self._by_route.values())
        self._by_route = {deliverer.route.name: deliverer for deliverer in deliverers}
        kept = set(map(id, self._by_route.values()))
        for old in before:
            if id(old) not in kept:
                old.stop() if old.route.name in self._by_route else old.retire()
                self._replaced.add(old)
        if self._stopped:  # a rollout may swap the file and end the process in the same minute
            self.stop()

    @property
    def busy(self) -> int:
        """Entries under way."""
        return sum(d.busy for d in (*self._by_route.values(), *self._replaced))

    def open_breakers(self) -> list[str]:
        """The routes whose consumer counts as down."""
        return [name for name, deliverer in self._by_route.items() if deliverer.breaker_open]

    def stop(self) -> None:
        """Lease nothing more, under no later configuration either."""
        self._stopped = True
        for deliverer in self._by_route.values():
            deliverer.stop()

    async def wait_idle(self, within: float) -> bool:
        """Whether nothing is under way any more, waiting so many seconds for it."""
        end = self._shared.clock() + within
        while self.busy:
            if self._shared.clock() >= end:
                return False
            await asyncio.sleep(IDLE_LOOKS)
        return True

    async def look_once(self) -> frozenset[str]:
        """Wake the deliverers that have something to send; their names. Raises StoreAway."""
        due = await self._shared.inbox.due(tuple(self._by_route))
        for name in due:
            if (deliverer := self._by_route.get(name)) is not None:
                deliverer.wake()
        return due

    async def watch(self) -> None:
        """Forever."""
        while True:
            await asyncio.sleep(LOOK_EVERY * (0.5 + 0.5 * self._shared.jitter()))
            try:
                await self.look_once()
            except StoreAway:
                continue
