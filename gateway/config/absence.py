"""Why a location gives no usable id, for people.

Deliveries are only told apart by whether it does (see `keying`): the reason would cost time on each
of them. Here it is looked for again, slowly, in one sample.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import assert_never
from urllib.parse import parse_qsl

from gateway.core.event import Delivery
from gateway.core.location import (
    FirstOf,
    Form,
    Header,
    Json,
    Literal,
    Location,
    Query,
    Sha256,
    describe,
)

_MOST_NAMES = 8  # of the members that are there instead


def reason(delivery: Delivery, location: Location) -> str:
    """In a few words, as in `is null`; of a location that `keying` finds nothing at."""
    match location:
        case Header(name):
            there = any(line.lower() == name.lower().encode() for line, _ in delivery.headers)
            return "is blank" if there else "there is no such header"
        case Json(pointer):
            return _in_json(delivery, pointer)
        case Form(name):
            body = _plain(delivery)
            return "cannot be unpacked" if body is None else _among(body.decode("latin-1"), name)
        case Query(name):
            return _among(delivery.target.partition("?")[2], name)
        case Literal():
            return "is there"
        case Sha256(inner):
            return reason(delivery, inner)
        case FirstOf(options):
            return "; ".join(f"{describe(one)}: {reason(delivery, one)}" for one in options)
        case _:
            assert_never(location)


def _among(encoded: str, name: str) -> str:
    pairs = parse_qsl(encoded, keep_blank_values=True)
    return "is blank" if name in dict(pairs) else _lacking("field", name, dict(pairs))


def _in_json(delivery: Delivery, pointer: tuple[str, ...]) -> str:
    body = _plain(delivery)
    if body is None:
        return "the body cannot be unpacked"
    if not body.strip():
        return "the body is empty"
    try:
        found: object = json.loads(
            body, object_pairs_hook=_Members, parse_float=_Fraction, parse_constant=_Fraction
        )
    except json.JSONDecodeError as error:
        return f"the body is not JSON: {error.msg.lower()} in line {error.lineno}"
    except (ValueError, RecursionError):
        return "the body is not JSON that can be read"
    for step in pointer:
        if (problem := _blocked(found, step)) is not None:
            return problem
        found = _inside(found, step)
    return _kind(found)


def _blocked(found: object, step: str) -> str | None:
    """Why the way ends before a step of the pointer."""
    if isinstance(found, _Members):
        names = [name for name, _ in found]
        if step not in names:
            return _lacking("member", step, names)
        return f"the member {step!r} occurs twice" if names.count(step) > 1 else None
    if not isinstance(found, list):
        return f"{step!r} is looked for inside of what {_kind(found)}"
    if not (step.isdecimal() and step.isascii()):
        return f"{step!r} is looked for in a list; write an index, as in /0"
    if int(step) < len(found):
        return None
    return "the list has 1 item" if len(found) == 1 else f"the list has {len(found)} items"


def _inside(found: object, step: str) -> object:
    if isinstance(found, _Members):
        return dict(found)[step]
    assert isinstance(found, list)
    return found[int(step)]


def _kind(found: object) -> str:
    match found:
        case None:
            return "is null"
        case bool():
            return "is true or false"
        case _Fraction():
            return f"is {found}, which is not a whole number"
        case str():
            return "is a text" if found.strip() else "is blank"
        case _Members():
            return "is an object"
        case list():
            return "is a list"
        case _:
            return "is a number"


def _lacking(what: str, name: str, others: Iterable[str]) -> str:
    there = list(others)[:_MOST_NAMES]
    return f"there is no {what} {name!r}" + (f", but {', '.join(there)}" if there else "")


def _plain(delivery: Delivery) -> bytes | None:
    """The body as it was before its Content-Encoding; None if that cannot be undone."""
    coding = (delivery.header(b"content-encoding") or b"").strip().lower()
    # As in keying: what begins like JSON is not packed, whatever the header says.
    if coding not in (b"gzip", b"x-gzip", b"deflate") or delivery.body[:1] in (b"{", b"["):
        return delivery.body
    try:
        return zlib.decompress(delivery.body, zlib.MAX_WBITS | (0 if coding == b"deflate" else 16))
    except zlib.error:
        return None


class _Members(tuple[tuple[str, object], ...]):
    """An object's members, those that occur twice included."""


class _Fraction(str):
    """A number that is not whole, as it was written."""
