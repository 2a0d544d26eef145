"""Notes: what a route counts and logs of its deliveries.

Facts and fields; never a body, a secret or a query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, assert_never

from gateway.core import keying, retention
from gateway.core.answer import (
    Answer,
    Answered,
    Busy,
    Duplicate,
    Reason,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.claim import Ending, Seen, Settlement, Won
from gateway.core.document import Parse
from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.flow.needs import Counts, Dice

log = logging.getLogger("gateway.deliveries")

# Ids have no length limit; a log line does.
ID_IN_LOGS = 255


class Event(NamedTuple):
    """A delivery whose key is known.

    What was parsed to learn it is gone: of a body of 20 MiB that is five times as much again, and
    a forward may take a minute.
    """

    delivery: Delivery
    key: EventKey
    event_type: str | None
    event_time: str | None
    fingerprint: int
    token: int

    def ending(self, route: Route, ending: Ending) -> Settlement:
        """How this delivery, as the holder, ends its claim."""
        return Settlement(self.key, route.name, self.token, self.fingerprint, ending)


class Notes:
    """Counts and log lines of one route."""

    def __init__(self, route: Route, counts: Counts, parse: Parse, *, each_delivery: bool) -> None:
        self._route = route
        self._counts = counts
        self._parse = parse
        self._each = each_delivery

    def read(self, delivery: Delivery, dice: Dice) -> Event | Missing | Conflicting | None:
        """The delivery with its key; None when its method says that it is no event (D11)."""
        if delivery.method not in self._route.methods:
            return None
        reading = Reading(delivery, self._parse)
        key = reading.identify(self._route.recipe)
        if not isinstance(key, EventKey):
            return key
        kind, time = self._route.event_type, self._route.event_time
        return Event(
            delivery,
            key,
            None if kind is None else reading.text(kind),
            None if time is None else reading.text(time),
            keying.fingerprint(delivery.body),
            dice(),
        )

    def told(self, answer: Answer, event: Event | None, seconds: float) -> None:
        """A delivery counts once, as what it was finally told; and it is a line, if wanted."""
        told = _word(answer)
        if isinstance(told, Reason):
            self._counts.rejection(self._route.name, told)
        else:
            self._counts.delivery(self._route.name, told)
        if self._each:
            facts: dict[str, object] = {"told": told.value, "seconds": round(seconds, 4)}
            if isinstance(answer, Answered):
                facts["status"] = answer.reply.status
            log.info("delivery", extra=self._fields(event, facts))

    def won(self, event: Event, won: Won) -> None:
        """A take-over is worth a line: somebody died or was paused."""
        if won.took_over:
            self._counts.takeover(self._route.name)
            self._warn("lease_lapsed", event, attempt=won.attempt)

    def is_stale(self, event: Event, won: Won) -> bool:
        """Whether a new event is older than our memory, and so cannot be proved new (D12)."""
        text = event.event_time
        moment = None if text is None else retention.parse_event_time(text)
        if moment is None or not retention.is_stale(moment, self._route.retention, won.now):
            return False
        if won.attempt > 1:  # a refusal proved nothing about what was done before our memory began
            return True
        self._counts.stale(self._route.name)
        if self._each:  # a redrive of old events would be a line per delivery
            self._warn("stale_event", event, event_time=str(text)[:ID_IN_LOGS])
        return True

    def accepted(self, event: Event, won: Won | None) -> None:
        """The consumer took it; after doubt that may have been the second time."""
        self._counts.event(self._route.name, event.event_type)
        if won is not None and won.doubtful:
            self._counts.possible_double(self._route.name)
            self._warn("possible_double", event, attempt=won.attempt)

    def duplicate(self, event: Event, seen: Seen, *, met_live: bool) -> None:
        """A duplicate of something durable. `met_live`: it met the first one still undecided."""
        age = max(seen.now - seen.first_seen, 0.0)
        shape = Shape.CONCURRENT if met_live else retention.shape_of(age, self._route.promise)
        self._counts.duplicate(self._route.name, event.event_type, shape, age)

    def concurrent(self, event: Event) -> None:
        """A duplicate that was told the result of a flight of this process."""
        self._counts.duplicate(self._route.name, event.event_type, Shape.CONCURRENT, 0.0)

    def mismatch(self, event: Event) -> None:
        """The same id came with another body."""
        self._counts.mismatch(self._route.name)
        if self._each:  # some providers change the body with every attempt
            self._warn("payload_mismatch", event)

    def reply_lost(self, event: Event, why: str) -> None:
        """A reply that the route wants replayed could not be kept or read."""
        self._warn("reply_not_replayable", event, why=why)

    def _warn(self, name: str, event: Event, **facts: object) -> None:
        log.warning(name, extra=self._fields(event, facts))

    def _fields(self, event: Event | None, facts: Mapping[str, object]) -> dict[str, object]:
        event_id = None if event is None else event.key.event_id[:ID_IN_LOGS]
        return {"route": self._route.name, "event_id": event_id, **facts}


def _word(answer: Answer) -> Verdict | Reason:
    match answer:
        case Answered(_, verdict) | Unanswered(verdict):
            return verdict
        case Duplicate():
            return Verdict.DUPLICATE
        case Busy():
            return Verdict.BUSY
        case Rejected(reason):
            return reason
        case _:
            assert_never(answer)
