"""Notes: what a route counts and logs of its deliveries.

Facts and fields; never a body, a secret or a query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import assert_never

from gateway.core import handshake, retention
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
from gateway.core.claim import Held, Seen, Won
from gateway.core.document import Parse
from gateway.core.event import Delivery, EventKey
from gateway.core.handshake import Handshake
from gateway.core.inbox import Conclusion, EntryEnding, Leased
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.flow import events
from gateway.flow.events import Event
from gateway.flow.needs import Counts, Dice

log = logging.getLogger("gateway.deliveries")

# Ids have no length limit; a log line does.
ID_IN_LOGS = 255
Found = Event | Missing | Conflicting | Greeted | None
"""What a delivery was read as."""

# Why an event is held, in logs and beside its entry.
OLDER, IN_DOUBT = "older than the retention", "in doubt"


class Notes:
    """Counts and log lines of one route."""

    def __init__(self, route: Route, counts: Counts, parse: Parse, *, each_delivery: bool) -> None:
        self._route = route
        self._counts = counts
        self._parse = parse
        self._each = each_delivery

    def read(self, delivery: Delivery, dice: Dice) -> Found:
        """The delivery with its key; Greeted for a handshake that is answered for the consumer.

        None when it is no event for anybody else to answer: a handshake, or by its method (D11).
        """
        reading = Reading(delivery, self._parse)
        known = handshake.find(self._route.handshakes, reading)
        if known is not None:
            return self._greeting(known, reading)
        if delivery.method not in self._route.methods or self._route.pass_through is not None:
            return None
        found = events.read(reading, self._route, dice())
        if isinstance(found, Event) and found.batch is not None:
            for _ in range(found.batch.differing):
                self.mismatch(found)
        return found

    def _greeting(self, known: Handshake, reading: Reading) -> Greeted | None:
        route = self._route
        if known.greeting is None:
            return None
        secrets = () if route.signature is None else route.signature.secrets
        said = handshake.say(known.greeting, reading, secrets[0] if secrets else None)
        return None if said is None else Greeted(said)

    def stored(self, leased: Leased) -> Event:
        """An entry as the delivery that it was."""
        return events.stored(Reading(leased.delivery, self._parse), self._route, leased)

    def told(
        self,
        answer: Answer,
        found: Found,
        seconds: float,
        shape: Shape | None = None,
        taken: Event | None = None,
        flaw: str | None = None,
    ) -> None:
        """A delivery counts once, as what it was finally told; and it is a line, if wanted.

        `shape`: of a duplicate. `taken`: of a batch, what was new in it. `flaw`: of a signature.
        """
        told = _word(answer)
        if isinstance(told, Reason):
            self._counts.rejection(self._route.name, told)
        else:
            self._counts.delivery(self._route.name, told)
            for verdict, number in _items(told, found, taken):
                self._counts.items(self._route.name, verdict, number)
        if self._each:
            facts: dict[str, object] = {"told": told.value, "seconds": round(seconds, 4)}
            if isinstance(answer, Answered):
                facts["status"] = answer.reply.status
            if shape is not None:
                facts["shape"] = shape.value
            if flaw is not None:
                facts["flaw"] = flaw
            log.info("delivery", extra=self._fields(_key(found), facts))

    def won(self, event: Event, won: Won) -> None:
        """A take-over is worth a line: somebody died or was paused."""
        if won.took_over:
            self.lapsed(event, won.attempt)

    def is_stale(self, event: Event, attempt: int, now: float) -> bool:
        """Whether a new event is older than our memory, and so cannot be proved new (D12).

        `now`: the database's clock.
        """
        old = [time for time in event.times if self._is_old(time, now)]
        if attempt > 1:  # a refusal proved nothing about what was done before our memory began
            return bool(old)
        for _ in old:
            self._counts.stale(self._route.name)
        if old and self._each:  # a redrive of old events would be a line per delivery
            self._warn("stale_event", event.key, event_time=str(old[0])[:ID_IN_LOGS])
        return bool(old)

    def looks_stale(self, event: Event, now: float) -> bool:
        """The same, without counting it. Of a batch, whether any of its items is."""
        return any(self._is_old(time, now) for time in event.times)

    def _is_old(self, time: str | None, now: float) -> bool:
        moment = None if time is None else retention.parse_event_time(time)
        return moment is not None and retention.is_stale(moment, self._route.retention, now)

    def accepted(self, event: Event, attempt: int = 1, *, doubtful: bool = False) -> None:
        """The consumer took it; after doubt that may have been the second time.

        A batch counts as so many events, and as one possible double.
        """
        for kind in event.types:
            self._counts.event(self._route.name, kind)
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

    def known(self, event: Event, age: float) -> Shape:
        """The consumer's probe knows an event that was never recorded. `age`: seconds."""
        return self._repeated(event, retention.shape_of(age, self._route.promise), age)

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

    def duplicate(self, event: Event, seen: Seen, *, met_live: bool) -> Shape:
        """A duplicate of something durable. `met_live`: it met the first one still undecided."""
        age = max(seen.now - seen.first_seen, 0.0)
        if not seen.same_event:
            return self._repeated(event, Shape.OPERATION, age)
        if retention.is_beyond(age, self._route.promise):
            self._counts.promise_exceeded(self._route.name)
        shape = Shape.CONCURRENT if met_live else retention.shape_of(age, self._route.promise)
        return self._repeated(event, shape, age)

    def concurrent(self, event: Event, *, same_event: bool) -> Shape:
        """A duplicate that met a live claim. `same_event`: else it has only the operation."""
        return self._repeated(event, Shape.CONCURRENT if same_event else Shape.OPERATION, 0.0)

    def _repeated(self, event: Event, shape: Shape, age: float) -> Shape:
        self._counts.duplicate(self._route.name, event.event_type, shape, age)
        return shape

    def differs(self, event: Event, met: Seen | Held) -> bool:
        """Whether the same id came with another body. Counts it.

        Two events of one operation have different bodies as a matter of course.
        """
        if met.same_body or not met.same_event:
            return False
        self.mismatch(event)
        return True

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


def _key(found: Found) -> EventKey | None:
    return found.key if isinstance(found, Event) else None


def _items(told: Verdict, found: Found, taken: Event | None) -> Iterator[tuple[Verdict, int]]:
    """What the items of a batch turned out to be."""
    if isinstance(found, Missing) and found.items:
        yield Verdict.UNKEYED, found.items
    if not isinstance(found, Event) or found.batch is None:
        return
    unkeyed = found.batch.unkeyed
    keyed = len(found.batch.items) - unkeyed
    new = len(taken.items) if told is Verdict.FIRST and taken is not None else 0
    if new:
        yield Verdict.FIRST, new
    if keyed > new:
        is_mixed = told in (Verdict.FIRST, Verdict.UNKEYED)
        yield Verdict.DUPLICATE if is_mixed else told, keyed - new
    if unkeyed:
        yield Verdict.UNKEYED, unkeyed
