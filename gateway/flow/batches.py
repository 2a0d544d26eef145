"""Batches on their way to the claims: all items at once, and all or nothing while any is busy.

    all new     won for the whole, as one claim would be
    all seen    a duplicate
    any busy    what was won is given back, and then waited: nobody waits while holding, so batches
                that overlap cannot wait for each other
    mixed       the new items are won; the body is narrowed to them, or forwarded whole and marked

While it waits, a batch asks for the items that were busy; all of them are asked for again once none
is. An item without an id is nobody's repeat: it is forwarded with the new ones, under no claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gateway.core import batch
from gateway.core.batch import Item, OnMixed
from gateway.core.claim import Arrival, Ending, Held, Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.keying import Reading
from gateway.core.route import Route
from gateway.flow.events import Event
from gateway.flow.notes import Notes
from gateway.flow.shared import ARRIVE_WITHIN, Shared

# How soon a waiter learns of a settlement by another process. Each step is one batched look-up.
POLL_FIRST, POLL_LONGEST = 0.1, 1.0


class Met(NamedTuple):
    """Durable already. `live`: it was not yet when the delivery came."""

    seen: Seen
    live: bool


class Taken(NamedTuple):
    """Won, until `lease_end` in monotonic seconds. `event`: of a batch, what is new in it.

    `won` is doubtful, too, where something that was seen is in it still.
    """

    won: Won
    lease_end: float
    event: Event


class Loose(NamedTuple):
    """All that has an id was seen, and there is nothing to claim about the rest."""

    delivery: Delivery
    marked: bool
    """Whether what was seen is in it still."""


Found = list[tuple[Item, Arrival]]


@dataclass(slots=True)
class _Course:
    """What a batch has met on its way so far, and what was counted of that."""

    event: Event
    """Under the token that it has now."""
    live: bool = False
    """Some of it was busy."""
    took_over: bool = False
    """A lease had lapsed, and was won."""
    differing: set[Item] = field(default_factory=set)
    """Came with another body than before."""
    first: set[Item] = field(default_factory=set)
    """Won by nobody before. What of it was given back has a later attempt now."""


class Batches:
    """One route's. `revive`: has the dead entries of a batch's items delivered again."""

    def __init__(
        self,
        route: Route,
        shared: Shared,
        notes: Notes,
        revive: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._route = route
        self._shared = shared
        self._clock = shared.clock
        self._notes = notes
        self._revive = revive
        self._filters = route.batch is not None and route.batch.on_mixed is OnMixed.FILTER

    async def arrive(self, event: Event, give_up: float) -> Met | Taken | Loose | None:
        """Ask until it is decided, or too late: monotonic seconds. Raises StoreAway."""
        course = _Course(event)
        try:
            return await self._until_decided(course, give_up)
        except StoreAway as away:
            if not away.undecided or course.event.token == event.token:
                raise
            # Whoever called would give back what has the token that the delivery came with.
            ending = course.event.ending(self._route, Ending.RELEASE)
            lease_end = self._clock() + self._route.lease
            self._shared.recorder.withdraw(ending, lease_end=lease_end)
            raise StoreAway(str(away)) from None

    async def _until_decided(self, course: _Course, give_up: float) -> Met | Taken | Loose | None:
        wait, event = POLL_FIRST, course.event
        asked = event
        while True:
            lease_end = self._clock() + self._route.lease
            found = await self._ask(asked, course)
            if asked is not event and not _held(found):  # nobody waits between the two
                found = await self._ask_on(event, course)
            held = _held(found)
            if not held:
                return await self._decided(event, found, lease_end, course)
            if await self._give_back(event, found, lease_end):
                # A copy of that may reach the server late: nothing that is won from now on fits it.
                event = course.event = event._replace(token=self._shared.dice())
            asked, course.live = event.of(held), True
            if self._clock() + wait > give_up:
                return None
            # Apart from each other: batches that overlap would take and give back in step.
            await asyncio.sleep(wait * (0.5 + self._shared.jitter()))
            wait = min(wait * 1.5, POLL_LONGEST)

    async def _ask(self, event: Event, course: _Course) -> Found:
        asks = event.asks(self._route)
        arrivals = await self._shared.claims.arrive_all(asks, within=ARRIVE_WITHIN)
        found = list(zip(event.items, arrivals, strict=True))
        for item, arrival in found:
            if isinstance(arrival, Won):
                course.took_over |= arrival.took_over
                if arrival.attempt == 1:
                    course.first.add(item)
            elif item not in course.differing and self._notes.differs(event, arrival):
                course.differing.add(item)
        return found

    async def _ask_on(self, event: Event, course: _Course) -> Found:
        """The same while some of them may be held already, whatever the store did now."""
        try:
            return await self._ask(event, course)
        except StoreAway as away:
            raise StoreAway(str(away), undecided=True) from None

    async def _give_back(self, event: Event, found: Found, lease_end: float) -> bool:
        """Whether there was any. Raises StoreAway; then it goes on in the background."""
        won = {item for item, arrival in found if isinstance(arrival, Won)}
        if not won:
            return False
        ending = event.of(won).ending(self._route, Ending.RELEASE)
        try:
            await self._shared.claims.settle(ending)
        except StoreAway as away:
            self._shared.recorder.record_later(ending, lease_end)
            raise StoreAway(str(away)) from None
        return True

    async def _decided(
        self, event: Event, found: Found, lease_end: float, course: _Course
    ) -> Met | Taken | Loose:
        won = {item: arrival for item, arrival in found if isinstance(arrival, Won)}
        seen = {item: arrival for item, arrival in found if isinstance(arrival, Seen)}
        dead = {item for item, arrival in seen.items() if arrival.dead}
        try:
            if dead:
                await self._revive(event.of(dead))
        except StoreAway as away:
            raise StoreAway(str(away), undecided=bool(won)) from None
        if not (won or (event.batch and event.batch.unkeyed)):
            return Met(batch.seen_together(seen.values()), course.live)
        new = event.of(won)
        delivery, marked = self._narrowed(event, new)
        if won:
            together = replace(
                batch.won_together(won.values()),
                doubtful=marked or any(one.doubtful for one in won.values()),
                took_over=course.took_over,
            )
            if together.attempt > 1:  # else whoever sends it counts all that is stale in it
                self._notes.is_stale(event.of(course.first & won.keys()), 1, together.now)
            return Taken(together, lease_end, new._replace(delivery=delivery))
        return Loose(delivery, marked)

    def _narrowed(self, event: Event, new: Event) -> tuple[Delivery, bool]:
        """What is to be forwarded, and whether something that was seen is in it still."""
        whole = event.batch
        if whole is None or len(new.items) + whole.unkeyed == len(whole.items):
            return event.delivery, False
        if not self._filters:
            return event.delivery, True
        reading = Reading(event.delivery, self._shared.parse)
        narrowed = batch.with_only(reading, whole, {part.key.digest for part in new.parts})
        return (event.delivery, True) if narrowed is None else (narrowed, False)


def _held(found: Found) -> set[Item]:
    return {item for item, arrival in found if isinstance(arrival, Held)}
