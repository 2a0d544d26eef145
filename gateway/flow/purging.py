"""Purging: forgetting claims whose retention is over, beside the deliveries.

One process at a time walks the whole table, some pages in each statement. Nothing is indexed for
it: what is read in an hour of walking costs less than what every claim would write into an index.
Between two steps it rests for longer than the step took, so that deliveries hardly notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Protocol

from gateway.core.claim import StoreAway
from gateway.flow.needs import Clock, Dice, Jitter

log = logging.getLogger("gateway.purging")

# Between two runs of whichever process, in seconds. The retention of claims is a matter of days.
RUN_EVERY = 3600.0
# Between two looks whether a run is due, or was broken off.
LOOK_EVERY = 10.0
# A run that stops half-way is somebody else's after so many seconds.
LEASE = 60.0
# A page has 50 to 80 claims. Deleting all of a step's takes about 10 ms.
STEP = 32
# It works for a fifth of the time at most.
REST = 4.0
# Or rests for this long, so that one slow step does not cost it the job.
LONGEST_REST = LEASE / 4


class Purges(Protocol):
    """What a purger needs of the store. All raise StoreAway."""

    async def take_purge(self, token: int, lease: float, who: str) -> int | None:
        """Get the job: the number of the run. None where it is not due."""
        ...

    async def keep_purge(self, token: int, lease: float) -> bool:
        """Whether it is still ours, for so many seconds more."""
        ...

    async def pages(self) -> int:
        """How many pages there are to walk."""
        ...

    async def purge(self, run: int, first: int, end: int) -> dict[str, tuple[int, int]]:
        """Forget what is over on these pages: by route, all and unresolved ones."""
        ...

    async def end_purge(self, token: int, again: float, run: int) -> bool:
        """The run is done; the next is due in `again` seconds."""
        ...


class PurgeCounts(Protocol):
    """Where it is counted."""

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        """So many claims were forgotten; so many of them nobody ever knew the end of."""
        ...


class Purger:
    """One process's. `purge` runs for as long as the process does. `who`: for the record."""

    def __init__(
        self,
        store: Purges,
        counts: PurgeCounts,
        who: str,
        clock: Clock,
        dice: Dice,
        jitter: Jitter,
    ) -> None:
        self._store = store
        self._counts = counts
        self._who = who
        self._clock = clock
        self._dice = dice
        self._jitter = jitter
        self._postponed = False

    async def run_once(self) -> Counter[str] | None:
        """One run, if it is due and nobody else's: by route, how many were forgotten."""
        token = self._dice()
        run = await self._store.take_purge(token, LEASE, self._who)
        if run is None:
            return None
        started, gone, unresolved = self._clock(), Counter[str](), Counter[str]()
        kept_at = started
        for first in range(0, await self._store.pages(), STEP):
            began = self._clock()
            if began - kept_at > LEASE / 4:
                if not await self._store.keep_purge(token, LEASE):
                    return None  # we were away for so long that somebody else has it
                kept_at = began
            found = await self._store.purge(run, first, first + STEP)
            for route, (claims, unknown) in found.items():
                self._counts.purged(route, claims, unknown)
                gone[route] += claims
                unresolved[route] += unknown
            await asyncio.sleep(min(REST * (self._clock() - began), LONGEST_REST))
        if not await self._store.end_purge(token, RUN_EVERY, run):
            return None
        self._tell(gone, unresolved, self._clock() - started)
        return gone

    async def purge(self) -> None:
        """Forever."""
        while True:
            await asyncio.sleep(LOOK_EVERY * (1 - 0.5 * self._jitter()))
            try:
                await self.run_once()
            except StoreAway as away:
                if not self._postponed:
                    log.warning("purge_postponed", extra={"why": str(away)})
                self._postponed = True
            else:
                self._postponed = False

    def _tell(self, gone: Counter[str], unresolved: Counter[str], took: float) -> None:
        if gone:
            log.info("purged", extra={"claims": gone.total(), "seconds": round(took, 1)})
        for route, claims in (+unresolved).items():
            log.warning("purged_unresolved", extra={"route": route, "claims": claims})
