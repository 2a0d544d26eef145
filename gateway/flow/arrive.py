"""Arriving: one delivery meets the claims, and waits where somebody else is on its event.

Used by every mode that waits. A delivery that meets a dead entry revives it before it is told
anything: its 200 promises a delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import assert_never

from gateway.core.claim import Ask, Held, Seen, Won
from gateway.core.inbox import EntryState
from gateway.core.route import Route
from gateway.flow.batches import POLL_FIRST, POLL_LONGEST, Batches, Loose, Met, Taken
from gateway.flow.events import Event
from gateway.flow.notes import Notes
from gateway.flow.shared import ARRIVE_WITHIN, Shared


class Arriving:
    """One route's deliveries on their way to the claims. `revived`: told when there is work."""

    def __init__(
        self, route: Route, shared: Shared, notes: Notes, revived: Callable[[], None]
    ) -> None:
        self._route = route
        self._shared = shared
        self._notes = notes
        self._revived = revived
        self._batches = Batches(route, shared, notes, self._revive)

    async def arrive(self, event: Event, give_up: float) -> Met | Taken | Loose | None:
        """Ask until it is decided, or too late: None. `give_up`: monotonic seconds.

        Raises StoreAway.
        """
        if event.items:
            return await self._batches.arrive(event, give_up)
        return await self._arrive(event, give_up)

    async def _arrive(self, event: Event, give_up: float) -> Met | Taken | None:
        route, clock = self._route, self._shared.clock
        ask = Ask(event.key, route.name, event.token, route.lease, event.fingerprint)
        wait, met_live, differs = POLL_FIRST, False, False
        while True:
            lease_end = clock() + route.lease
            arrival = await self._shared.claims.arrive(ask, within=ARRIVE_WITHIN)
            if not differs and not isinstance(arrival, Won):
                differs = self._notes.differs(event, arrival)
            match arrival:
                case Won():
                    return Taken(arrival, lease_end, event)
                case Seen():
                    await self.meet(event, arrival)
                    return Met(arrival, met_live)
                case Held():
                    met_live = True
                case _:
                    assert_never(arrival)
            if clock() + wait > give_up:
                return None
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, POLL_LONGEST)

    async def meet(self, event: Event, seen: Seen) -> None:
        """Revive what is dead. Raises StoreAway."""
        if seen.dead:
            await self._revive(event)

    async def _revive(self, event: Event) -> None:
        if await self._shared.inbox.revive(event.offer(self._route, EntryState.PENDING)):
            self._notes.revived(event)
            self._shared.room.accepted(self._route.name)
            self._revived()
