"""Observing: what is noted of the deliveries of a route in `observe`, to judge its key by.

Each delivery is noted once, as what `forward` would have made of it, and then by what gives a wrong
key away: one id with two bodies, one body under two ids, an event that the consumer took twice.

Notes are numbers. They belong to the recipe that they were made under: once the key is
mended, the old one's mistakes are no longer held against it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.core.claim import Seen
from gateway.core.fingerprint import lasting
from gateway.core.keying import digest
from gateway.core.retention import Promise, Shape, shape_of
from gateway.core.route import Route
from gateway.core.spans import Pointer

# A shorter body does not say enough to know an event by: `{}`, `ping=1`.
SHORTEST_BODY = 16
# Shorter ids are found in prices and dates as well.
SHORTEST_ID = 4
# Reading one takes half a millisecond, for which everybody waits; events are some KiB.
LONGEST_BODY = 2**20

# Details of notes, as they are stored.
UNCHECKED = "unchecked"
"""Of `unsigned`: nobody could tell, for lack of the keys."""
MARKED = "marked"
"""Of `again`: an earlier attempt may have had its effect."""
ONCE_MORE = "once_more"
"""Of `body`: it came before, under the same id or another."""
OTHER_TYPE = "other_type"
"""Of `mismatch`: its type is another, too, so it is another event."""


class What(StrEnum):
    """What a note counts. Those up to `bypassed` add up to the deliveries."""

    __hash__ = str.__hash__  # Enum's own is Python, and these are keys of every note

    NEW = "new"
    """Would be forwarded: nobody has seen it before."""
    AGAIN = "again"
    """Would be forwarded again: its earlier attempts did not succeed."""
    DURABLE = "durable"
    """Would be answered by the gateway; by shape."""
    CONCURRENT = "concurrent"
    """Would wait for the result of another delivery of the same event."""
    UNKEYED = "unkeyed"
    """Has no usable id; by location."""
    CONFLICTING = "conflicting"
    """Its id has two values, or is read in two ways; by location."""
    UNSIGNED = "unsigned"
    """Its signature would be refused; by flaw."""
    PASSED = "passed"
    """Is no event."""
    BATCH = "batch"
    """Carries several events; by what they are together."""
    BYPASSED = "bypassed"
    """Came while the store was away."""

    MISMATCH = "mismatch"
    """One id came with another body."""
    BODY = "body"
    """A body by which an event can be known; whether it came before."""
    SAME_BODY = "same_body"
    """Such a body came once more, or more often, under another id."""
    SAME_BUT_ID = "same_but_id"
    """The same, but for the id that is in it."""
    TAKEN_AGAIN = "taken_again"
    """The consumer answered success to an event that it had taken before."""
    ITEM = "item"
    """An event that came in a batch; by what it would have been."""


DELIVERIES = tuple(What)[: tuple(What).index(What.BYPASSED) + 1]


class Count(NamedTuple):
    """What is counted on its own."""

    route: str
    recipe: bytes
    """As `print_of` has it."""
    what: What
    detail: str
    """By what it is told apart; empty for nothing. From configuration and code, so bounded."""


class Noted(NamedTuple):
    """What one process has noted so far, within one series of notes."""

    counted: Count
    number: int
    greatest: float
    """Seconds: of duplicates the greatest age, else 0."""
    example: str | None
    """The latest id."""


class Sum(NamedTuple):
    """What all processes have noted."""

    what: What
    detail: str
    number: int
    greatest: float
    example: str | None


@dataclass(frozen=True, slots=True)
class Observed:
    """What was noted of a route under its present key. Times are on the database's clock."""

    sums: tuple[Sum, ...]
    since: float
    """Of the first note; 0 without any."""
    until: float
    """Of the latest."""
    other_keys: int
    """Deliveries that were noted under another key, and are not among these."""

    def number(self, *whats: What) -> int:
        """How many of these kinds, however they are told apart."""
        return sum(one.number for one in self.sums if one.what in whats)

    def by_detail(self, what: What) -> dict[str, int]:
        """How many of a kind, told apart; the most frequent first."""
        found = {one.detail: one.number for one in self.sums if one.what is what}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def example(self, what: What) -> str | None:
        """An id; None where none is kept."""
        examples = (one.example for one in self.sums if one.what is what)
        return next((example for example in examples if example is not None), None)

    @property
    def deliveries(self) -> int:
        """All that came."""
        return self.number(*DELIVERIES)

    @property
    def oldest(self) -> Sum | None:
        """The duplicates of the shape that has the oldest one; None without duplicates."""
        durable = [one for one in self.sums if one.what is What.DURABLE]
        return max(durable, key=lambda one: one.greatest, default=None)


class Trace(NamedTuple):
    """By what a body is known again under another id."""

    body: int
    """Of what has to be the same; of use within one process only."""
    holds_id: bool
    """Whether what is new with the id was in it."""


def print_of(route: Route) -> bytes:
    """16 bytes that change when what is noted of a key means something else."""
    left_out = ("/".join(pointer) for pointer in route.per_attempt)
    return digest((route.print.hex(),), left_out)


def shape(seen: Seen, promise: Promise | None) -> tuple[Shape, float]:
    """Which shape a duplicate had, and its age in seconds."""
    age = max(seen.now - seen.first_seen, 0.0)
    return (shape_of(age, promise) if seen.same_event else Shape.OPERATION), age


def traces(body: bytes, event_id: str, per_attempt: Collection[Pointer]) -> tuple[Trace, ...]:
    """What to know a body by, whatever its id is; nothing where it says too little, or too much.

    Of a composite one part may be another, and not several: two events of one customer differ in
    their number and their time, and the rest of their bodies may well be the same.
    """
    if len(body) > LONGEST_BODY:
        return ()
    rest = lasting(body, per_attempt)
    parts = event_id.encode("utf-8", "surrogatepass").split(b",")
    inside = [n for n, part in enumerate(parts) if len(part) >= SHORTEST_ID and part in rest]
    found = [(Trace(hash(rest), False), rest)] if len(inside) < len(parts) else []
    for n in inside:
        without = rest.replace(parts[n], b"")
        others = (*parts[:n], b"", *parts[n + 1 :])
        found.append((Trace(hash((others, without)), True), without))
    return tuple(trace for trace, left in found if len(left) >= SHORTEST_BODY)
