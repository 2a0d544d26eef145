"""Places in a request that are more than one location: lists of items, members, handshakes' words.

Kinds of values as in `kinds`: each reads a text, and complains in two halves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from gateway.config.kinds import LOCATION_PATTERN, filled, pattern, text
from gateway.core.handshake import Proof
from gateway.core.headers import ends_here
from gateway.core.location import Location, parse_location
from gateway.core.spans import ANY, Pointer

VERIFY_TOKEN = "{verify_token}"
"""In a handshake's condition: the route's own setting of that name."""
_PROOF = re.compile(r"hmac-sha256\((.+)\)")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Of our own reply's framing.
_OURS = frozenset({"content-length", "content-type", "date", "server"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A condition of a handshake, before the route's own token is known."""

    where: Location
    equals: str | None
    absent: bool

    @property
    def by_token(self) -> bool:
        """Whether it compares with the route's `verify_token`."""
        return self.equals == VERIFY_TOKEN


def member(value: object) -> Pointer:
    """`json:/a/*/b`: members of a JSON body; `*` walks lists."""
    return _pointer(text(value))


def items(value: object) -> Pointer:
    """Where a list is: `json:/events`, or by its elements, `json:/*`; earlier `*` walk lists."""
    said = text(value)
    if said == "json:/":
        raise ValueError("'json:/' is the member without a name; write json:/* for a body of items")
    steps = _pointer(said)
    return steps[:-1] if steps[-1] == ANY else steps


def condition(value: object) -> Wanted:
    """`LOCATION`, `LOCATION = TEXT` or `no LOCATION`."""
    said = filled(value).strip()
    if said.startswith("no "):
        return Wanted(parse_location(said.removeprefix("no ").strip()), None, absent=True)
    where, *compared = re.split(r"\s+=(?:\s+|$)", said, maxsplit=1)
    if compared == [""]:
        raise ValueError(f"{said!r} compares with nothing; write LOCATION = TEXT, or LOCATION")
    return Wanted(parse_location(where), compared[0] if compared else None, absent=False)


def told(value: object) -> Location | Proof:
    """What a member of an answer is: a location's value, or proof of the secret made with it."""
    said = text(value).strip()
    match = _PROOF.fullmatch(said)
    return parse_location(said) if match is None else Proof(parse_location(match[1]))


def header_name(value: object) -> str:
    """A header that an answer may have."""
    said = text(value)
    if not _TOKEN.fullmatch(said):
        raise ValueError(f"{said!r} is not a header's name; write one, as in X-Hook-Secret")
    if ends_here(said.encode()) or said.lower() in _OURS or said.lower().startswith("dedup-"):
        raise ValueError(f"{said} is the gateway's own to say; remove it")
    return said


def _pointer(said: str) -> Pointer:
    kind, colon, rest = said.partition(":")
    if kind != "json" or not colon:
        raise ValueError(f"{said!r} is no member of a JSON body; write json:/NAME")
    # A step that walks a list stands for an index: whatever else is wrong is said as ever.
    parse_location("json:" + re.sub(r"(?<=/)\*(?=/|$)", "0", rest))
    steps = rest[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


Member = Annotated[Pointer, PlainValidator(member), WithJsonSchema(pattern("json:/.*"))]
Items = Annotated[Pointer, PlainValidator(items), WithJsonSchema(pattern("json:/.+"))]
Condition = Annotated[
    Wanted,
    PlainValidator(condition),
    WithJsonSchema(pattern(rf"\s*no {LOCATION_PATTERN}|{LOCATION_PATTERN}(\s=\s.+)?")),
]
Told = Annotated[
    Location | Proof,
    PlainValidator(told),
    WithJsonSchema(pattern(rf"{LOCATION_PATTERN}|hmac-sha256\(.+\)")),
]
HeaderName = Annotated[str, PlainValidator(header_name)]
