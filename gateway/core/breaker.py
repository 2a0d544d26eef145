"""The breaker: a consumer that is down is asked now and then, and not with every entry it is owed.

    closed      everything is sent
    open        nothing is sent until a time
    probing     one entry is under way; how it ends decides

It trips after some failures in a row. The first pause is short, each failed probe doubles it up to
a minute: ten minutes of outage cost some twelve probes, and the consumer is found within a minute
of its return. A probe is the entry that has been due for longest, so each costs another one its
attempt; what else was under way when the breaker tripped says nothing new if it fails.

It trips on what says that the consumer as a whole is down: not reached, no answer, or a proxy's
word for that. A 500 is about one event.
"""

from __future__ import annotations

from gateway.core.outcome import OURS, Ambiguous, Delivered, Outcome, Refused, Unreached

# One event that kills its handler is tried once in a while and not five times in a row.
FAILURES_TO_TRIP = 5
# 5 + 10 + 20 + 40 + 60 + 60 …: 13 probes in ten minutes.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
# What proxies and overloaded consumers say for themselves.
DOWN = frozenset({502, 503, 504})


class Breaker:
    """One route's, in one process. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._failures = 0
        self._until: float | None = None
        self._pause = FIRST_PAUSE
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether entries wait for the consumer to come back."""
        return self._until is not None

    def room(self, free: int, now: float) -> int:
        """How many of `free` slots may be used now: all of them, one for a probe, or none."""
        if self._until is None:
            return free
        return 0 if self._probing or now < self._until else min(free, 1)

    def begun(self) -> bool:
        """A slot is used: whether that is the probe. Of many that were leased together while the
        breaker tripped, one is."""
        if self._until is None or self._probing:
            return False
        self._probing = True
        return True

    def ended(self) -> None:
        """The probe ended, whether anything was sent or not."""
        self._probing = False

    def told(self, outcome: Outcome, now: float, *, probe: bool) -> None:
        """How a forward ended. `probe`: as `begun` said."""
        match is_down(outcome):
            case False:
                self._failures, self._until, self._pause = 0, None, FIRST_PAUSE
            case True if self._until is None:
                self._failures += 1
                if self._failures >= FAILURES_TO_TRIP:
                    self._until = now + self._pause
            case True if probe:
                self._pause = min(self._pause * 2, LONGEST_PAUSE)
                self._until = now + self._pause


def is_down(outcome: Outcome) -> bool | None:
    """Whether an outcome says that the consumer as a whole is down; None where it says nothing."""
    match outcome:
        case Delivered():
            return False
        case Refused(reply):
            return reply.status in DOWN
        case Unreached(reason):
            return None if reason in OURS else True
        case Ambiguous():
            return True
