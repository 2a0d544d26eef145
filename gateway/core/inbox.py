"""The inbox: events that we acknowledged and still owe to their consumer.

A stored event has an *entry*: the whole delivery as it came, and

    pending     due at some time; nobody has it
    leased      a worker (its token, its lease) is forwarding attempt n
    delivered   the consumer took it
    dead        tried for as long as the route's retry policy says; waits for a person
    held        in doubt, on a route that wants a person to look first
    dropped     a person said that it need not be delivered

Attempts are counted when an entry is leased, and the lease is committed before anything is sent: an
event that kills whoever forwards it is counted all the same, and its next attempt is marked. What
is known to have sent nothing is not counted.

The claim of a stored event is `stored`; while it is, the entry says who may forward. Success is
monotone here as there: whoever delivers, however late, completes the claim and closes the entry.
Everything else is fenced by the token. A lease that has run out is derived from the database's
clock, never stored; the next worker takes the entry with doubt.

`retry.py` has when an entry is tried again, and when no more; `batch_entry.py`, what is different
where it stands for many events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from gateway.core.claim import Claim, Settled, State
from gateway.core.event import Delivery, EventKey, Part


class EntryState(StrEnum):
    """What is stored of an entry."""

    PENDING = "pending"
    LEASED = "leased"
    DELIVERED = "delivered"
    DEAD = "dead"
    HELD = "held"
    DROPPED = "dropped"


class EntryEnding(StrEnum):
    """What a worker does with the entry that it has leased."""

    DELIVER = "deliver"
    RETRY = "retry"
    """Once more, after a pause."""
    HAND_BACK = "hand_back"
    """The same; nothing was sent, so the attempt does not count."""
    BURY = "bury"
    """The retry policy is spent."""
    HOLD = "hold"
    """A person shall look. Nothing was sent, so the attempt does not count."""


class Offer(NamedTuple):
    """An event to be stored."""

    key: EventKey
    route: str
    token: int
    """Of whoever stores it; also of the lease, if it is stored leased."""
    fingerprint: int
    delivery: Delivery
    state: EntryState
    """Leased by whoever stores and sends it, pending where that one has no slot free, or held."""
    lease: float
    """Seconds; of use only if leased."""
    doubtful: bool = False
    """Mark every forward: it is older than our memory, or a batch with items that were seen."""
    items: tuple[Part, ...] = ()
    """Of a batch: the claims that the entry stands for. None has `key` then."""
    unkeyed: bool = False
    """Of a batch: it carries events without an id, too."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Stored just now: acknowledge it. Or stored by this very call, whose reply was lost."""

    now: float
    """The database's clock."""


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Nothing stored: there is no room, or the claim is open and has to be won first."""


class Leased(NamedTuple):
    """An entry in the hands of a worker."""

    key: EventKey
    route: str
    token: int
    attempt: int
    doubtful: bool
    fingerprint: int
    age: float
    """Seconds since it was stored, revived or redriven, when it was leased."""
    now: float
    """The database's clock then."""
    delivery: Delivery
    took_over: bool = False
    """The worker before never concluded."""
    by_order: bool = False
    """A person had it sent: doubt does not hold it this time."""
    items: tuple[Part, ...] = ()
    """Of a batch."""


class Conclusion(NamedTuple):
    """What a worker makes of the entry that it has leased."""

    key: EventKey
    route: str
    token: int
    fingerprint: int
    ending: EntryEnding
    doubtful: bool
    """Adds doubt; never takes it away."""
    pause: float
    """Seconds until it is due again; zero for endings that do not retry."""
    why: str
    """What became of the attempt, in few words for people; never from a body."""
    items: tuple[Part, ...] = ()
    """Of a batch: a delivery completes them all."""


class Waiting(NamedTuple):
    """Undelivered entries of one route in one state."""

    entries: int
    oldest: float
    """Seconds since the oldest of them was received."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The row but for the delivery. Times are seconds since the epoch on the database's clock."""

    state: EntryState
    doubtful: bool
    attempt: int
    """Zero as long as nobody leased it."""
    since: float
    """When it was stored, revived or redriven."""
    due: float
    """When it may be leased; the end of the lease while leased."""
    token: int
    """Of whoever stored or leased it last."""
    unkeyed: bool = False
    """Of a batch: it carries events without an id beside its items."""

    def is_due(self, now: float) -> bool:
        """Free to be leased: pending and due, or leased under a lease that is over."""
        match self.state:
            case EntryState.PENDING:
                return self.due <= now
            case EntryState.LEASED:
                return self.due < now
            case _:
                return False


def accept(
    claim: Claim | None, entry: Entry | None, offer: Offer, now: float
) -> tuple[Claim | None, Entry | None, bool]:
    """An event meets an inbox that has room: both rows afterwards, and whether the entry was made.

    Only an event without any claim is stored in this one step. An open claim is won first, like any
    other, and then given to the inbox by `store`. An entry that is owed under a claim that was lost
    gets a claim again, and is not for whoever brought the event to send.
    """
    if claim is not None:
        return claim, entry, False
    made = Claim(
        State.STORED, offer.doubtful, 1, now, offer.fingerprint, event_id=offer.key.event_id
    )
    after = kept(entry, offer, now, attempt=1, doubtful=offer.doubtful)
    return made, after, after is not entry


def store(
    claim: Claim | None, entry: Entry | None, offer: Offer, now: float
) -> tuple[Claim | None, Entry | None, bool]:
    """The holder of a claim gives it to the inbox: fenced by its token; whether it is there now."""
    if claim is not None and claim.state is State.CLAIMED and claim.token == offer.token:
        doubtful = claim.doubtful or offer.doubtful
        stored = replace(claim, state=State.STORED, doubtful=doubtful, token=None, lease_until=None)
        made = kept(entry, offer, now, attempt=claim.attempt, doubtful=doubtful)
        return stored, made, True
    is_mine = (
        claim is not None
        and claim.state is State.STORED
        and entry is not None
        and entry.token == offer.token
    )
    return claim, entry, is_mine


def lease(
    entry: Entry, claim: Claim | None, token: int, seconds: float, now: float
) -> Entry | None:
    """A worker takes an entry that is due; None where it may not.

    One that is due although its event is completed is closed instead.
    """
    if not entry.is_due(now) or (claim is not None and claim.state is State.COMPLETED):
        return None
    lapsed = entry.state is EntryState.LEASED
    return replace(
        entry,
        state=EntryState.LEASED,
        doubtful=entry.doubtful or lapsed,
        attempt=entry.attempt + 1,
        token=token,
        due=now + seconds,
    )


def conclude(
    claim: Claim | None, entry: Entry | None, done: Conclusion, now: float
) -> tuple[Claim | None, Entry | None, Settled]:
    """A worker, present or past, ends its attempt."""
    mine = entry is not None and entry.state is EntryState.LEASED and entry.token == done.token
    if done.ending is EntryEnding.DELIVER:
        return _deliver(claim, entry, done, now, mine=mine)
    if entry is None or not mine:
        return claim, entry, Settled(changed=False, late=False)
    unsent = done.ending in (EntryEnding.HAND_BACK, EntryEnding.HOLD)
    after = replace(
        entry,
        state=_STATES[done.ending],
        doubtful=entry.doubtful or done.doubtful,
        attempt=entry.attempt - unsent,
        due=now + done.pause,
    )
    return claim, after, Settled(changed=True, late=False)


def revive(entry: Entry | None, now: float) -> tuple[Entry | None, bool]:
    """A delivery meets an entry: whether it was dead, and is due again with new bytes.

    Attempts and doubt stay, and where it is another event of one operation, the bytes do, too.
    """
    if entry is None or entry.state is not EntryState.DEAD:
        return entry, False
    return replace(entry, state=EntryState.PENDING, due=now, since=now), True


_STATES = {
    EntryEnding.RETRY: EntryState.PENDING,
    EntryEnding.HAND_BACK: EntryState.PENDING,
    EntryEnding.BURY: EntryState.DEAD,
    EntryEnding.HOLD: EntryState.HELD,
}


def _deliver(
    claim: Claim | None, entry: Entry | None, done: Conclusion, now: float, *, mine: bool
) -> tuple[Claim, Entry | None, Settled]:
    closed = entry
    attempt, doubtful = (1, False) if claim is None else (claim.attempt, claim.doubtful)
    if entry is not None and entry.state is not EntryState.DELIVERED:
        closed = replace(entry, state=EntryState.DELIVERED)
        attempt, doubtful = max(attempt, entry.attempt), doubtful or entry.doubtful
    if claim is not None and claim.state is State.COMPLETED:
        return claim, closed, Settled(changed=False, late=False)
    first_seen = now if claim is None else claim.first_seen
    fingerprint = done.fingerprint if claim is None else claim.fingerprint
    event_id = done.key.event_id if claim is None else claim.event_id
    completed = Claim(
        State.COMPLETED, doubtful, attempt, first_seen, fingerprint, event_id=event_id
    )
    return completed, closed, Settled(changed=True, late=not mine)


def kept(entry: Entry | None, offer: Offer, now: float, *, attempt: int, doubtful: bool) -> Entry:
    """The entry of an offer. One that is still owed under a claim that was lost stays as it is."""
    if entry is not None and entry.state in (
        EntryState.PENDING,
        EntryState.LEASED,
        EntryState.HELD,
    ):
        return entry
    leased = offer.state is EntryState.LEASED
    return Entry(
        state=offer.state,
        doubtful=doubtful,
        attempt=attempt if leased else attempt - 1,
        since=now,
        due=now + offer.lease if leased else now,
        token=offer.token,
        unkeyed=offer.unkeyed,
    )
