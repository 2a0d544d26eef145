"""Time stamps: how providers write when they signed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from gateway.core.retention import parse_event_time


class Unit(Enum):
    """How a moment is written."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    RFC_3339 = "RFC 3339"

    def read(self, text: bytes) -> float | None:
        """Epoch seconds; None for what is not written so."""
        if self is Unit.RFC_3339:
            return parse_event_time(text.decode()) if _RFC_3339.fullmatch(text) else None
        if not _DIGITS.fullmatch(text):
            return None
        return int(text) / (1 if self is Unit.SECONDS else 1000)

    def write(self, moment: float) -> bytes:
        """The text of a moment in epoch seconds; rounded down."""
        match self:
            case Unit.SECONDS:
                return b"%d" % moment
            case Unit.MILLISECONDS:
                return b"%d" % (moment * 1000)
            case Unit.RFC_3339:
                return (
                    datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
                )


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where a time stamp is, and how it is written."""

    unit: Unit
    headers: tuple[str, ...] = ()
    """Spellings of its header, which agree where there are several; empty: beside the signature."""


# Nobody's clock needs more, and a longer one would overflow a float's exactness.
_DIGITS = re.compile(rb"[0-9]{1,15}")
_RFC_3339 = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
