"""What the store knows of one event, in the core's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.core.claim import Claim, State
from gateway.core.inbox import Entry
from gateway.store.claims import is_marked
from gateway.store.deliveries import STATES, as_it_was

CLAIMS = {
    b"c": State.CLAIMED,
    b"r": State.RELEASED,
    b"s": State.STORED,
    b"d": State.COMPLETED,
}


@dataclass(frozen=True, slots=True)
class Stored:
    """What an entry keeps beside its state. Times are seconds since the epoch."""

    route: str
    event_id: str
    received: float
    settled: float | None
    why: str | None
    method: str
    target: str
    peer: str
    scheme: str
    fingerprint: int
    headers_size: int
    body_size: int


@dataclass(frozen=True, slots=True)
class Known:
    """All that the store knows of one event. Times are on the database's clock."""

    key: bytes
    now: float
    claim: Claim | None
    route: str | None
    """Of the first delivery."""
    event_id: str | None
    """Its first 255 characters, where ids are kept."""
    settled: float | None
    """When the claim was, where that was over an hour after it was first seen."""
    has_reply: bool
    """A first reply is kept for duplicates."""
    entry: Entry | None
    stored: Stored | None
    entry_key: bytes | None
    """Of a batch's entry another one than the event's."""
    item_id: str | None
    """Its whole id, where it came with a batch."""
    items: int
    """How many events the entry stands for; zero unless it is a batch's."""
    completed: int
    """How many of those are completed."""

    @property
    def is_over(self) -> bool:
        """Whether all events of its entry are completed: it is never sent then."""
        if self.items:
            unkeyed = self.entry is not None and self.entry.unkeyed
            return self.completed == self.items and not unkeyed
        return self.claim is not None and self.claim.state is State.COMPLETED


class Item(NamedTuple):
    """One event that the entry of a batch stands for."""

    key: bytes
    event_id: str
    state: State | None
    """Of its claim, if it has one."""


def item(row: Mapping[str, Any]) -> Item:
    """A row of the statement `items`."""
    state = None if row["state"] is None else CLAIMS[row["state"].lower()]
    return Item(row["key"].bytes, as_it_was(row["event_id"]), state)


def known(row: Mapping[str, Any]) -> Known:
    """A row of the statement of that name."""
    claim = _claim(row)
    is_held = claim is not None and claim.state is State.CLAIMED
    return Known(
        key=row["key"].bytes,
        now=row["now"],
        claim=claim,
        route=row["route"],
        event_id=row["event_id"],
        settled=None if is_held else row["until"],
        has_reply=row["has_reply"],
        entry=_entry(row),
        stored=_stored(row),
        entry_key=None if row["entry_key"] is None else row["entry_key"].bytes,
        item_id=None if row["item_id"] is None else as_it_was(row["item_id"]),
        items=row["items"],
        completed=row["completed"],
    )


def _claim(row: Mapping[str, Any]) -> Claim | None:
    if row["state"] is None:
        return None
    state = CLAIMS[row["state"].lower()]
    return Claim(
        state=state,
        doubtful=row["state"].isupper(),
        attempt=row["attempt"] or 1,
        first_seen=float(row["first_seen"]),
        fingerprint=None if is_marked(row["state"], row["attempt"]) else row["fingerprint"][0],
        token=row["token"],
        lease_until=row["until"] if state is State.CLAIMED else None,
    )


def _entry(row: Mapping[str, Any]) -> Entry | None:
    if row["entry_state"] is None:
        return None
    return Entry(
        state=STATES[row["entry_state"]],
        doubtful=row["entry_doubtful"],
        attempt=row["entry_attempt"],
        since=row["since"],
        due=row["due"],
        token=row["entry_token"],
        unkeyed=row["unkeyed"],
    )


def _stored(row: Mapping[str, Any]) -> Stored | None:
    if row["entry_state"] is None:
        return None
    same = ("received", "settled", "why", "method", "target", "peer", "scheme")
    return Stored(
        route=row["entry_route"],
        event_id=as_it_was(row["entry_event_id"]),
        fingerprint=row["entry_fingerprint"][0],
        headers_size=row["headers_size"],
        body_size=row["body_size"],
        **{name: row[name] for name in same},
    )
