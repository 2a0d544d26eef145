"""Batches: several events in one body, each claimed under its own key.

The items are the elements of one or more lists. An item's id is read as a delivery's is, with the
item as the body: a JSON pointer starts at the item, headers and query are those of the request. The
scope is the request's. An item without a usable id is nobody's repeat, so it counts as new; of
items with one id there is one. So does what a pointer walks and finds no list in: what a provider
sends beside the items that were seen must not be lost with them. Where the request alone is what
names all of the items, it names one event, whose data happens to be a list.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.core import spans
from gateway.core.claim import Seen, Won
from gateway.core.document import bytes_of, is_plain
from gateway.core.event import Delivery, EventKey, Part
from gateway.core.fingerprint import fingerprint
from gateway.core.keying import Conflicting, Missing, Reading, Recipe, digest
from gateway.core.location import Location
from gateway.core.spans import Pointer, Series, Span, Steps

# Providers send 5,000 at most. Each is a row of one statement, and a forger's body could have a
# million.
MOST_ITEMS = 10_000
# Values that are stepped over to find the items, and again for what their fingerprints leave out:
# these take a quarter of a second.
MOST_STEPS = 100_000
# Of a list of plain texts or numbers, an item to so many commas: such items have hardly anything to
# read. Of objects there is a brace to each, and more commas than this in the usual ones.
COMMAS = 8
# They describe the body as it was, byte by byte, in which items were.
_OF_THE_WHOLE = frozenset(
    {b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest"}
)


class OnMixed(StrEnum):
    """What becomes of a batch of which some items are new and some were seen (D5)."""

    FILTER = "filter"
    """Forward the new items only."""
    WHOLE = "whole"
    """Forward it as it came, marked."""


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Where a route's bodies have their items, and where an item has its id."""

    items: tuple[Pointer, ...]
    """Of the lists; `*` walks outer ones."""
    parts: tuple[Location, ...]
    event_type: Location | None
    event_time: Location | None
    on_mixed: OnMixed


class Item(NamedTuple):
    """One item. What was parsed to learn it is gone."""

    part: Part | None
    """None without a usable id."""
    event_type: str | None
    event_time: str | None
    span: Span


class Batch(NamedTuple):
    """A body's items in their order, and the lists that they are in."""

    items: tuple[Item, ...]
    lists: tuple[Series, ...]

    def by_key(self) -> dict[bytes, Item]:
        """The items with an id, each id once."""
        by_key: dict[bytes, Item] = {}
        for item in self.items:
            if item.part is not None:
                by_key.setdefault(item.part.key.digest, item)
        return by_key

    @property
    def differing(self) -> int:
        """How many of them have the id of another, and another body: the key is wrong, perhaps."""
        parts = {item.part for item in self.items if item.part is not None}
        return len(parts) - len({part.key.digest for part in parts})

    @property
    def unkeyed(self) -> int:
        """How many items have no usable id."""
        return sum(item.part is None for item in self.items)


def key_of(parts: Collection[Part], apart: str = "") -> EventKey:
    """A batch's own key, made of its items' in any order: no claim has it, an entry may.

    `apart`: what tells it from others with the same items, where it has more than those.
    """
    keys = sorted(part.key.digest.hex() for part in parts)
    event_id = ",".join(sorted(part.key.event_id for part in parts))
    return EventKey(digest(("batch", apart), keys), event_id)


def fingerprint_of(parts: Iterable[Part]) -> int:
    """That of a batch: changes with an item's, and not with their order. 0 to 255."""
    prints = sorted((part.key.digest, part.fingerprint) for part in parts)
    return zlib.crc32(bytes(print_ for _, print_ in prints)) & 0xFF


def won_together(won: Collection[Won]) -> Won:
    """What holds for a batch whose items were won: the doubt about one of them marks it all."""
    return Won(
        max(one.attempt for one in won),
        any(one.doubtful for one in won),
        any(one.took_over for one in won),
        max(one.now for one in won),
        min(one.first_seen for one in won),
    )


def seen_together(seen: Collection[Seen]) -> Seen:
    """What holds for a batch whose items were all seen.

    It is as old as the youngest of them: no batch with that one in it came before.
    """
    return Seen(
        max(one.first_seen for one in seen),
        all(one.same_body for one in seen),
        max(one.now for one in seen),
        all(one.same_event for one in seen),
        any(one.stored for one in seen),
        any(one.dead for one in seen),
    )


_TOO_MANY = Missing(f"a batch of more than {MOST_ITEMS} items")


def weight(body: bytes) -> int:
    """Roughly how many items a JSON body has, without parsing it: too many rather than too few."""
    return max(body.count(b"{"), body.count(b",") // COMMAS)


def read(
    reading: Reading, policy: BatchPolicy, recipe: Recipe, per_attempt: Collection[Pointer]
) -> Batch | Missing | Conflicting | None:
    """The batch that a delivery carries; None where it is none: there is no list, or one event.

    `per_attempt`: members of an item that its fingerprint leaves out.
    """
    scope = reading.values(recipe.scope)
    if not isinstance(scope, list):
        return scope
    text = reading.json_text()
    if text is None:
        return None
    lists = _lists(text, policy)
    if not isinstance(lists, tuple):
        return lists
    found = _items(reading, text, lists, policy, scope, per_attempt)
    if isinstance(found, Conflicting):
        return found
    if _is_one_event(reading, policy, scope, found):
        return None
    found += [Item(None, None, None, span) for span in _without_list(text, policy, lists)]
    return Batch(tuple(found), lists)


def _lists(text: str, policy: BatchPolicy) -> tuple[Series, ...] | Missing | None:
    steps = Steps(MOST_STEPS)
    try:
        lists = _apart(
            one for pointer in policy.items for one in spans.series(text, pointer, steps)
        )
        if not lists:
            return None
        spans.check_around(text, lists)
    except spans.TooMany:
        return _TOO_MANY
    except spans.Unreadable:
        return None
    return _TOO_MANY if sum(len(one.elements) for one in lists) > MOST_ITEMS else lists


def with_only(reading: Reading, batch: Batch, kept: Collection[bytes]) -> Delivery | None:
    """The delivery with the items of these keys, each body once, and those without an id.

    None where it is not in plain UTF-8: what is left of it had to be in the encoding of the whole.
    """
    text = reading.json_text()
    if text is None or not is_plain(reading.json_body()):
        return None
    seen: set[tuple[bytes, int]] = set()
    stay: set[Span] = set()
    for item in batch.items:
        if item.part is None:
            stay.add(item.span)
            continue
        one = (item.part.key.digest, item.part.fingerprint)
        if one[0] in kept and one not in seen:
            seen.add(one)
            stay.add(item.span)
    delivery = reading.delivery
    lines = tuple(line for line in delivery.headers if line[0].lower() not in _OF_THE_WHOLE)
    body = bytes_of(spans.with_only(text, batch.lists, stay))
    return delivery._replace(headers=lines, body=body)


def _is_one_event(
    reading: Reading, policy: BatchPolicy, scope: list[str], found: Collection[Item]
) -> bool:
    """Whether each id would be the same without its item, so that it tells no two of them apart."""
    values = reading.of(b"").values(policy.parts)
    if not isinstance(values, list):
        return False
    named = digest(scope, values)
    return all(item.part is not None and item.part.key.digest == named for item in found)


def _apart(lists: Iterable[Series]) -> tuple[Series, ...]:
    """Each list once and in the order of the text, without those inside another's elements."""
    apart: list[Series] = []
    for one in sorted(lists):
        if not apart or one.inside.start > apart[-1].inside.end:
            apart.append(one)
    return tuple(apart)


def _without_list(text: str, policy: BatchPolicy, lists: Collection[Series]) -> Iterable[Span]:
    """What `*` walks on the way to lists, and has none inside; the outermost of such."""
    walked = {
        pointer[: depth + 1]
        for pointer in policy.items
        for depth, step in enumerate(pointer)
        if step == spans.ANY
    }
    found = sorted(one.inside for one in lists)
    starts = [inside.start for inside in found]
    end = 0
    # None of these walks steps over more than the one that found the lists.
    there = {span for one in walked for span in spans.values(text, one, Steps(MOST_STEPS))}
    for span in sorted(there):
        first = bisect_left(starts, span.start)
        has_one = first < len(starts) and starts[first] <= span.end
        is_inside = first > 0 and found[first - 1].end >= span.end
        if span.start >= end and not has_one and not is_inside:
            end = span.end
            yield span


def _items(
    reading: Reading,
    text: str,
    lists: Iterable[Series],
    policy: BatchPolicy,
    scope: list[str],
    per_attempt: Collection[Pointer],
) -> list[Item] | Conflicting:
    found: list[Item] = []
    steps = Steps(MOST_STEPS)  # all of them together: there may be ten thousand large ones
    for span in (span for one in lists for span in one.elements):
        item = _item(reading, text, span, policy, scope, per_attempt, steps)
        if isinstance(item, Conflicting):
            return item
        found.append(item)
    return found


def _item(
    reading: Reading,
    text: str,
    span: Span,
    policy: BatchPolicy,
    scope: list[str],
    per_attempt: Collection[Pointer],
    steps: Steps,
) -> Item | Conflicting:
    body = bytes_of(text[span.start : span.end])
    item = reading.of(body)
    values = item.values(policy.parts)
    if isinstance(values, Conflicting):  # of the request: items cannot conflict
        return values
    part = None
    if isinstance(values, list):
        key = EventKey(digest(scope, values), ",".join(values))
        part = Part(key, fingerprint(body, per_attempt, steps))
    kind, time = policy.event_type, policy.event_time
    return Item(
        part,
        None if kind is None else item.text(kind),
        None if time is None else item.text(time),
        span,
    )
