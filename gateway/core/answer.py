"""Answers: what a delivery is finally told, before it is put into words for HTTP.

Every delivery of a route ends in exactly one of these. Those with a verdict count as deliveries,
`Rejected` ones as rejections; together they add up to the requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.core.handshake import Said
from gateway.core.outcome import Reply
from gateway.core.route import DuplicateReply


class Verdict(StrEnum):
    """What a delivery turned out to be."""

    __hash__ = str.__hash__  # Enum's own is Python, and these are keys of every count

    FIRST = "first"
    DUPLICATE = "duplicate"
    BUSY = "busy"
    """Somebody else is on it, and nothing is durable yet."""
    UNKEYED = "unkeyed"
    """No usable id: passed through unprotected."""
    PASSED = "passed"
    """Not an event, by its method or as a provider's handshake, or in `observe` not signed by the
    provider: passed through unclaimed."""
    BYPASSED = "bypassed"
    """Forwarded without a claim while the store was away, as the route wants."""


class Reason(StrEnum):
    """Why a request was rejected: the values of the `reason` label."""

    __hash__ = str.__hash__  # as above

    NO_ROUTE = "no_route"
    MALFORMED = "malformed"
    """Not HTTP as we take it: the request line, a header line, framing."""
    TARGET = "target"
    """Not in origin form, or with a fragment."""
    TRANSFER_CODING = "transfer_coding"
    HEADERS_TOO_LARGE = "headers_too_large"
    BODY_TOO_LARGE = "body_too_large"
    BODY_INCOMPLETE = "body_incomplete"
    """The sender closed in the middle of its body."""
    BODY_TIMEOUT = "body_timeout"
    OVERLOADED = "overloaded"
    """No room in memory for one more body."""
    NOMINATION = "nomination"
    """`Connection` names a header that decides about the delivery."""
    CONFLICTING_ID = "conflicting_id"
    MISSING_ID = "missing_id"
    STORE_AWAY = "store_away"
    SIGNATURE = "signature"
    """Not signed by the provider, or too long ago."""
    KEYS_AWAY = "keys_away"
    """The keys that signatures are checked with cannot be had right now."""
    INBOX_FULL = "inbox_full"
    """More undelivered entries than the route's high-water mark."""
    INTERNAL = "internal"


class Answered(NamedTuple):
    """The consumer's own reply, unchanged."""

    reply: Reply
    verdict: Verdict
    visible: bool = True
    """False in `observe`, where we add no headers."""
    first_seen: float | None = None
    """As in `Duplicate`."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The consumer could not be reached, or its answer never came: 502, or 504 after a time-out."""

    verdict: Verdict
    timed_out: bool
    sent: bool
    """Whether the consumer may have received it."""
    visible: bool = True


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Already durable: success, without a forward."""

    how: DuplicateReply
    kept: Reply | None
    """What the first delivery got, where the route replays and it is still known."""
    first_seen: float | None = None
    """Epoch seconds on the database's clock; None where the sender is not known to be the
    provider, to whom alone this is told."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Stored durably by this delivery; we owe it to the consumer from now on."""

    how: DuplicateReply


@dataclass(frozen=True, slots=True)
class Greeted:
    """A provider's handshake, answered for the consumer."""

    said: Said


@dataclass(frozen=True, slots=True)
class Busy:
    """Undecided for longer than we may wait: 503 and come again."""

    retry_after: int
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not handled. Nothing was claimed and the consumer saw nothing."""

    reason: Reason
    status: int
    detail: str
    retry_after: int | None = None


Answer = Answered | Unanswered | Duplicate | Acknowledged | Greeted | Busy | Rejected
