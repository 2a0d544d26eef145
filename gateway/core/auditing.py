"""Auditing: what somebody else's list of events says about the claims, and they about it.

Against what the consumer has done:

    leak        an effect of an event without a claim: it went past the gateway, or had no id there
    loss        a completed claim of an event without an effect
    marked      the same of a claim that a backfill made: no consumer said success, somebody did
    double      an event with two effects; *announced* where its claim is doubtful, for then a
                forward of it was marked. Others may have been too, with a whole batch

Against what the provider says that it sent:

    missing     an event that has no claim: it never arrived, or had no id there
    unknown     a claim of an event that the provider does not list

What cannot be judged is counted apart, and is nothing wrong:

    before, after   not in the window, which is what both sides cover
    forgotten       older than the memory, so that its claim may be purged
    undated         without a time, so that it may be one of those
    edge            so near an end of the window that its counterpart may lie outside
    undecided       a claim that is open, or owed by the inbox: its event may not be done yet
    unfinished      the same, though the event has an effect: its next delivery is forwarded
    dropped         an operator said that the event need not be delivered

A claim is made before its effect, so no effect is too young to have one. The other way round an
effect may be missing from a list that was made a moment ago.

The unit of a list is an event of a key. Two events of one operation have one key and one claim, and
are no double: each has its own effect there.

This module is the executable specification of `store/audit.sql`, which does the comparing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.core.claim import Claim, State
from gateway.core.purging import UNSAID

# Seconds. A consumer records its effect before it answers; what comes between that and its list is
# its clock, which is another one, and a standby that lags.
EDGE = 300.0


class Against(StrEnum):
    """Whose list it is."""

    EFFECTS = "effects"
    PROVIDER = "provider"


class Standing(StrEnum):
    """How it stands with an event of the list, or with a claim that the list lacks."""

    MATCHED = "matched"
    LEAK = "leak"
    LOSS = "loss"
    MARKED = "marked"
    DOUBLE = "double"
    MISSING = "missing"
    UNKNOWN = "unknown"
    BEFORE = "before"
    AFTER = "after"
    FORGOTTEN = "forgotten"
    UNDATED = "undated"
    EDGE = "edge"
    UNDECIDED = "undecided"
    UNFINISHED = "unfinished"
    DROPPED = "dropped"


KINDS = {
    Against.EFFECTS: (Standing.LEAK, Standing.LOSS, Standing.MARKED, Standing.DOUBLE),
    Against.PROVIDER: (Standing.MISSING, Standing.UNKNOWN),
}
"""What is wrong, in the order in which it is told."""


class Listed(NamedTuple):
    """All that a list has of one event. Epoch seconds, None where no row of it has a time."""

    number: int
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store says of how far back the claims of a route reach. Epoch seconds."""

    born: float
    """Since when it knows the route."""
    since: float
    """Since when the route's keys are made as they are now."""
    oldest: float | None
    """When the oldest event was seen first; None without claims."""
    cut_off: float | None
    """What was settled before that was purged; None before the first purge."""
    retention: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is compared, and within which time. Epoch seconds on the database's clock."""

    against: Against
    since: float
    until: float
    begins: float
    """No claim is older: whether there was one is not known."""
    began: float
    """When the audit did: the list was read after that."""
    edge: float
    """Seconds: an event this near to an end of the window is left alone."""
    undated_inside: bool
    """Whether rows without a time are of the window. Somebody has to say so."""


class Asked(NamedTuple):
    """What the command line says of the window. Epoch seconds, None where it says nothing."""

    since: float | None
    until: float | None
    complete: bool
    """The list goes up to now, because it is asked for now."""


def begins(of: Remembered, now: float) -> float:
    """Since when an event has a claim, if it ever had one.

    Claims are kept for the retention after whatever came last, which is never before the effect.
    """
    known = min(at for at in (of.born, of.since, of.oldest) if at is not None)
    if of.since > of.born:  # what is older has another key
        known = of.since
    gone = (now - of.retention, of.cut_off)
    return max(known, *(at for at in gone if at is not None))


def terms(
    against: Against,
    asked: Asked,
    memory: Remembered,
    listed: Listed,
    began: float,
    lease: float,
) -> Terms:
    """The window is what was asked for, else what both sides cover.

    `listed`: of all rows together. `lease`: the route's, in seconds.
    """
    known = begins(memory, began)
    since = asked.since
    if since is None:
        since = known if listed.first is None else max(known, listed.first)
    until = asked.until
    if until is None:
        until = began if asked.complete or listed.last is None else listed.last
    return Terms(
        against,
        since,
        min(until, began),
        known,
        began,
        edge=max(EDGE, lease),
        undated_inside=asked.since is not None,
    )


def of_listed(listed: Listed, claim: Claim | None, terms: Terms) -> Standing:
    """How it stands with an event of the list."""
    if claim is None and listed.last is not None and listed.last < terms.begins:
        return Standing.FORGOTTEN
    if listed.last is not None and listed.last < terms.since:
        return Standing.BEFORE
    if listed.first is not None and listed.first > terms.until:
        return Standing.AFTER
    if claim is not None:
        done = claim.state is State.COMPLETED or terms.against is Against.PROVIDER
        return Standing.MATCHED if done else Standing.UNFINISHED
    if listed.last is None and not terms.undated_inside:
        return Standing.UNDATED
    if terms.against is Against.EFFECTS:
        return Standing.LEAK
    may_be_on_its_way = listed.last is not None and listed.last > terms.began - terms.edge
    return Standing.EDGE if may_be_on_its_way else Standing.MISSING


def is_double(listed: Listed, terms: Terms) -> bool:
    """Whether an event of the list was done twice. A provider lists attempts as well as events."""
    inside = (listed.last is None or listed.last >= terms.since) and (
        listed.first is None or listed.first <= terms.until
    )
    return terms.against is Against.EFFECTS and listed.number > 1 and inside


def of_claim(claim: Claim, settled: float | None, terms: Terms, *, dropped: bool) -> Standing:
    """How it stands with a claim that the list lacks.

    `settled`: epoch seconds, where that is known. `dropped`: that was the last thing an operator
    did about its event.
    """
    if claim.first_seen < terms.since:
        return Standing.BEFORE
    if claim.first_seen > terms.until:
        return Standing.AFTER
    if terms.against is Against.PROVIDER:
        inside = _is_inside(claim.first_seen, claim.first_seen, terms)
        return Standing.UNKNOWN if inside else Standing.EDGE
    if claim.state is not State.COMPLETED:
        return Standing.UNDECIDED
    if dropped:
        return Standing.DROPPED
    inside = _is_inside(claim.first_seen, ended(claim, settled), terms)
    if not inside:
        return Standing.EDGE
    return Standing.MARKED if claim.fingerprint is None else Standing.LOSS


def ended(claim: Claim, settled: float | None) -> float:
    """When a completed claim was, at the latest.

    A row says so only where that was more than an hour after the first delivery. A first attempt
    that succeeded took no longer than its lease, which the edge allows for.
    """
    if settled is not None:
        return settled
    return claim.first_seen if claim.attempt == 1 else claim.first_seen + UNSAID


def _is_inside(first: float, last: float, terms: Terms) -> bool:
    return terms.since + terms.edge <= first and last <= terms.until - terms.edge
