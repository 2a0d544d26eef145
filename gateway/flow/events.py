"""Events: deliveries read for what they are claimed by.

A batch is an event with several keys: those of its items. They are asked for, stored and settled
together, so that whatever lies between works as it does for one.
"""

from __future__ import annotations

from collections.abc import Container
from hashlib import sha256
from typing import NamedTuple

from gateway.core import batch
from gateway.core.batch import Batch, Item
from gateway.core.claim import Ask, Ending, Settlement
from gateway.core.event import Delivery, EventKey, Part
from gateway.core.fingerprint import fingerprint
from gateway.core.inbox import EntryState, Leased, Offer
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.route import Route
from gateway.core.spans import Span


class Event(NamedTuple):
    """A delivery whose key is known, or that of each of its items.

    What was parsed to learn it is gone: of a body of 20 MiB that is five times as much again, and
    a forward may take a minute.
    """

    delivery: Delivery
    key: EventKey
    """Of a batch, its own, which no claim has."""
    event_type: str | None
    event_time: str | None
    fingerprint: int
    token: int
    items: tuple[Item, ...] = ()
    """Of a batch: those that it is claimed by, each id once."""
    batch: Batch | None = None
    """As it came; None once it is known which of its items are new."""
    unkeyed: bool = False
    """Of a batch: events without an id are beside its items."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Of a batch: what it is claimed by."""
        if not self.items:
            return ()
        return tuple(item.part for item in self.items if item.part is not None)

    @property
    def types(self) -> tuple[str | None, ...]:
        """Those of the events that it carries."""
        if not self.items:
            return (self.event_type,)
        return tuple(item.event_type for item in self.items)

    @property
    def times(self) -> tuple[str | None, ...]:
        """The same of their own times."""
        if not self.items:
            return (self.event_time,)
        return tuple(item.event_time for item in self.items)

    def asks(self, route: Route) -> list[Ask]:
        """What it asks of the claims: one for itself, or one for each of its items."""
        return [
            Ask(part.key, route.name, self.token, route.lease, part.fingerprint)
            for part in self.parts or (Part(self.key, self.fingerprint),)
        ]

    def ending(self, route: Route, ending: Ending) -> Settlement:
        """How this delivery, as the holder, ends its claim."""
        return Settlement(self.key, route.name, self.token, self.fingerprint, ending, self.parts)

    def offer(self, route: Route, state: EntryState, *, doubtful: bool = False) -> Offer:
        """How this delivery is stored. `doubtful`: whatever its claim says."""
        return Offer(
            self.key, route.name, self.token, self.fingerprint, self.delivery,
            state, route.lease, doubtful, self.parts, self.unkeyed,
        )  # fmt: skip

    def of(self, wanted: Container[Item]) -> Event:
        """A batch with the claims of only some of its items, in the body that it has."""
        items = tuple(item for item in self.items if item in wanted)
        return _carrying(self.delivery, items, self.token, unkeyed=self.unkeyed)


def read(reading: Reading, route: Route, token: int) -> Event | Missing | Conflicting | None:
    """What a delivery is claimed by; None where it is a batch of nothing."""
    if route.batch is not None:
        carried = batch.read(reading, route.batch, route.recipe, route.per_attempt)
        if isinstance(carried, Batch):
            return _batch(reading.delivery, carried, token)
        if carried is not None:
            return carried
    key = reading.identify(route.recipe)
    if not isinstance(key, EventKey):
        return key
    print_ = fingerprint(reading.delivery.body, route.per_attempt)
    return _single(reading, route, key, print_, token)


def stored(reading: Reading, route: Route, leased: Leased) -> Event:
    """An entry as the delivery that it was. Its keys stay those of its claims."""
    if not leased.items:
        return _single(reading, route, leased.key, leased.fingerprint, leased.token)
    known: dict[bytes, Item] = {}
    if route.batch is not None:
        carried = batch.read(reading, route.batch, route.recipe, route.per_attempt)
        if isinstance(carried, Batch):
            known = carried.by_key()
    items = tuple(known.get(part.key.digest, _UNREAD)._replace(part=part) for part in leased.items)
    return Event(
        leased.delivery, leased.key, _common(items), None, leased.fingerprint, leased.token, items
    )


# Of an entry whose route has another recipe now.
_UNREAD = Item(None, None, None, Span(0, 0))


def _single(reading: Reading, route: Route, key: EventKey, print_: int, token: int) -> Event:
    kind, time = route.event_type, route.event_time
    return Event(
        reading.delivery,
        key,
        None if kind is None else reading.text(kind),
        None if time is None else reading.text(time),
        print_,
        token,
    )


def _batch(delivery: Delivery, carried: Batch, token: int) -> Event | Missing | None:
    if not carried.items:
        return None
    items = tuple(carried.by_key().values())
    if not items:
        return Missing("any item of the batch", len(carried.items))
    return _carrying(delivery, items, token, carried, unkeyed=carried.unkeyed > 0)


def _carrying(
    delivery: Delivery,
    items: tuple[Item, ...],
    token: int,
    carried: Batch | None = None,
    *,
    unkeyed: bool,
) -> Event:
    """A batch under a key made of its items'.

    Where others without an id are beside them, the key is that of the same bytes only: two batches
    that share what can be compared are not the same.
    """
    parts = tuple(item.part for item in items if item.part is not None)
    key = batch.key_of(parts, sha256(delivery.body).hexdigest() if unkeyed else "")
    return Event(
        delivery,
        key,
        _common(items),
        None,
        batch.fingerprint_of(parts),
        token,
        items,
        carried,
        unkeyed,
    )


def _common(items: tuple[Item, ...]) -> str | None:
    """The type of all of them, if they have one."""
    kinds = {item.event_type for item in items}
    return kinds.pop() if len(kinds) == 1 else None
