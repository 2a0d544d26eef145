"""What an operator may do with an event, and when that is refused.

    release    a completed claim is free again, with doubt: the next delivery is forwarded, marked
    redrive    an entry is due at once, and its time to give up starts anew
    drop       an entry need not be delivered: it is dropped, and its event counts as completed
    complete   the consumer has the event: its entry counts as delivered, the claim as completed

All of them are fenced against what runs. A release changes only the attempt that the operator saw;
the others change only the state and attempt that they saw, and never an entry whose lease is alive.
A lease that is over may have had its effect, which is doubt here as everywhere. Whatever is done to
the entry of a batch is done for all of its events; a release frees one. Success stays
monotone: a worker or holder that comes back with one completes the event whatever was done here.

Like the other rules this is the executable specification of SQL (`store/operator.sql`), which does
the deciding; what it refused is explained by asking these functions afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from gateway.core.claim import Claim, State
from gateway.core.inbox import Entry, EntryState

UNDELIVERED = (EntryState.PENDING, EntryState.LEASED, EntryState.DEAD, EntryState.HELD)


class Action(StrEnum):
    """What is recorded, beside who did it and why."""

    RELEASE = "release"
    REDRIVE = "redrive"
    DROP = "drop"
    COMPLETE = "complete"


class Refusal(StrEnum):
    """Why nothing was done about an event."""

    UNKNOWN = "unknown"
    """No claim, or no entry."""
    CLAIMED = "claimed"
    """Somebody forwards it, or did when the lease ended: its claim frees itself."""
    STORED = "stored"
    """The inbox owes it."""
    FREE = "free"
    """Released already."""
    OWED = "owed"
    """Its claim is completed, and there is an undelivered entry that a release would set free."""
    LEASED = "leased"
    """A worker is sending it."""
    OVER = "over"
    """Its entry is delivered or dropped."""
    COMPLETED = "completed"
    """Its claim is: an entry beside it is never sent."""
    CHANGED = "changed"
    """It is not what the operator saw any more."""
    LOCKED = "locked"
    """Others held its rows for longer than we wait."""


def release(claim: Claim | None, entry: Entry | None, attempt: int) -> Claim | Refusal:
    """Free a completed claim whose latest attempt is the one that was seen."""
    if claim is None:
        return Refusal.UNKNOWN
    refused = {
        State.CLAIMED: Refusal.CLAIMED,
        State.STORED: Refusal.STORED,
        State.RELEASED: Refusal.FREE,
    }
    if claim.state in refused:
        return refused[claim.state]
    if entry is not None and entry.state in UNDELIVERED:
        return Refusal.OWED
    if claim.attempt != attempt:
        return Refusal.CHANGED
    return replace(claim, state=State.RELEASED, doubtful=True)


def redrive(entry: Entry | None, now: float, *, over: bool) -> Entry | Refusal:
    """Have an entry sent at once. Attempts and doubt stay.

    `over`: all events that it stands for are completed, which for most is one.
    """
    refused = _untouchable(entry, now)
    if entry is None or refused is not None:
        return refused or Refusal.UNKNOWN
    if over:
        return Refusal.COMPLETED
    return replace(
        entry,
        state=EntryState.PENDING,
        doubtful=_doubtful(entry),
        since=now,
        due=now,
    )


def close(
    claim: Claim | None, entry: Entry | None, *, as_: EntryState, fingerprint: int, now: float
) -> tuple[Claim, Entry] | Refusal:
    """End an entry as delivered or dropped; its event counts as completed.

    Of a batch this is what happens to each item's claim.
    """
    refused = _untouchable(entry, now)
    if entry is None or refused is not None:
        return refused or Refusal.UNKNOWN
    doubtful = _doubtful(entry)
    closed = replace(entry, state=as_, doubtful=doubtful)
    if claim is not None and claim.state is State.COMPLETED:
        return claim, closed
    attempt = max(entry.attempt, 1)
    if claim is None:
        return Claim(State.COMPLETED, doubtful, attempt, now, fingerprint), closed
    doubtful = doubtful or claim.doubtful
    completed = replace(
        claim,
        state=State.COMPLETED,
        doubtful=doubtful,
        attempt=attempt,
        token=None,
        lease_until=None,
    )
    return completed, closed


def _untouchable(entry: Entry | None, now: float) -> Refusal | None:
    if entry is None:
        return Refusal.UNKNOWN
    if entry.state not in UNDELIVERED:
        return Refusal.OVER
    if entry.state is EntryState.LEASED and not entry.is_due(now):
        return Refusal.LEASED
    return None


def _doubtful(entry: Entry) -> bool:
    return entry.doubtful or entry.state is EntryState.LEASED
