"""Notes: what a route counts and logs of its deliveries.

Facts and fields; never a body, a secret or a query.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gateway.core import retention
from gateway.core.answer import (
    Answer,
    Answered,
    Busy,
    Duplicate,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.claim import Ending, Held, Seen, Settlement, Won
from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Reading
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.flow.needs import Counts

log = logging.getLogger("gateway.deliveries")

# Ids have no length limit; a log line does.
ID_IN_LOGS = 255


@dataclass(frozen=True, slots=True)
class Event:
    """A delivery whose key is known."""

    delivery: Delivery
    key: EventKey
    reading: Reading
    fingerprint: int
    token: int

    def ending(self, route: Route, ending: Ending) -> Settlement:
        """How this delivery, as the holder, ends its claim."""
        return Settlement(self.key, route.name, self.token, self.fingerprint, ending)


class Notes:
    """Counts and log lines of one route."""

    def __init__(self, route: Route, counts: Counts, *, each_delivery: bool) -> None:
        self._route = route
        self._counts = counts
        self._each = each_delivery

    def told(self, answer: Answer) -> None:
        """A delivery counts once, as what it was finally told."""
        match answer:
            case Answered(_, verdict) | Unanswered(verdict):
                self._counts.delivery(self._route.name, verdict)
            case Duplicate():
                self._counts.delivery(self._route.name, Verdict.DUPLICATE)
            case Busy():
                self._counts.delivery(self._route.name, Verdict.BUSY)
            case Rejected(reason):
                self._counts.rejection(self._route.name, reason)

    def won(self, event: Event, won: Won) -> None:
        """A take-over is worth a line: somebody died or was paused."""
        if won.took_over:
            self._counts.takeover(self._route.name)
            self._warn("lease_lapsed", event, attempt=won.attempt)

    def is_stale(self, event: Event, won: Won) -> bool:
        """Whether a new event is older than our memory, and so cannot be proved new (D12)."""
        if self._route.event_time is None or won.attempt > 1:
            return False
        text = event.reading.text(self._route.event_time)
        moment = None if text is None else retention.parse_event_time(text)
        if moment is None or not retention.is_stale(moment, self._route.retention, won.now):
            return False
        self._counts.stale(self._route.name)
        self._warn("stale_event", event, event_time=str(text)[:ID_IN_LOGS])
        return True

    def accepted(self, event: Event, won: Won | None) -> None:
        """The consumer took it; after doubt that may have been the second time."""
        self._counts.event(self._route.name, self._type(event))
        if won is not None and won.doubtful:
            self._counts.possible_double(self._route.name)
            self._warn("possible_double", event, attempt=won.attempt)

    def duplicate(self, event: Event, seen: Seen, *, met_live: bool) -> None:
        """A duplicate of something durable. `met_live`: it met the first one still undecided."""
        age = max(seen.now - seen.first_seen, 0.0)
        shape = Shape.CONCURRENT if met_live else retention.shape_of(age, self._route.promise)
        self._counts.duplicate(self._route.name, self._type(event), shape, age)
        if not seen.same_body:
            self.mismatch(event)

    def held(self, event: Event, held: Held) -> None:
        """Somebody else is on it."""
        if not held.same_body:
            self.mismatch(event)

    def concurrent(self, event: Event) -> None:
        """A duplicate that was told the result of a flight of this process."""
        self._counts.duplicate(self._route.name, self._type(event), Shape.CONCURRENT, 0.0)

    def mismatch(self, event: Event) -> None:
        """The same id came with another body."""
        self._counts.mismatch(self._route.name)
        self._warn("payload_mismatch", event)

    def reply_lost(self, event: Event, why: str) -> None:
        """A reply that the route wants replayed could not be kept or read."""
        self._warn("reply_not_replayable", event, why=why)

    def delivery(self, event: Event, verdict: Verdict, outcome: str | None, attempt: int) -> None:
        """One line per delivery, where the operator asked for it."""
        if self._each:
            facts = {"verdict": verdict.value, "outcome": outcome, "attempt": attempt}
            log.info("delivery", extra=self._fields(event, **facts))

    def _type(self, event: Event) -> str | None:
        location = self._route.event_type
        return None if location is None else event.reading.text(location)

    def _warn(self, name: str, event: Event, **facts: object) -> None:
        log.warning(name, extra=self._fields(event, **facts))

    def _fields(self, event: Event, **facts: object) -> dict[str, object]:
        return {"route": self._route.name, "event_id": event.key.event_id[:ID_IN_LOGS], **facts}
