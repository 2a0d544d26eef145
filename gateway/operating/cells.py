"""Cells: what one value of somebody else's record is as an id or as a time of a delivery."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from gateway.core.keying import Conflicting, Missing
from gateway.core.location import Header, Location, Sha256, describe
from gateway.core.retention import parse_event_time

_DIGEST = re.compile("[0-9a-f]{64}")
# What D4 takes for no id wherever it stands.
_NEVER_AN_ID = (type(None), bool, float, Decimal, list, dict)
# 20261101, 202611010930, 20261101093000: as a count of seconds or milliseconds, times in 1970, 1976
# and 2612.
_COMPACT_DATE = re.compile(
    r"(19|20|21)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])([0-2]\d[0-5]\d([0-5]\d)?)?(\.0*)?"
)
# Epoch seconds of the year 10000, which no calendar here has.
_NO_YEAR = 253_402_300_800.0


def as_id(value: object, location: Location, *, exact: bool) -> str | Missing | Conflicting:
    """As an id, by the rules for ids of deliveries (D4, D8).

    `exact`: all white space in it is meant.
    """
    if isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value)
    elif isinstance(value, Decimal) and value == value.to_integral_value():
        value = f"{value:f}" if value.as_tuple().exponent == 0 else value
    if isinstance(value, str):
        return _text_as_id(value, location, exact=exact)
    if isinstance(value, _NEVER_AN_ID):
        return Missing(describe(location))
    return Conflicting(describe(location), f"is a {type(value).__name__}; select it as text")


def _text_as_id(text: str, location: Location, *, exact: bool) -> str | Missing | Conflicting:
    where = describe(location)
    if isinstance(location, Header):
        text = text.strip(" \t")  # as whatever reads HTTP does
    if not text.strip():
        return Missing(where)
    if isinstance(location, Header) and re.search("[\0\r\n]", text):
        return Conflicting(where, "holds a line break, as no header does")
    if not exact and text != text.strip():
        why = "begins or ends with a blank: leave that out, or write NDJSON, which is read as it is"
        return Conflicting(where, why)
    if not exact and len(text.splitlines()) > 1:
        why = "holds a line break: close its quotes, or write NDJSON, which is read as it is"
        return Conflicting(where, why)
    if isinstance(location, Sha256) and not _DIGEST.fullmatch(text):
        inner = describe(location.inner)
        why = f"is no digest of 64 hex digits; or write {inner} for what it is made of"
        return Conflicting(where, why)
    return text


def is_blank(value: object) -> bool:
    """Whether there is nothing."""
    return value is None or not str(value).strip()


def as_moment(value: object) -> float | None:
    """As a time, in epoch seconds; None for one that is not certain, or of no year that there is.

    A compact date is a number as well, and would be one of 1970.
    """
    if isinstance(value, datetime):
        moment = value.timestamp() if value.tzinfo else None
    else:
        text = str(value).strip()
        moment = None if _COMPACT_DATE.fullmatch(text) else parse_event_time(text)
    return moment if moment is not None and 0 <= moment < _NO_YEAR else None
