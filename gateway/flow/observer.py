"""An observer: notes what a route's deliveries in `observe` are, one by one.

Which body came under which id, and which type an event had, is remembered by the process alone, as
hashes, and not for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Protocol, assert_never

from gateway.core.claim import Arrival, Held, Seen, StoreAway, Won
from gateway.core.document import bytes_of, text_of
from gateway.core.event import EventKey
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.observing import (
    LONGEST_BODY,
    MARKED,
    ONCE_MORE,
    OTHER_TYPE,
    UNCHECKED,
    Count,
    Trace,
    What,
    print_of,
    shape,
    traces,
)
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.core.signature import Flaw
from gateway.flow.events import Event

# Deliveries that a route remembers: 3 MB of hashes. Providers retry first after seconds or minutes.
MOST_REMEMBERED = 10_000

# Events of one batch: enough of them to see by, and together some milliseconds.
MOST_COMPARED = 200


class Add(Protocol):
    """Counts."""

    def __call__(self, counted: Count, number: int, greatest: float, example: str | None) -> None:
        """So many more. `greatest`: seconds, 0 where nothing has an age."""
        ...


class Memory:
    """The latest bodies and events of a route, as hashes."""

    def __init__(self) -> None:
        self.bodies: OrderedDict[int, int | None] = OrderedDict()
        """By what it is known by: the id that a body came under, None once it had several."""
        self.firsts: OrderedDict[bytes, int | None] = OrderedDict()
        """By the key of an event that came first here, its type; None where it has none."""
        self.began = inf
        """When its first delivery came, on the database's clock."""

    def make_room(self) -> None:
        """Forget what is too much."""
        for kept in (self.bodies, self.firsts):
            while len(kept) > MOST_REMEMBERED:
                kept.popitem(last=False)


class Observer:
    """One route's. Each of its deliveries is told to one of the methods, once."""

    def __init__(self, route: Route, add: Add, memory: Memory) -> None:
        self._route = route
        self._add = add
        self._memory = memory
        self._recipe = print_of(route)

    def keyless(self, found: Missing | Conflicting | None) -> None:
        """A delivery without a key; None for one that is no event."""
        match found:
            case None:
                self._note(What.PASSED)
            case Missing(where):
                self._note(What.UNKEYED, where)
            case Conflicting(where, why):
                self._note(What.CONFLICTING, f"{where}: {why}")
            case _:
                assert_never(found)

    def bypassed(self) -> None:
        """A delivery that took no claim: the store was away, or too many items were in hand."""
        self._note(What.BYPASSED)

    def unsigned(self, flaw: Flaw | None) -> None:
        """A delivery whose signature is bad; None where nobody could check it."""
        self._note(What.UNSIGNED, UNCHECKED if flaw is None else flaw.value)

    def saw(self, event: Event, met: Sequence[Arrival] | StoreAway, *, accepted: bool) -> None:
        """A delivery with a key, or with several, and whether the consumer answered success."""
        if isinstance(met, StoreAway):
            self.bypassed()
            return
        self._memory.began = min(self._memory.began, met[0].now)
        if event.items:
            self._saw_batch(event, met, accepted=accepted)
        else:
            self._saw_one(event, met[0], accepted=accepted)

    def _saw_one(self, event: Event, arrival: Arrival, *, accepted: bool) -> None:
        key, kind = event.key, event.event_type
        match arrival:
            case Won(attempt=1):
                self._note(What.NEW)
                self._remember(key, kind, event.delivery.body)
            case Won():
                self._note(What.AGAIN, MARKED if arrival.doubtful else "")
            case Seen():
                which, age = shape(arrival, self._route.promise)
                self._note(What.DURABLE, which.value, age, key.event_id)
                self._repeated(key, kind, arrival, accepted=accepted)
            case Held():
                self._note(What.CONCURRENT, "" if arrival.same_event else Shape.OPERATION.value)
                self._repeated(key, kind, arrival, accepted=accepted)
            case _:
                assert_never(arrival)

    def _saw_batch(self, event: Event, met: Sequence[Arrival], *, accepted: bool) -> None:
        """Each of its events once, and all of it as one delivery."""
        kinds = {_kind(arrival) for arrival in met}
        for item, arrival, body in zip(event.items, met, _bodies(event), strict=True):
            assert item.part is not None, "it was asked for"
            self._note(What.ITEM, _kind(arrival).value)
            if isinstance(arrival, Seen | Held):
                self._repeated(item.part.key, item.event_type, arrival, accepted=accepted)
            elif arrival.attempt == 1:
                self._remember(item.part.key, item.event_type, body)
        unkeyed = 0 if event.batch is None else event.batch.unkeyed
        if unkeyed:
            self._add(self._count(What.ITEM, What.UNKEYED.value), unkeyed, 0.0, None)
        self._note(What.BATCH, _together(kinds, unkeyed))

    def _repeated(
        self, key: EventKey, kind: str | None, arrival: Seen | Held, *, accepted: bool
    ) -> None:
        if arrival.same_event and not arrival.same_body and self._is_comparable(key, arrival):
            first = self._memory.firsts.get(key.digest)
            is_other = None not in (first, kind) and first != hash(kind)
            self._note(What.MISMATCH, OTHER_TYPE if is_other else "", example=key.event_id)
        # One that met the first one undecided may be the only one that had its effect.
        if accepted and isinstance(arrival, Seen):
            self._note(What.TAKEN_AGAIN, example=key.event_id)

    def _is_comparable(self, key: EventKey, arrival: Seen | Held) -> bool:
        """Whether the first copy came since: an older one's body may be another for what
        `per_attempt` has left out of one of the two only."""
        since = arrival.first_seen if isinstance(arrival, Seen) else arrival.now - self._route.lease
        # The store keeps whole seconds, so what came in the first one has to be remembered.
        return key.digest in self._memory.firsts or since >= self._memory.began

    def _remember(self, key: EventKey, kind: str | None, body: bytes | None) -> None:
        """An id that nobody has seen. `body`: the event's own; None where it takes too long."""
        self._memory.firsts[key.digest] = None if kind is None else hash(kind)
        if body is not None:
            self._compare(key, traces(body, key.event_id, self._route.per_attempt))
        self._memory.make_room()

    def _compare(self, key: EventKey, known_by: tuple[Trace, ...]) -> None:
        """Did its body come before, under another id?"""
        # Under an operation key the id may well be right, and the operation's be new every time.
        name = hash(key.digest if self._route.recipe.operation else key.event_id)
        bodies = self._memory.bodies
        known = [one for one in known_by if one.body in bodies]
        others = [one for one in known if bodies[one.body] not in (name, None)]
        # Once for each body: that of a heartbeat comes under any number of ids.
        had_several = any(bodies[one.body] is None for one in known)
        if known_by:
            self._note(What.BODY, ONCE_MORE if known else "")
        if others and not had_several:
            what = What.SAME_BUT_ID if all(one.holds_id for one in others) else What.SAME_BODY
            self._note(what, example=key.event_id)
        for one in known_by:
            bodies[one.body] = None if others or had_several else name
            bodies.move_to_end(one.body)

    def _note(
        self, what: What, detail: str = "", greatest: float = 0.0, example: str | None = None
    ) -> None:
        self._add(self._count(what, detail), 1, greatest, example)

    def _count(self, what: What, detail: str) -> Count:
        return Count(self._route.name, self._recipe, what, detail)


def _bodies(event: Event) -> Iterator[bytes | None]:
    """Those of a batch's items; None where reading it anew takes too long."""
    body = event.delivery.body if len(event.delivery.body) <= LONGEST_BODY else b""
    body = Reading(event.delivery._replace(body=body)).json_body()
    text = text_of(body) if len(body) <= LONGEST_BODY else ""
    for number, item in enumerate(event.items):
        is_compared = text and number < MOST_COMPARED
        yield bytes_of(text[item.span.start : item.span.end]) if is_compared else None


def _kind(arrival: Arrival) -> What:
    match arrival:
        case Won(attempt=1):
            return What.NEW
        case Won():
            return What.AGAIN
        case Seen():
            return What.DURABLE
        case Held():
            return What.CONCURRENT
        case _:
            assert_never(arrival)


def _together(kinds: set[What], unkeyed: int) -> str:
    """What a batch of these is: `concurrent`, `durable`, `mixed` or `new`."""
    if What.CONCURRENT in kinds:
        return What.CONCURRENT.value
    if What.DURABLE not in kinds:
        return What.NEW.value
    return "mixed" if unkeyed or len(kinds) > 1 else What.DURABLE.value
