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
from gateway.flow.notes import Event, Notes
from gateway.flow.shared import ARRIVE_WITHIN, Shared

# How soon a waiter learns of a settlement by another process. Each step is one batched look-up.
POLL_FIRST, POLL_LONGEST = 0.1, 1.0


class Arriving:
    """One route's deliveries on their way to the claims. `revived`: told when there is work."""

    def __init__(
        self, route: Route, shared: Shared, notes: Notes, revived: Callable[[], None]
    ) -> None:
        self._route = route
        self._shared = shared
        self._notes = notes
        self._revived = revived

    async def arrive(
        self, event: Event, give_up: float
    ) -> tuple[Seen, bool] | tuple[Won, float] | None:
        """Ask until seen (and whether it met a live claim), or won (and until when), or too late.

        `give_up` and the lease's end are monotonic seconds. Raises StoreAway.
        """
        route, clock = self._route, self._shared.clock
        ask = Ask(event.key, route.name, event.token, route.lease, event.fingerprint)
        wait, met_live, differs = POLL_FIRST, False, False
        while True:
            lease_end = clock() + route.lease
            arrival = await self._shared.claims.arrive(ask, within=ARRIVE_WITHIN)
            if isinstance(arrival, Seen | Held) and not arrival.same_body and not differs:
                differs = True
                self._notes.mismatch(event)
            match arrival:
                case Won():
                    return arrival, lease_end
                case Seen():
                    await self.meet(event, arrival)
                    return arrival, met_live
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
        if not seen.dead:
            return
        if await self._shared.inbox.revive(event.offer(self._route, EntryState.PENDING)):
            self._notes.revived(event)
            self._shared.room.accepted(self._route.name)
            self._revived()
