"""Health: what the log and the readiness probe say of a running gateway and its store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from gateway.core.route import OnStoreDown, Route
from gateway.store.store import Store

log = logging.getLogger("gateway.app")

# A restart of Postgres takes a second or two and should not take a pod out of its service.
AWAY_BEFORE_UNREADY = 5.0
MEMORY_LOST = (
    "the schema dedup was there and is gone: every event before this counts as new;"
    " route by route, `mode: observe` lets everything through while you look"
)
# Between two looks at the store for the log. Whatever is shorter is in dedup_store_errors_total.
LOOK_AT_STORE_EVERY = 1.0


class Health:
    """Of one gateway. `routes`: those in force."""

    def __init__(self, store: Store, routes: Callable[[], tuple[Route, ...]]) -> None:
        self._store = store
        self._routes = routes
        self._was_up = False

    async def watch(self) -> None:
        """A line for each change, so that the log tells why providers got 503. Forever."""
        was_up, told, losses = None, 0, 0
        while True:
            await asyncio.sleep(LOOK_AT_STORE_EVERY)
            if self._store.losses > losses:
                losses = self._store.losses
                log.error("memory_lost", extra={"detail": MEMORY_LOST})
            if new := self._store.migrated[told:]:
                log.info("store_migrated", extra={"migrations": new})
                told += len(new)
            problem = self._store.problem
            if was_up is (problem is None):
                continue
            was_up = problem is None
            if was_up:
                log.info("store_up")
                for risk in self._store.risks:
                    log.warning("store_risk", extra={"detail": risk})
            else:
                log.warning("store_away", extra={"problem": problem})

    def readiness(self, state: str) -> tuple[bool, Mapping[str, object]]:
        """Whether a gateway in that state should be sent deliveries, and the facts behind it."""
        away = self._store.away_since
        self._was_up = self._was_up or away is None
        seconds = 0.0 if away is None else time.monotonic() - away
        facts = {
            "state": state,
            "store": "up" if away is None else "away",
            "store_away_seconds": round(seconds, 1),
            "problem": self._store.problem,
        }
        tolerated = any(r.on_store_down is OnStoreDown.FORWARD for r in self._routes())
        patience = AWAY_BEFORE_UNREADY if self._was_up else 0.0
        usable = away is None or tolerated or seconds < patience
        return state == "running" and usable, facts
