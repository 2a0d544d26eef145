"""Retention: how long claims are kept so that duplicates are recognised; how old a duplicate is.

An old event can come back by three paths that can follow one another, so they add up to the
*floor*: the provider's own retries (retry horizon), a person's redrive (redrive window), and our
own tools (own replay).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

# A quarter above the floor: promises are rounded figures, and providers stretch them on bad days.
MARGIN = 1.25
# Without any promise on file: 30 days, the longest redrive window common among providers, doubled.
DEFAULT_WITHOUT_PROMISE = timedelta(days=60)
# What an unnamed part of a promise counts as.
UNKNOWN_PART = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Promise:
    """What the provider says about how late an event may return."""

    timeout: timedelta | None
    """How long the provider waits for an answer; None where it does not say."""
    retry_horizon: timedelta
    redrive_window: timedelta
    source: str
    checked: date | None


class Shape(StrEnum):
    """Which of the shapes a duplicate had."""

    CONCURRENT = "concurrent"
    OPERATION = "operation"
    """Another event of the same operation."""
    RETRY = "retry"
    REDRIVE = "redrive"


def floor(promise: Promise | None, own_replay: timedelta) -> timedelta | None:
    """The least retention that keeps the promise, or None where there is no promise to keep."""
    if promise is None:
        return None
    return promise.retry_horizon + promise.redrive_window + own_replay


def default_retention(promise: Promise | None, own_replay: timedelta) -> timedelta:
    """The floor and a quarter; 60 days without a promise."""
    needed = floor(promise, own_replay)
    return DEFAULT_WITHOUT_PROMISE if needed is None else needed * MARGIN


def shortfall(retention: timedelta, needed: timedelta | None) -> timedelta:
    """Floor minus retention when that is positive, else zero."""
    if needed is None or retention >= needed:
        return timedelta(0)
    return needed - retention


def shape_of(age: float, promise: Promise | None) -> Shape:
    """A duplicate of a settled event: a retry within the promised horizon, a redrive after it.

    `age` in seconds.
    """
    horizon = UNKNOWN_PART if promise is None else promise.retry_horizon
    return Shape.RETRY if age <= horizon.total_seconds() else Shape.REDRIVE


def is_stale(event_time: float, retention: timedelta, now: float) -> bool:
    """Older than our memory: without a claim such an event cannot be proved new. Epoch seconds."""
    return now - event_time > retention.total_seconds()


def parse_event_time(text: str) -> float | None:
    """Epoch seconds of RFC 3339 with an offset, or of an epoch in seconds or milliseconds.

    Naive times are not used: an hour's error either way would make new events stale.
    """
    if _is_number(text):
        value = float(text)
        # Seconds until the year 5138; beyond that, milliseconds (1973 and later).
        return value / 1000 if value >= 1e11 else value
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _is_number(text: str) -> bool:
    whole, _, fraction = text.partition(".")
    return (
        text.isascii()
        and whole.isdigit()
        and (not fraction or fraction.isdigit())
        and len(text) < 30
    )
