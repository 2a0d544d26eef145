"""Notes: what a route counts and logs of its deliveries.

Facts and fields; never a body, a secret or a query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, assert_never

from gateway.core import retention
from gateway.core.answer import (
    Acknowledged,
    Answer,
    Answered,
    Busy,
    Duplicate,
    Greeted,
    Reason,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.claim import Ending, Seen, Settlement, Won
from gateway.core.document import Parse
from gateway.core.event import Delivery, EventKey
from gateway.core.fingerprint import fingerprint
from gateway.core.inbox import Conclusion, EntryEnding, EntryState, Leased, Offer
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.flow.needs import Counts, Dice

log = logging.getLogger("gateway.deliveries")

# Ids have no length limit; a log line does.
ID_IN_LOGS = 255
# Why an event is held, in logs and beside its entry.
OLDER, IN_DOUBT = "older than the retention", "in doubt"


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

    def offer(self, route: Route, state: EntryState, *, doubtful: bool = False) -> Offer:
        """How this delivery is stored. `doubtful`: older than our memory."""
        return Offer(
            self.key, route.name, self.token, self.fingerprint, self.delivery,
            state, route.lease, doubtful,
        )  # fmt: skip


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
        print_ = fingerprint(delivery.body, self._route.per_attempt)
        return self._event(reading, key, print_, dice())

    def _event(self, reading: Reading, key: EventKey, fingerprint: int, token: int) -> Event:
        kind, time = self._route.event_type, self._route.event_time
        return Event(
            reading.delivery,
            key,
            None if kind is None else reading.text(kind),
            None if time is None else reading.text(time),
            fingerprint,
            token,
        )

    def stored(self, leased: Leased) -> Event:
        """An entry as the delivery that it was. Its key stays that of its claim."""
        reading = Reading(leased.delivery, self._parse)
        return self._event(reading, leased.key, leased.fingerprint, leased.token)

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
            log.info("delivery", extra=self._fields(None if event is None else event.key, facts))

    def won(self, event: Event, won: Won) -> None:
        """A take-over is worth a line: somebody died or was paused."""
        if won.took_over:
            self.lapsed(event, won.attempt)

    def is_stale(self, event: Event, attempt: int, now: float) -> bool:
        """Whether a new event is older than our memory, and so cannot be proved new (D12).

        `now`: the database's clock.
        """
        if not self.looks_stale(event, now):
            return False
        if attempt > 1:  # a refusal proved nothing about what was done before our memory began
            return True
        self._counts.stale(self._route.name)
        if self._each:  # a redrive of old events would be a line per delivery
            self._warn("stale_event", event.key, event_time=str(event.event_time)[:ID_IN_LOGS])
        return True

    def looks_stale(self, event: Event, now: float) -> bool:
        """The same, without counting it."""
        text = event.event_time
        moment = None if text is None else retention.parse_event_time(text)
        return moment is not None and retention.is_stale(moment, self._route.retention, now)

    def accepted(self, event: Event, attempt: int = 1, *, doubtful: bool = False) -> None:
        """The consumer took it; after doubt that may have been the second time."""
        self._counts.event(self._route.name, event.event_type)
        if doubtful:
            self._counts.possible_double(self._route.name)
            self._warn("possible_double", event.key, attempt=attempt)

    def lapsed(self, event: Event, attempt: int) -> None:
        """An entry was leased from a worker that never concluded."""
        self._counts.takeover(self._route.name)
        self._warn("lease_lapsed", event.key, attempt=attempt)

    def revived(self, event: Event) -> None:
        """A delivery met a dead entry, which is pending again."""
        self._warn("entry_revived", event.key)

    def held(self, event: Event, *, stale: bool) -> None:
        """A delivery was stored for a person to look at."""
        self._counts.concluded(self._route.name, EntryEnding.HOLD)
        self._warn("entry_held", event.key, why=OLDER if stale else IN_DOUBT)

    def known(self, event: Event, age: float) -> None:
        """The consumer's probe knows an event that was never recorded. `age`: seconds."""
        shape = retention.shape_of(age, self._route.promise)
        self._counts.duplicate(self._route.name, event.event_type, shape, age)

    def concluded(self, conclusion: Conclusion) -> None:
        """An attempt of an entry ended; what waits for a person from now on is worth a line."""
        self._counts.concluded(self._route.name, conclusion.ending)
        match conclusion.ending:
            case EntryEnding.BURY:
                self._warn("entry_dead", conclusion.key, why=conclusion.why)
            case EntryEnding.HOLD:
                self._warn("entry_held", conclusion.key, why=conclusion.why)
            case EntryEnding.DELIVER | EntryEnding.RETRY | EntryEnding.HAND_BACK:
                pass
            case _:
                assert_never(conclusion.ending)

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
            self._warn("payload_mismatch", event.key)

    def reply_lost(self, event: Event, why: str) -> None:
        """A reply that the route wants replayed could not be kept or read."""
        self._warn("reply_not_replayable", event.key, why=why)

    def _warn(self, name: str, key: EventKey, **facts: object) -> None:
        log.warning(name, extra=self._fields(key, facts))

    def _fields(self, key: EventKey | None, facts: Mapping[str, object]) -> dict[str, object]:
        event_id = None if key is None else key.event_id[:ID_IN_LOGS]
        return {"route": self._route.name, "event_id": event_id, **facts}


def _word(answer: Answer) -> Verdict | Reason:
    match answer:
        case Answered(_, verdict) | Unanswered(verdict):
            return verdict
        case Duplicate():
            return Verdict.DUPLICATE
        case Acknowledged():
            return Verdict.FIRST
        case Greeted():
            return Verdict.PASSED
        case Busy():
            return Verdict.BUSY
        case Rejected(reason):
            return reason
        case _:
            assert_never(answer)
