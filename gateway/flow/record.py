"""Recording: settlements that reach the store, sooner or later.

A settlement that does not get through at once is repeated in the background. A success is repeated
until it is recorded or the process ends: losing it would send the event again, marked. A release is
repeated until its lease is over: from then on the claim has lapsed and the next delivery takes it
over, marked.

The same repetition gives back a claim whose making stayed unknown: nothing was sent under it, so
the release is fenced and not doubtful, and goes on until it has hit or the lease is over; of a
batch it goes on for as long as that, whatever it has hit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from gateway.core.claim import Ending, Settled, Settlement, StoreAway
from gateway.core.inbox import Conclusion, EntryEnding
from gateway.flow.needs import Claims, Clock, Counts, Inbox, Spawn

log = logging.getLogger("gateway.record")

Ended = Settlement | Conclusion
"""How a holder ends its claim, or a worker its entry's attempt."""
Pending = asyncio.Future[None]
"""Done once nothing more will be done about a settlement: recorded, or given up."""

# Apart by enough that ten thousand of them do not keep a returning store from returning.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
# Successes of bypassed deliveries pile up while the store is away. 100,000 of them are about 50 MB.
MOST_PENDING = 100_000


def _nothing() -> None:
    """What most settlements do when they have taken effect."""


class Recorder:
    """Settles claims, and concludes attempts of entries, for all routes of a process."""

    def __init__(
        self, claims: Claims, inbox: Inbox, counts: Counts, clock: Clock, spawn: Spawn
    ) -> None:
        self._claims = claims
        self._inbox = inbox
        self._counts = counts
        self._clock = clock
        self._spawn = spawn
        self.pending = 0
        self._progress = asyncio.Event()

    async def record(
        self, settlement: Ended, lease_end: float, changed: Callable[[], None] = _nothing
    ) -> Pending | None:
        """Settle now if the store takes it within a second, else go on in the background.

        None when there is nothing left to do. `lease_end`: monotonic seconds. `changed` is called
        if and when it took effect.
        """
        try:
            self._note(settlement, await self._tell(settlement), changed)
        except StoreAway as away:
            log.warning("settle_postponed", extra=_fields(settlement, why=str(away)))
            return self._later(settlement, lease_end, lambda: self._is_settled(settlement, changed))
        return None

    def record_later(self, settlement: Ended, lease_end: float) -> Pending | None:
        """The same, all of it in the background, for a holder that may not have held the claim."""
        return self._later(settlement, lease_end, lambda: self._is_settled(settlement, None))

    def withdraw(self, *endings: Ended, lease_end: float) -> None:
        """Give back what may have been made without our knowing: one of these hits it."""
        self._later(endings[0], lease_end, lambda: self._hits(endings))

    async def drain(self, within: float) -> int:
        """Wait for what is pending; returns how many settlements were given up."""
        end = self._clock() + within
        while self.pending and (left := end - self._clock()) > 0:
            self._progress.clear()
            try:
                async with asyncio.timeout(left):
                    await self._progress.wait()
            except TimeoutError:
                break
        return self.pending

    def _later(
        self, settlement: Ended, lease_end: float, once: Callable[[], Awaitable[bool]]
    ) -> Pending | None:
        if self.pending >= MOST_PENDING:
            log.error("settlement_dropped", extra=_fields(settlement, why="too many are pending"))
            return None
        self.pending += 1
        ended: Pending = asyncio.get_running_loop().create_future()
        until = float("inf") if _is_success(settlement) else lease_end
        self._spawn(self._repeat(once, until, ended))
        return ended

    async def _repeat(
        self, once: Callable[[], Awaitable[bool]], until: float, ended: Pending
    ) -> None:
        """`once` says whether nothing is left to do."""
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    if await once():
                        return
                except StoreAway:
                    pass
                if self._clock() > until:
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self.pending -= 1
            self._progress.set()
            ended.set_result(None)

    async def _is_settled(self, settlement: Ended, changed: Callable[[], None] | None) -> bool:
        settled = await self._tell(settlement)
        if changed is not None:
            self._note(settlement, settled, changed)
        return True

    async def _hits(self, endings: Iterable[Ended]) -> bool:
        for ending in endings:
            settled = await self._tell(ending)
            # Of a batch one statement won some and another took over the rest: it may come later.
            if settled.changed and len(ending.items) <= 1:
                return True
        return False

    async def _tell(self, settlement: Ended) -> Settled:
        if isinstance(settlement, Conclusion):
            return await self._inbox.conclude(settlement)
        return await self._claims.settle(settlement)

    def _note(self, settlement: Ended, settled: Settled, changed: Callable[[], None]) -> None:
        if settled.changed:
            changed()
        if settled.late:
            self._counts.late_success(settlement.route)
            log.warning("late_success", extra=_fields(settlement))


def _is_success(settlement: Ended) -> bool:
    return settlement.ending in (Ending.COMPLETE, EntryEnding.DELIVER)


def _fields(settlement: Ended, **more: str) -> dict[str, str]:
    return {
        "route": settlement.route,
        "event_id": settlement.key.event_id[:255],
        "ending": settlement.ending.value,
        **more,
    }
