"""Locations: where on a delivery a value is, and how people write that down.

header:NAME          a header's value; every line of that name must agree
json:/pointer        a member of the JSON body, by JSON pointer (RFC 6901)
form:NAME            a field of an urlencoded body
query:NAME           a parameter of the target's query
literal:TEXT         a fixed text
a | b                the first that is present
sha256(LOCATION)     the hex digest of a value that is itself the identity, without line breaks at
                     its end, which get lost: Braintree's libraries believe a payload either way
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import assert_never

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_KINDS = ("header", "json", "form", "query", "literal")
# JSONPath and its kin: $.data.items[0].id, data["event"].id
_PATH_STEPS = re.compile(r"""[^.\[\]"'/$]+""")
# A pipe that looks like one between two locations, and has nothing or no blank on one side.
_HALF_DIVIDER = re.compile(r"^\|(\s|$)|\s\|(\S|$)|\S\|\s")
_WHOLE_BODY = re.compile(r"(raw[ _-]?)?(body|payload)", re.IGNORECASE)
# They say who sends, or how or when, and nothing about the event.
_SAME_FOR_MANY = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "forwarded",
        "host",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    }
)


@dataclass(frozen=True, slots=True)
class Header:
    """A header's value; every line of that name must agree."""

    name: str


@dataclass(frozen=True, slots=True)
class Json:
    """A member of the JSON body."""

    pointer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A field of an urlencoded body."""

    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the target's query."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A fixed text: a scope, or a part of a composite."""

    text: str


@dataclass(frozen=True, slots=True)
class Sha256:
    """The hex digest of another location's value."""

    inner: Location


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first location that is present."""

    options: tuple[Location, ...]


Location = Header | Json | Form | Query | Literal | Sha256 | FirstOf


def parse_location(text: str) -> Location:
    """Read `header:X`, `json:/a/0`, `a | b`, `sha256(…)`.

    Raises ValueError that says what to write instead.
    """
    options = tuple(_parse_one(part) for part in _split_options(text.strip()))
    return options[0] if len(options) == 1 else FirstOf(options)


@lru_cache(maxsize=1024)  # for each item of a batch that has no time, say
def describe(location: Location) -> str:
    """The location as a user writes it; `parse_location` reads it back."""
    match location:
        case Header(name):
            return f"header:{name}"
        case Json(pointer):
            return "json:" + "".join(f"/{_escaped(step)}" for step in pointer)
        case Form(name):
            return f"form:{name}"
        case Query(name):
            return f"query:{name}"
        case Literal(text):
            return f"literal:{text}"
        case Sha256(inner):
            return f"sha256({describe(inner)})"
        case FirstOf(options):
            return " | ".join(describe(option) for option in options)
        case _:
            assert_never(location)


def canonical(location: Location) -> str:
    """The same for locations that read the same, however they are spelled."""
    match location:
        case Header(name):
            return f"header:{name.lower()}"
        case Sha256(inner):
            return f"sha256({canonical(inner)})"
        case FirstOf(options):
            return " | ".join(map(canonical, options))
        case Json() | Form() | Query() | Literal():
            return describe(location)
        case _:
            assert_never(location)


def may_be_constant(location: Location) -> bool:
    """Whether unrelated deliveries get the same value from it as a matter of course."""
    match location:
        case Literal():
            return True
        case Header(name):
            return name.lower() in _SAME_FOR_MANY
        case Sha256(inner):
            return may_be_constant(inner)
        case FirstOf(options):
            return any(may_be_constant(option) for option in options)
        case Json() | Form() | Query():
            return False
        case _:
            assert_never(location)


def header_names(locations: Iterable[Location]) -> Iterable[str]:
    """The names of all headers that the locations read, as they were written."""
    for location in locations:
        match location:
            case Header(name):
                yield name
            case Sha256(inner):
                yield from header_names((inner,))
            case FirstOf(options):
                yield from header_names(options)
            case Json() | Form() | Query() | Literal():
                pass
            case _:
                assert_never(location)


def _split_options(text: str) -> list[str]:
    # A pipe may be part of a name or a literal; only one with white space around it divides.
    options: list[str] = []
    open_digests = 0
    for piece in re.split(r"\s+\|\s+", text):
        if open_digests:
            options[-1] += f" | {piece}"
        else:
            options.append(piece)
        open_digests += piece.count("sha256(")
        open_digests -= min(open_digests, len(piece) - len(piece.rstrip(")")))
    return options


def _parse_one(text: str) -> Location:
    if text.startswith("sha256(") and text.endswith(")"):
        return Sha256(parse_location(text[len("sha256(") : -1]))
    if _HALF_DIVIDER.search(text):
        raise ValueError(
            f"{text!r} has a | with nothing, or no blank, on one side; write LOCATION | LOCATION"
        )
    return _parse_kind(text)


def _parse_kind(text: str) -> Location:
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise ValueError(_remedy(text))
    match kind:
        case "header":
            return Header(_header_name(rest))
        case "json":
            return Json(_parse_pointer(rest))
        case "form":
            return Form(rest)
        case "query":
            return Query(rest)
        case "literal":
            return Literal(rest)
        case _:
            raise ValueError(_remedy(text))


def _header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError(f"{text!r} is not a header name; write header:NAME")
    return text


def _parse_pointer(text: str) -> tuple[str, ...]:
    if not text.startswith("/"):
        raise ValueError(
            f"the JSON pointer {text!r} must start with a slash; write json:{_pointer(text)}"
        )
    if re.search(r"~(?![01])", text):
        raise ValueError(
            f"the JSON pointer {text!r} has a bare tilde; write ~0 for it (and ~1 for a slash)"
        )
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    if "*" in steps:
        raise ValueError(
            f"the JSON pointer {text!r} walks a batch with *; an event id is one value, "
            "write the index of an item, as in /0"
        )
    return steps


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _pointer(text: str) -> str:
    """What somebody meant who wrote a path in another notation."""
    return "".join(f"/{_escaped(step)}" for step in _PATH_STEPS.findall(text)) or "/NAME"


def _remedy(text: str) -> str:
    if _WHOLE_BODY.fullmatch(text.rstrip(":")):
        return (
            f"{text!r} is the body as a whole, which is no id: different events can have equal "
            "bodies, and a retry another one; write json:/NAME for a member of it"
        )
    return f"{text!r} does not say where to look; write {_meant(text)}"


def _meant(text: str) -> str:
    kind, colon, rest = text.partition(":")
    near = get_close_matches(kind.strip().lower(), _KINDS, 1)
    if colon and rest.strip() and near:
        return f"{near[0]}:{rest.strip()}"
    if re.match(r"\$|/|[\w-]+(\.|\[)", text):
        return f"json:{_pointer(text)}"
    if not _TOKEN.fullmatch(text):
        return "header:NAME, json:/pointer, form:NAME, query:NAME, or sha256(LOCATION)"
    if "-" in text:
        return f"header:{text}, or json:/{text}"
    return f"json:/{text}, header:{text}, form:{text} or query:{text}"
