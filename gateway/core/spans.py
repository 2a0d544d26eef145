"""Spans: where the values of a JSON text are, to leave some of them out and keep the rest.

What is left out of a body leaves every other byte as it came: numbers keep their digits, members
their order, texts their escapes. Parsing and writing anew would keep none of that.

A pointer may have `*` steps, each of which walks a list. A member that occurs twice on the way has
no place on which everybody would agree, and is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeVar

ANY = "*"
"""The step of a pointer that walks a list."""
Pointer = tuple[str, ...]
# Of a body that means no harm a few dozen are; these take a tenth of a second on a slow machine.
MOST_STEPS = 20_000
Found = TypeVar("Found")

_BLANK = re.compile(r"[ \t\n\r]*")
# Builds what it steps over, in C: for a body of a few MiB that is some milliseconds. Numbers stay
# text: Python refuses to make an integer of 4,301 digits, and nobody asks for it here.
_value_at = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode


class Span(NamedTuple):
    """A value of a text: from `start` up to and without `end`, in characters."""

    start: int
    end: int


class Series(NamedTuple):
    """A list of a text, and where its elements are."""

    inside: Span
    """What is between the brackets."""
    elements: tuple[Span, ...]


class Unreadable(ValueError):
    """The text is no JSON, or is nested too deeply. Not all that is no JSON is noticed here."""


class TooMany(Unreadable):
    """More values would have to be stepped over than anybody waits for."""


class Steps:
    """How many values may be stepped over still: each takes some microseconds, and others wait."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.left = most

    def take(self) -> None:
        """One more. Raises TooMany."""
        self.left -= 1
        if self.left < 0:
            raise TooMany("too many values to step over")


def series(text: str, pointer: Pointer, steps: Steps | None = None) -> list[Series]:
    """The lists at a pointer, in the order of the text. Raises Unreadable."""
    steps = steps or Steps()
    places = _walk(text, _skip(text, 0), pointer, steps)
    return _read(_series(text, at, steps) for at in places if text.startswith("[", at))


def values(text: str, pointer: Pointer, steps: Steps | None = None) -> list[Span]:
    """Where the values at a pointer are. Raises Unreadable."""
    places = _walk(text, _skip(text, 0), pointer, steps or Steps())
    return _read(Span(at, _end(text, at)) for at in places)


def with_only(text: str, lists: Iterable[Series], kept: Collection[Span]) -> str:
    """The text with only some of the elements of its lists, each with the separator before it."""
    pieces, at = [], 0
    for one in sorted(lists):
        pieces.append(text[at : one.inside.start])
        pieces.append(_inside(text, one, kept))
        at = one.inside.end
    return "".join([*pieces, text[at:]])


def check_around(text: str, lists: Iterable[Series]) -> None:
    """See that all but the elements is JSON: those were read one by one. Raises Unreadable."""
    try:
        json.loads(with_only(text, lists, ()), parse_int=str)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def lacking(text: str, pointers: Iterable[Pointer], steps: Steps | None = None) -> str:
    """The text without the members at the pointers: as if they had never been written.

    Elements of lists lose their value only, for the place of the others is theirs. Raises
    Unreadable.
    """
    steps = steps or Steps()
    for pointer in pointers:
        cuts = _read(_cuts(text, pointer, steps))
        for cut in sorted(cuts, reverse=True):
            text = text[: cut.start] + text[cut.end :]
    return text


def _cuts(text: str, pointer: Pointer, steps: Steps) -> Iterator[Span]:
    *outer, last = pointer
    for parent in _walk(text, _skip(text, 0), tuple(outer), steps):
        if text[parent] == "{":
            members = list(_members(text, parent, steps))
            if [member.name for member in members].count(last) == 1:
                yield _cut(text, parent, members, last)
        else:
            yield from (Span(at, _end(text, at)) for at in _walk(text, parent, (last,), steps))


def _cut(text: str, parent: int, members: list[_Member], name: str) -> Span:
    """With the separator before it; with that after it where it is the first."""
    before = parent + 1
    for place, member in enumerate(members):
        if member.name != name:
            before = member.end
        elif place == 0 and len(members) > 1:
            return Span(member.start, members[1].start)
        else:
            return Span(member.start if place == 0 else before, member.end)
    raise AssertionError("it was among them")


def _inside(text: str, one: Series, kept: Collection[Span]) -> str:
    if not one.elements:
        return text[one.inside.start : one.inside.end]
    pieces: list[str] = []
    before = one.elements[0].start
    for element in one.elements:
        if element in kept:
            pieces.append(text[before if pieces else element.start : element.end])
        before = element.end
    first, last = one.elements[0].start, one.elements[-1].end
    return "".join([text[one.inside.start : first], *pieces, text[last : one.inside.end]])


def _read(found: Iterable[Found]) -> list[Found]:
    try:
        return list(found)
    except TooMany:
        raise
    except (ValueError, IndexError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _walk(text: str, at: int, pointer: Pointer, steps: Steps) -> Iterator[int]:
    if not pointer:
        yield at
        return
    step, rest = pointer[0], pointer[1:]
    if text[at] == "{":
        places = [member.value for member in _members(text, at, steps) if member.name == step]
        if len(places) == 1:
            yield from _walk(text, places[0], rest, steps)
    elif text[at] == "[":
        for index, element in enumerate(_series(text, at, steps).elements):
            if step == ANY or step == str(index):
                yield from _walk(text, element.start, rest, steps)


class _Member(NamedTuple):
    """A member of an object: where its name begins, its value begins, and it ends."""

    name: str
    start: int
    value: int
    end: int


def _members(text: str, at: int, steps: Steps) -> Iterator[_Member]:
    """Those of the object at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        steps.take()
        start = at
        name, at = _value_at(text, at)
        value = _skip(text, _skip(text, at) + 1)
        end = _end(text, value)
        yield _Member(name, start, value, end)
        at = _next(text, end, "}")


def _series(text: str, at: int, steps: Steps) -> Series:
    start, found = at + 1, []
    at = _skip(text, start)
    while text[at] != "]":
        steps.take()
        found.append(Span(at, _end(text, at)))
        at = _next(text, found[-1].end, "]")
    return Series(Span(start, at), tuple(found))


def _next(text: str, at: int, bracket: str) -> int:
    """The place after a value and the comma behind it, or that of the closing bracket."""
    at = _skip(text, at)
    if text[at] == bracket:
        return at
    if text[at] != ",":
        raise Unreadable(f"neither comma nor {bracket} at character {at}")
    at = _skip(text, at + 1)
    if text[at] == bracket:
        raise Unreadable(f"nothing after the comma before character {at}")
    return at


def _end(text: str, at: int) -> int:
    return _value_at(text, at)[1]


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()
