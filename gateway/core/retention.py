"""Retention: how long claims are kept so that duplicates are recognised; how old a duplicate is.

An old event can come back by three paths that can follow one another, so they add up to the
*floor*: the provider's own retries (retry horizon), a person's redrive (redrive window), and our
own tools (own replay).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from gateway.core.durations import format_duration

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


class Told(NamedTuple):
    """What a process says of one of its routes."""

    route: str
    retention: int
    """Seconds."""
    place: str | None
    """Its hosts and path; None where what is on record stays."""
    source: str
    """What the retention was derived from."""


class Changed(NamedTuple):
    """A route whose retention is another than it was on record. Seconds."""

    route: str
    was: int | None
    now: int


class Shortened(NamedTuple):
    """A change that made claims go earlier."""

    route: str
    was: int
    now: int
    at: float
    """Epoch seconds."""
    who: str
    source: str


class OnRecord(NamedTuple):
    """A route as the store knows it, from whatever process."""

    name: str
    recipe: bytes
    """The print of the recipe of its keys."""
    place: str | None


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


def derivation(promise: Promise | None, own_replay: timedelta) -> str:
    """The floor's sum and whose word it is, in a line for the record."""
    if promise is None:
        return "no promise is on file"
    parts = (promise.retry_horizon, promise.redrive_window, own_replay)
    horizon, window, ours = map(format_duration, parts)
    source = promise.source or "the configuration"
    day = "" if promise.checked is None else f", looked at {promise.checked}"
    return (
        f"a floor of retry horizon {horizon} + redrive window {window} + own replay {ours},"
        f" from {source}{day}"
    )


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


def is_beyond(age: float, promise: Promise | None) -> bool:
    """A duplicate that comes later than any path of the provider's was promised to bring it.

    `age` in seconds. Our own replay brings no duplicates to us.
    """
    if promise is None:
        return False
    return age > (promise.retry_horizon + promise.redrive_window).total_seconds()


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


class NewMemory(NamedTuple):
    """A route that recognises nothing of what its name or its place remembers."""

    route: str
    was: str
    """The name under which that is on record; the route's own where its recipe is another."""


def new_memories(
    routes: Iterable[tuple[str, bytes, str]], on_record: Iterable[OnRecord]
) -> list[NewMemory]:
    """Which routes make their keys in another way than was done under their name or at their place.

    What comes to a place is what came there before, whatever the route is called. Whether there are
    claims that could be missed is another question. `routes`: the name, the print of the recipe and
    the place of each one configured.
    """
    known = list(on_record)
    return [
        NewMemory(name, old.name)
        for name, recipe, place in routes
        for old in known
        if old.recipe != recipe and (old.name == name or old.place == place)
    ]
