"""Purging: when a claim is forgotten.

A claim is kept for its route's retention after whatever came last: the event's first delivery, its
settling, the end of a lease that nobody settled. The row says when it was settled only where that
was more than an hour after the first delivery, so every other one is kept for an hour longer.

A claim that was released without doubt is nobody's any more: its event starts anew at attempt 1.
What is undelivered in the inbox keeps its claims for as long as it takes.
"""

from __future__ import annotations

from enum import StrEnum

from gateway.core.claim import Claim, State

# Seconds after the first delivery within which a row does not say when it was settled.
UNSAID = 3600.0
# Seconds for which a released claim without doubt is kept.
RELEASED_FOR = 3600.0


class Purged(StrEnum):
    """What kind of claim was forgotten."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    """Nobody ever learnt what became of its event, or the entry that owed it is gone."""


def purged(
    claim: Claim, settled: float | None, retention: float | None, now: float, *, owed: bool
) -> Purged | None:
    """Whether a claim is to be forgotten; None where it is kept.

    `settled`: epoch seconds, where the row says so. `retention`: seconds; None where its route has
    registered none. `owed`: an entry that stands for it is undelivered.
    """
    if owed:
        return None
    if claim.state is State.CLAIMED:
        assert claim.lease_until is not None
        last = max(claim.first_seen, claim.lease_until)
    else:
        last = max(claim.first_seen, claim.first_seen + UNSAID if settled is None else settled)
    free = claim.state is State.RELEASED and not claim.doubtful
    kept_for = RELEASED_FOR if free else retention
    if kept_for is None or now - last <= kept_for:
        return None
    return Purged.RESOLVED if free or claim.state is State.COMPLETED else Purged.UNRESOLVED
