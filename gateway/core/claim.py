"""Claims: who may forward an event, and what every other delivery of it is told.

One row per event key. A row is

    claimed     a holder (its token, its lease) is forwarding attempt n
    released    free again: the next delivery takes it as attempt n + 1
    stored      an inbox entry owns the event; never taken over
    completed   final: nothing demotes it but an operator's recorded release

A claimed row whose lease has run out is *lapsed*. That is derived from the database's clock and
never stored, so no sweeper has to run before a retry can win.

*Doubt* says that some earlier attempt may have had its effect. It is sticky: a settlement may add
it, a take-over of a lapsed claim adds it, nothing removes it. A holder that won with doubt must
mark its forward.

Success is monotone: any attempt, however late, may complete the claim, and completes it even if the
row is gone. A release is fenced: it changes the row only while the same token still holds it.

This module is the executable specification of `store/claims.sql`. It never decides who wins a race:
two deliveries that arrive together are put in order by the unique key in Postgres, in one
statement, and this file says what each of them is told. A test feeds both the same histories and
wants the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from gateway.core.event import EventKey, Part


class State(StrEnum):
    """What is stored. `lapsed` is not among them on purpose."""

    CLAIMED = "claimed"
    RELEASED = "released"
    STORED = "stored"
    COMPLETED = "completed"


class Ending(StrEnum):
    """How a holder ends its claim."""

    COMPLETE = "complete"
    RELEASE = "release"
    RELEASE_DOUBTFUL = "release_doubtful"


class StoreAway(Exception):
    """The store did not answer in time, or said that it cannot write.

    `undecided` is True when the statement may still take effect: the caller then has to give back
    what it may have won.
    """

    def __init__(self, why: str, *, undecided: bool = False) -> None:
        super().__init__(why)
        self.undecided = undecided


class Ask(NamedTuple):
    """One delivery that wants to forward an event."""

    key: EventKey
    route: str
    token: int
    """64 random bits, non-negative; the same in each repeat of a call whose reply was lost."""
    lease: float
    """Seconds."""
    fingerprint: int
    """Eight bits of the body's digest: enough to count bodies that change under one id."""


class Settlement(NamedTuple):
    """The holder ends its claim. Carries all that a completed row needs, should the row be gone."""

    key: EventKey
    route: str
    token: int
    fingerprint: int
    ending: Ending
    items: tuple[Part, ...] = ()
    """Of a batch: what is settled, all in one statement. `key` is the batch's own then."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The row. Times are seconds since the epoch on the database's clock."""

    state: State
    doubtful: bool
    attempt: int
    first_seen: float
    fingerprint: int | None
    """None where nobody saw a body: somebody said that the event was processed."""
    token: int | None = None
    """None unless claimed."""
    lease_until: float | None = None
    """None unless claimed."""
    event_id: str | None = field(default=None, compare=False)
    """Of the event that took it last, for people and to tell apart the events of one operation;
    None where ids are not kept."""

    def is_open(self, now: float) -> bool:
        """Free to be taken: released, or claimed under a lease that is over."""
        return self.state is State.RELEASED or self.is_lapsed(now)

    def is_lapsed(self, now: float) -> bool:
        """A lease ends at its last moment: at exactly `lease_until` it still holds."""
        return (
            self.state is State.CLAIMED and self.lease_until is not None and self.lease_until < now
        )


@dataclass(frozen=True, slots=True)
class Won:
    """Go on: this delivery holds the claim."""

    attempt: int
    doubtful: bool
    """Mark the forward."""
    took_over: bool
    """The holder before never settled."""
    now: float
    """The database's clock, for ages and stale events."""
    first_seen: float
    """Of the event, on that clock; equal to `now` for a new one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The event is durable already: completed, or stored in the inbox."""

    first_seen: float
    same_body: bool
    now: float
    same_event: bool = True
    """False where another event had the same operation key."""
    stored: bool = False
    """The inbox owes it: it was acknowledged, and may not be delivered yet."""
    dead: bool = False
    """Stored, and its entry is dead: a delivery like this one revives it."""


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else is on it and nothing is durable yet."""

    same_body: bool
    now: float
    same_event: bool = True
    """As above."""


Arrival = Won | Seen | Held


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settlement found."""

    changed: bool
    late: bool
    """A success that came after its lease was lost, or after its row was gone."""


def arrive(before: Claim | None, ask: Ask, now: float) -> tuple[Claim, Arrival]:
    """A delivery meets the claims: the row afterwards, and what the delivery is told."""
    if before is None:
        return _held_by(ask, now, attempt=1, doubtful=False, first_seen=now), Won(
            1, False, False, now, now
        )
    if before.state in (State.COMPLETED, State.STORED):
        same_body, stored = is_same_body(before, ask.fingerprint), before.state is State.STORED
        same_event = is_same_event(before, ask.key)
        return before, Seen(before.first_seen, same_body, now, same_event, stored)
    if before.is_open(now):
        lapsed = before.state is State.CLAIMED
        attempt, doubtful = before.attempt + 1, before.doubtful or lapsed
        after = _held_by(ask, now, attempt=attempt, doubtful=doubtful, first_seen=before.first_seen)
        return after, Won(attempt, doubtful, lapsed, now, before.first_seen)
    if before.token == ask.token:  # our own claim, whose reply was lost on the way
        return before, Won(before.attempt, before.doubtful, False, now, before.first_seen)
    same_body = is_same_body(before, ask.fingerprint)
    return before, Held(same_body, now, is_same_event(before, ask.key))


def is_same_body(claim: Claim, fingerprint: int) -> bool:
    """Whether the claim's body is not known to be another one."""
    return claim.fingerprint is None or claim.fingerprint == fingerprint


def is_same_event(claim: Claim, key: EventKey) -> bool:
    """Whether the claim is not known to be another event's, of the same operation."""
    return claim.event_id is None or claim.event_id == key.event_id


def settle(
    before: Claim | None, settlement: Settlement, now: float
) -> tuple[Claim | None, Settled]:
    """A holder, present or past, ends its claim."""
    mine = before is not None and before.state is State.CLAIMED and before.token == settlement.token
    if settlement.ending is Ending.COMPLETE:
        return _complete(before, settlement, now, mine=mine)
    if before is None or not mine:
        return before, Settled(changed=False, late=False)
    doubtful = before.doubtful or settlement.ending is Ending.RELEASE_DOUBTFUL
    return _free(before, State.RELEASED, doubtful=doubtful), Settled(changed=True, late=False)


def _complete(
    before: Claim | None, done: Settlement, now: float, *, mine: bool
) -> tuple[Claim, Settled]:
    if before is None:
        row = Claim(State.COMPLETED, False, 1, now, done.fingerprint, event_id=done.key.event_id)
        return row, Settled(changed=True, late=True)
    if before.state is State.COMPLETED:
        return before, Settled(changed=False, late=False)
    return _free(before, State.COMPLETED, doubtful=before.doubtful), Settled(
        changed=True, late=not mine
    )


def _held_by(ask: Ask, now: float, *, attempt: int, doubtful: bool, first_seen: float) -> Claim:
    return Claim(
        State.CLAIMED, doubtful, attempt, first_seen, ask.fingerprint,
        ask.token, now + ask.lease, ask.key.event_id,
    )  # fmt: skip


def _free(before: Claim, state: State, *, doubtful: bool) -> Claim:
    return replace(before, state=state, doubtful=doubtful, token=None, lease_until=None)
