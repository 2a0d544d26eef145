"""Whether a route's consumer can be reached: a line in the log when that changes.

A dead consumer is one line and not one for each delivery; the metrics have the number.
"""

from __future__ import annotations

import logging
from typing import assert_never

from gateway.core.outcome import OURS, Ambiguous, Delivered, Outcome, Refused, Unreached
from gateway.core.route import Route
from gateway.flow.needs import Clock

log = logging.getLogger("gateway.deliveries")

# A consumer at its limits takes one connection and refuses the next, a hundred times a second.
QUIET = 10.0
"""Seconds between two lines that say that it is away."""


class Reach:
    """What is known of one upstream, as long as it is the same one."""

    def __init__(self, route: Route, clock: Clock) -> None:
        self._facts = {"route": route.name, "upstream": route.upstream.authority}
        self._clock = clock
        self._away_since: float | None = None
        self._may_say = float("-inf")

    def told(self, outcome: Outcome) -> None:
        """How one forward ended."""
        match outcome:
            case Unreached(reason):
                if reason not in OURS:
                    self._missed(reason)
            case Delivered() | Refused() | Ambiguous():
                self._met()
            case _:
                assert_never(outcome)

    def _missed(self, reason: str) -> None:
        now = self._clock()
        if self._away_since is None and now >= self._may_say:
            self._away_since, self._may_say = now, now + QUIET
            log.warning("upstream_away", extra={**self._facts, "why": str(reason)})

    def _met(self) -> None:
        if self._away_since is not None:
            seconds = round(self._clock() - self._away_since, 1)
            self._away_since = None
            log.info("upstream_back", extra={**self._facts, "away_seconds": seconds})
