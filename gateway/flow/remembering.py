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
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from gateway.core.canary import Memory, Remembered, expected
from gateway.core.claim import StoreAway
from gateway.core.retention import (
    Changed,
    NewMemory,
    OnRecord,
    Told,
    derivation,
    new_memories,
)
from gateway.core.route import Route
from gateway.flow.needs import Clock, Jitter

log = logging.getLogger("gateway.remembering")

# Between two looks, in seconds: whoever scrapes sees it within a minute.
LOOK_EVERY = 15.0
# One asks after every canary: of forty routes that are remembered for 60 days, 58,000, which takes
# a quarter of a second. So that this costs the store a fiftieth of a processor at most:
LOOK_SHARE = 50.0
LONGEST_PAUSE = 45.0


class Memories(Protocol):
    """What is asked of the store about routes and their claims. All raise StoreAway."""

    async def on_record(self, names: Iterable[str], places: Iterable[str]) -> list[OnRecord]:
        """Routes of these names, and others that were at these places."""
        ...

    async def remembering(self, names: Iterable[str]) -> set[str]:
        """Which of these routes have claims."""
        ...


class Records(Memories, Protocol):
    """What else is needed of the store. All raise StoreAway."""

    async def register(self, told: Sequence[Told], who: str) -> list[Changed]:
        """Say how long claims are kept; which of that is new."""
        ...

    async def renew(self, recipes: Mapping[str, bytes]) -> list[str]:
        """Keys are made in another way from now on; whose were not yet."""
        ...

    async def leave(self, names: Iterable[str]) -> None:
        """What was at the places of these routes is not missed there any more."""
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

    def expected(self, memory: Memory, known_age: float) -> float:
        """How far the memory has to reach, in seconds.

        To the floor, where there is one to keep: that it was raised a moment ago helps nobody
        whose duplicates come later. Else to what the user wished, as soon as that is possible.
        """
        floor = self.route.floor
        if floor is not None and not self.accepts_short:
            return expected(floor.total_seconds(), known_age)
        wished = self.route.retention.total_seconds()
        return expected(wished if memory.grown is None else min(wished, memory.grown), known_age)

    @property
    def told(self) -> Told:
        """What is registered of it."""
        source = derivation(self.route.promise, self.route.own_replay)
        return Told(self.route.name, int(self.retention), self.route.place, source)


async def unrecognised(store: Memories, routes: Sequence[Route]) -> list[NewMemory]:
    """Which routes recognise nothing of the claims of their name or their place."""
    told = [(route.name, route.print, route.place) for route in routes]
    on_record = await store.on_record([name for name, *_ in told], [place for *_, place in told])
    found = new_memories(told, on_record)
    if not found:
        return []
    remembering = await store.remembering({new.was for new in found})
    return [new for new in found if new.was in remembering]


class Remembering:
    """One process's. `watch` runs for as long as the process does. `who`: for the record."""

    def __init__(self, store: Records, who: str, clock: Clock, jitter: Jitter) -> None:
        self._store = store
        self._who = who
        self._clock = clock
        self._jitter = jitter
        self._kept: tuple[Kept, ...] = ()
        self._is_registered = False
        self._is_used = asyncio.Event()
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
        self._is_used.set()

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
        # Another server, a backup from before: nothing would be purged there.
        if any(memory.retention is None for memory in memories.values()):
            self._is_registered = False
        self.memories = {
            one.route.name: self._remembered(one, memories[one.route.name])
            for one in kept
            if one.route.name in memories
        }
        return True

    async def watch(self) -> None:
        """Forever; a configuration that is put in force is looked after at once."""
        while True:
            self._is_used.clear()
            began = self._clock()
            await self.look_once()
            pause = pause_after(self._clock() - began) * (1 - 0.5 * self._jitter())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._is_used.wait()

    async def _register(self, kept: Sequence[Kept]) -> None:
        recipes = {one.route.name: one.route.print for one in kept}
        accepting = {one.route.name for one in kept if one.accepts_new}
        found = await unrecognised(self._store, [one.route for one in kept])
        missed = [new for new in found if new.route not in accepting]
        for new in missed:
            log.warning("memory_is_new", extra={"route": new.route, "was": new.was})
        for name in await self._store.renew({name: recipes[name] for name in accepting}):
            log.warning("memory_renewed", extra={"route": name})
        left = {new.was for new in found} - {new.was for new in missed} - recipes.keys()
        await self._store.leave(left)
        await self._tell_retentions(kept, frozenset(new.was for new in missed))

    async def _tell_retentions(self, kept: Sequence[Kept], missed: Container[str]) -> None:
        """`missed`: routes whose place is what tells of a new memory, so that it has to stay."""
        told = [one.told for one in kept]
        sources = {one.route: one.source for one in told}
        told = [one._replace(place=None) if one.route in missed else one for one in told]
        for name, was, now in await self._store.register(told, self._who):
            facts = {"route": name, "was": was, "now": now, "source": sources[name]}
            if was is not None and now < was:
                log.warning("retention_shortened", extra=facts)
            else:
                log.info("retention_registered", extra=facts)

    def _remembered(self, kept: Kept, memory: Memory) -> Remembered:
        name, now = kept.route.name, self._clock()
        began = min(self._began.get(name, now), now - memory.reach)
        self._began[name] = began
        own = kept.route.retention.total_seconds()
        return Remembered(
            retention=own if memory.retention is None else min(own, memory.retention),
            reach=memory.reach,
            expected=kept.expected(memory, max(memory.age, now - began)),
        )


def pause_after(took: float) -> float:
    """Seconds between a look that took so long and the next."""
    return min(max(LOOK_EVERY, took * LOOK_SHARE), LONGEST_PAUSE)
