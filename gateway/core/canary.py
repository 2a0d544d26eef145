"""Canaries: claims that stand for no event, and tell how far a memory really reaches.

One is planted for each route every hour, and its planting is noted in a table of its own. Where a
canary is missing, claims of its age are missing: deleted, truncated, expired by somebody's job, or
purged in time. So the memory reaches back to the oldest canary since when none is missing; that is
the *effective* retention. It has to reach as far as the floor, or as far as the route is known to
be old.

A canary is planted whenever the latest is over an hour old. Where the next one after a missing one
came later than that, no gateway was there, and there was nothing to remember: the memory reaches
back to when it was due.
"""

from __future__ import annotations

from dataclasses import dataclass

# Seconds between two plantings.
PLANTED_EVERY = 3600.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What the store says of one route. Seconds, on the database's clock."""

    age: float
    """Since canaries are planted for it."""
    reach: float
    """The effective retention."""
    retention: float | None
    """As it was registered last, by whatever process; None where none has."""
    grown: float | None = None
    """What the retention was before it was raised, and the time since: more cannot be there. None
    where it never was."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """How long a route's memory is. Seconds."""

    retention: float
    """The shorter one of ours and the one that purges go by."""
    reach: float
    """The effective retention."""
    expected: float
    """How far it has to reach."""


def reach(canaries: list[tuple[float, bool]], now: float) -> float:
    """The effective retention. `canaries`: when each was planted, and whether it is there."""
    missing = max((planted for planted, there in canaries if not there), default=None)
    since = [at for at, _ in canaries if missing is None or at > missing]
    if missing is not None:
        since.append(missing + PLANTED_EVERY)
    return max(now - min(since, default=now), 0.0)


def expected(needed: float, known_age: float) -> float:
    """How far the memory has to reach. `needed`: the floor, or what stands in for it."""
    return min(needed, known_age)
