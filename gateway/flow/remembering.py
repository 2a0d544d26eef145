"""Remembering: that claims last as long as they should, and how that is found out.

    register   say how long the claims of each route are kept, and tell who shortened that
    plant      a canary for each route, every hour
    measure    how far the memory of each route reaches, by its canaries

What is promised is one thing, what the table holds is another: somebody deletes, truncates or
expires rows. A few seconds after that the *effective* retention is shorter, for every process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.core.canary import Memory, Remembered, expected
from gateway.core.claim import StoreAway
from gateway.core.retention import Changed, OnRecord, Told, derivation, new_memories
from gateway.core.route import Route
from gateway.flow.needs import Clock, Jitter

log = logging.getLogger("gateway.remembering")

# Between two looks, in seconds: whoever scrapes sees it within a minute.
LOOK_EVERY = 15.0


class Records(Protocol):
    """What is needed of the store. All raise StoreAway."""

    async def on_record(self, names: Iterable[str], places: Iterable[str]) -> list[OnRecord]:
        """Routes of these names, and others that were at these places."""
        ...

    async def register(self, told: Sequence[Told], who: str) -> list[Changed]:
        """Say how long claims are kept; which of that is new."""
        ...

    async def renew(self, recipes: Mapping[str, bytes]) -> list[str]:
        """Keys are made in another way from now on; whose were not yet."""
        ...

    async def plant(self, names: Iterable[str]) -> None:
        """Plant the canaries that are due."""
        ...

    async def memories(self, names: Iterable[str]) -> dict[str, Memory]:
        """How far each memory reaches."""
        ...

    async def last_purge(self) -> float | None:
        """When claims were purged last; epoch seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """A route, and what its user said about its memory."""

    route: Route
    accepts_short: bool
    """A retention below the floor is meant."""
    accepts_new: bool
    """That it recognises nothing older is meant."""
    retention: float
    """Seconds: its own, or that of a route with the same scope, if it is longer."""

    @property
    def needed(self) -> float:
        """How far the memory of an old route has to reach, in seconds."""
        floor = self.route.floor
        if floor is None or self.accepts_short:
            return self.route.retention.total_seconds()
        return floor.total_seconds()

    @property
    def told(self) -> Told:
        """What is registered of it."""
        source = derivation(self.route.promise, self.route.own_replay)
        return Told(self.route.name, int(self.retention), self.route.place, source)


class Remembering:
    """One process's. `watch` runs for as long as the process does. `who`: for the record."""

    def __init__(self, store: Records, who: str, clock: Clock, jitter: Jitter) -> None:
        self._store = store
        self._who = who
        self._clock = clock
        self._jitter = jitter
        self._kept: tuple[Kept, ...] = ()
        self._is_registered = False
        self._began: dict[str, float] = {}
        """When the oldest canary was planted that was ever seen; monotonic seconds."""
        self.memories: Mapping[str, Remembered] | None = None
        """As last seen; None while the store is away and before the first look."""
        self.last_purge: float | None = None
        """Of whichever process; epoch seconds."""

    def use(self, kept: Iterable[Kept]) -> None:
        """The routes of the configuration in force."""
        self._kept = tuple(kept)
        self._is_registered = False

    async def look_once(self) -> bool:
        """Do what is due; whether the store told."""
        kept = self._kept
        try:
            if not self._is_registered:
                await self._register(kept)
                self._is_registered = kept is self._kept
            names = [one.route.name for one in kept]
            await self._store.plant(names)
            memories = await self._store.memories(names)
            self.last_purge = await self._store.last_purge()
        except StoreAway:
            self.memories = self.last_purge = None
            return False
        self.memories = {
            one.route.name: self._remembered(one, memories[one.route.name])
            for one in kept
            if one.route.name in memories
        }
        return True

    async def watch(self) -> None:
        """Forever."""
        while True:
            await self.look_once()
            await asyncio.sleep(LOOK_EVERY * (1 - 0.5 * self._jitter()))

    async def _register(self, kept: Sequence[Kept]) -> None:
        routes = [(one.route.name, one.route.print, one.route.place) for one in kept]
        names, _, places = zip(*routes, strict=True)
        accepting = {one.route.name: one.route.print for one in kept if one.accepts_new}
        for new in new_memories(routes, await self._store.on_record(names, places)):
            if new.route not in accepting:
                log.warning("memory_is_new", extra={"route": new.route, "was": new.was})
        for name in await self._store.renew(accepting):
            log.warning("memory_renewed", extra={"route": name})
        for name, was, now in await self._store.register([one.told for one in kept], self._who):
            if was is not None and now < was:
                log.warning("retention_shortened", extra={"route": name, "was": was, "now": now})
            else:
                log.info("retention_registered", extra={"route": name, "was": was, "now": now})

    def _remembered(self, kept: Kept, memory: Memory) -> Remembered:
        name, now = kept.route.name, self._clock()
        began = min(self._began.get(name, now), now - memory.reach)
        self._began[name] = began
        own = kept.route.retention.total_seconds()
        return Remembered(
            retention=own if memory.retention is None else min(own, memory.retention),
            reach=memory.reach,
            expected=expected(kept.needed, max(memory.age, now - began)),
        )
