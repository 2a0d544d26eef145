"""Retaining: the purger, the canaries and the registered retention of one process, put together."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from gateway.config import Loaded
from gateway.flow.needs import Clock, Dice, Jitter
from gateway.flow.purging import Purger
from gateway.flow.remembering import Kept, Remembering
from gateway.metrics import Metrics
from gateway.store.retention import Retention


class Retaining:
    """Runs beside the deliveries of a process for as long as it does."""

    def __init__(
        self, store: Retention, metrics: Metrics, clock: Clock, dice: Dice, jitter: Jitter
    ) -> None:
        who = f"{socket.gethostname()}:{os.getpid()}"
        self._remembering = Remembering(store, who, clock, jitter)
        self._purger = Purger(store, metrics, who, clock, dice, jitter)
        metrics.gauges.watch_memory(
            memories=lambda: None if store.is_away else self._remembering.memories,
            last_purge=lambda: None if store.is_away else self._remembering.last_purge,
        )

    def use(self, loaded: Loaded) -> None:
        """The configuration in force."""
        self._remembering.use(kept(loaded))

    @property
    def loops(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """What goes on forever."""
        return (self._remembering.watch, self._purger.purge)


def kept(loaded: Loaded) -> Iterator[Kept]:
    """The routes, and how long the claims of each are kept: a scope's as long as any of it."""
    longest: dict[tuple[str, ...], float] = {}
    for route in loaded.routes:
        scope, seconds = route.scope, route.retention.total_seconds()
        longest[scope] = max(longest.get(scope, 0.0), seconds)
    for route in loaded.routes:
        yield Kept(
            route,
            accepts_short=route.name in loaded.accepted_short_retention,
            accepts_new=route.name in loaded.accepted_new_memory,
            retention=longest[route.scope],
        )
