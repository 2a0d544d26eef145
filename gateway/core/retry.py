"""Retrying what the inbox owes: when an entry is tried again, and when no more.

Retrying ends by time, not by number: `give_up` counts from the moment when the entry was stored,
revived or redriven. What is known to have sent nothing does not count as an attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NamedTuple, assert_never

from gateway.core.inbox import EntryEnding
from gateway.core.outcome import (
    OURS,
    STOPPING,
    Ambiguous,
    Delivered,
    Outcome,
    Refused,
    Reply,
    Unreached,
)

# Past any cap already; more would overflow.
MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a route retries what it owes. Seconds."""

    base: float
    """The pause after the first attempt; it doubles with each."""
    cap: float
    """The longest pause, and the longest that a consumer's Retry-After is honoured."""
    give_up: float
    """From storing to `dead`."""


def pause(attempt: int, policy: RetryPolicy, jitter: float) -> float:
    """Seconds until the next attempt after `attempt`; `jitter` in [0, 1) spreads a herd."""
    doublings = min(max(attempt - 1, 0), MOST_DOUBLINGS)
    return min(policy.base * 2.0**doublings, policy.cap) * (1 - 0.5 * jitter)


class Next(NamedTuple):
    """What becomes of an entry after an attempt."""

    ending: EntryEnding
    doubtful: bool
    """Whether the attempt may have had its effect."""
    pause: float
    """Seconds."""
    why: str


def after(outcome: Outcome, attempt: int, age: float, policy: RetryPolicy, jitter: float) -> Next:
    """What one attempt leads to. `age`: seconds since the entry was stored, revived or redriven.

    What sent nothing is handed back, and does not count. Everything else is tried again, paced by
    the attempts so far or by the consumer's Retry-After if that is longer, until it would be tried
    past `give_up`; an entry that has waited for so long without an attempt gets one all the same.
    """
    wait = pause(attempt, policy, jitter)
    match outcome:
        case Delivered(reply):
            return Next(EntryEnding.DELIVER, False, 0.0, f"delivered {reply.status}")
        case Unreached(reason) if reason in OURS:
            # Nobody tried, so nothing is known of the consumer: soon again, by another process if
            # this one stops, and never `dead` by that.
            soon = 0.0 if reason == STOPPING else pause(1, policy, jitter)
            return Next(EntryEnding.HAND_BACK, False, soon, f"unreached {reason}")
        case Unreached(reason):
            ending = EntryEnding.HAND_BACK
            doubtful, why = False, f"unreached {reason}"
        case Refused(reply, doubtful):
            ending, why = EntryEnding.RETRY, f"refused {reply.status}"
            wait = max(wait, min(retry_after(reply), policy.cap))
        case Ambiguous(reason):
            ending, doubtful, why = EntryEnding.RETRY, True, f"ambiguous {reason}"
        case _:
            assert_never(outcome)
    if age + wait > policy.give_up:
        return Next(EntryEnding.BURY, doubtful, 0.0, why)
    return Next(ending, doubtful, wait, why)


def after_a_death(
    attempt: int, age: float, lease: float, policy: RetryPolicy, jitter: float
) -> Next | None:
    """What to do with an entry whose last worker never concluded; None: send it now.

    An event may kill whoever forwards it. Its attempts are paced and end like all others; the lease
    that ran out was part of the pause.
    """
    why = "its worker never concluded"
    if age > policy.give_up:
        return Next(EntryEnding.BURY, True, 0.0, why)
    wait = pause(attempt - 1, policy, jitter) - lease
    return Next(EntryEnding.HAND_BACK, True, wait, why) if wait > 0 else None


def retry_after(reply: Reply) -> float:
    """Seconds that a reply asks us to wait, zero without a word.

    A date counts from the reply's own Date, so that no clock of ours is compared with theirs.
    """
    said = _header(reply, b"retry-after")
    if said is None:
        return 0.0
    if said.isdigit() and len(said) < 10:
        return float(said)
    date = _header(reply, b"date")
    try:
        until, now = (parsedate_to_datetime((text or b"").decode()) for text in (said, date))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _header(reply: Reply, wanted: bytes) -> bytes | None:
    return next((value.strip() for name, value in reply.headers if name.lower() == wanted), None)
