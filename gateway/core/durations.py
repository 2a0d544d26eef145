"""`45d` and timedelta, `25MiB` and int: how people write spans of time and amounts of data."""

from __future__ import annotations

import re
from datetime import timedelta

# In milliseconds, so that whole numbers of every unit stay whole.
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
# A thousand years: whatever is added to it, or taken from now, is a time that a calendar has.
_LONGEST = timedelta(days=365_000)
_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]{1,15})(B|KiB|MiB|GiB)")


def parse_duration(text: str) -> timedelta:
    """`8s`, `250ms`, `1h30m`, `45d`, and `0`, which is the same in every unit.

    Raises ValueError that says what to write instead.
    """
    if text == "0":
        return timedelta(0)
    if not _DURATION.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a duration; write a number with a unit, as in 8s, 5m, 72h, 45d"
        )
    try:
        parts = [timedelta(milliseconds=float(n) * _UNITS[u]) for n, u in _PART.findall(text)]
        whole = sum(parts, timedelta(0))
    except OverflowError:
        whole = timedelta.max
    if whole > _LONGEST:
        raise ValueError(f"{text!r} is too long; write at most {_LONGEST.days}d")
    return whole


def format_duration(span: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as the same span (to the millisecond)."""
    left = round(span.total_seconds() * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_size(text: str) -> int:
    """`64KiB`, `25MiB`: bytes. Raises ValueError that says what to write instead."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a size; write a whole number with a unit, as in 512B, 64KiB, 25MiB"
        )
    return int(match[1]) * _SIZES[match[2]]


def format_size(count: int) -> str:
    """The largest unit in which `count` bytes is a whole number."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _SIZES[unit] == 0:
            return f"{count // _SIZES[unit]}{unit}"
    return f"{count}B"
