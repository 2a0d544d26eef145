"""Keying: where on a delivery the event id is, and the key made of it.

A *location* says where to look: `header:NAME`, `json:/pointer`, `form:NAME`, `query:NAME`, `literal:TEXT`;
`a | b` is the first that is present; `sha256(form:token)` digests a value that is itself the identity;
a list of locations is a composite, and each part must be there.

What counts as an id: text that is not blank, and whole JSON numbers of any size, which are the same id as their
decimal text (providers change serialisers). Missing, empty, blank, null, true, 7.0, 1e2, objects, arrays and a
JSON member that occurs twice at the pointer are no id. Nothing is normalised, trimmed or cut: ids that differ
in one byte are different ids.

The key is a digest over length-prefixed parts, scope first, so (`a`,`bc`) and (`ab`,`c`) differ, any
length fits the index, and ids that Postgres could not store as text (NUL, lone surrogates) are ids all the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never
from urllib.parse import parse_qsl

from gateway.core.event import Delivery, EventKey

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

# An inflated copy is only ever read for the id, so it needs no more room than a large plain body.
INFLATE_LIMIT = 25 * 2**20


@dataclass(frozen=True, slots=True)
class Header:
    """A header's value; every line of that name must agree."""

    name: str


@dataclass(frozen=True, slots=True)
class Json:
    """A member of the JSON body, by JSON pointer (RFC 6901)."""

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
    """A fixed text: a part of a composite."""

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


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a route makes keys. Part of the memory: another recipe recognises nothing of what came before."""

    scope: tuple[Location, ...]
    parts: tuple[Location, ...]

    def print(self) -> bytes:
        """16 bytes that change when the recipe does."""
        return hashlib.blake2b(repr((self.scope, self.parts)).encode(), digest_size=16).digest()

    def headers(self) -> frozenset[bytes]:
        """Lower-case names of the headers that it reads."""
        return frozenset(
            name.lower().encode() for name in _header_names((*self.scope, *self.parts))
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """No usable value there."""

    where: str


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Two different values, or bytes that gateway and consumer would read differently: a client error."""

    where: str
    why: str


def parse_location(text: str) -> Location:
    """Read `header:X`, `json:/a/0`, `a | b`, `sha256(…)`. Raises ValueError that says what to write instead."""
    options = tuple(_parse_one(part.strip()) for part in _split_options(text))
    return options[0] if len(options) == 1 else FirstOf(options)


def describe(location: Location) -> str:
    """The location as a user writes it."""
    match location:
        case Header(name):
            return f"header:{name}"
        case Json(pointer):
            return "json:" + "".join(
                "/" + step.replace("~", "~0").replace("/", "~1") for step in pointer
            )
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


class Reading:
    """One delivery, read for its id, type and time; body and query are parsed once and only when asked for."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery

    def identify(self, recipe: Recipe) -> EventKey | Missing | Conflicting:
        """The event's key under a route's recipe."""
        scope = self._values(recipe.scope)
        if not isinstance(scope, list):
            return scope
        parts = self._values(recipe.parts)
        if not isinstance(parts, list):
            return parts
        return EventKey(digest(scope, parts), ",".join(parts))

    def text(self, location: Location) -> str | None:
        """A value for people (an event's type, its time): like an id, but fractions count too."""
        found = self._find(location, fractions=True)
        return found if isinstance(found, str) else None

    def _values(self, locations: Iterable[Location]) -> list[str] | Missing | Conflicting:
        values = []
        for location in locations:
            found = self._find(location)
            if not isinstance(found, str):
                return found
            values.append(found)
        return values

    def _find(self, location: Location, *, fractions: bool = False) -> str | Missing | Conflicting:
        match location:
            case Header(name):
                return self._header(name)
            case Json():
                return self._json(location, fractions=fractions)
            case Form(name):
                return _only(self._form, name, describe(location))
            case Query(name):
                return _only(self._query, name, describe(location))
            case Literal(text):
                return text
            case Sha256(inner):
                found = self._find(inner)
                return (
                    hashlib.sha256(_encode(found)).hexdigest() if isinstance(found, str) else found
                )
            case FirstOf(options):
                return self._first(options, fractions=fractions)
            case _:
                assert_never(location)

    def _first(
        self, options: tuple[Location, ...], *, fractions: bool
    ) -> str | Missing | Conflicting:
        found: str | Missing | Conflicting = Missing("")
        for option in options:
            found = self._find(option, fractions=fractions)
            if not isinstance(found, Missing):
                return found
        return Missing(" | ".join(describe(option) for option in options))

    def _header(self, name: str) -> str | Missing | Conflicting:
        wanted, where = name.lower().encode(), f"header:{name}"
        values = set()
        for line, value in self.delivery.headers:
            line = line.lower()
            if line == wanted:
                values.add(value)
            elif b"_" in line and line.replace(b"_", b"-") == wanted.replace(b"_", b"-"):
                return Conflicting(
                    where,
                    "a header spelled with an underscore, which CGI consumers read as the same name",
                )
        if len(values) > 1:
            return Conflicting(where, "two different values")
        if not values or not (value := values.pop()).strip():
            return Missing(where)
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return Conflicting(where, "bytes that are not UTF-8")

    def _json(self, location: Json, *, fractions: bool) -> str | Missing:
        value = self._document
        for step in location.pointer:
            value = _step(value, step)
        text = _text(value, fractions=fractions)
        return Missing(describe(location)) if text is None else text

    @cached_property
    def _plain_body(self) -> bytes:
        body = self.delivery.body
        coding = (self.delivery.header(b"content-encoding") or b"").strip().lower()
        if coding in (b"gzip", b"x-gzip"):
            return _inflate(body, zlib.MAX_WBITS | 16)
        if coding == b"deflate":
            return _inflate(body, zlib.MAX_WBITS)
        return body

    @cached_property
    def _document(self) -> object:
        try:
            return json.loads(
                self._plain_body,
                object_pairs_hook=_members,
                parse_int=_integer,
                parse_float=_Fraction,
                parse_constant=_Fraction,
            )
        except (
            ValueError,
            RecursionError,
        ):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
            return None

    @cached_property
    def _form(self) -> list[tuple[str, str]]:
        return _pairs(self._plain_body)

    @cached_property
    def _query(self) -> list[tuple[str, str]]:
        return _pairs(self.delivery.target.partition("?")[2].encode("latin-1"))


def digest(scope: Iterable[str], parts: Iterable[str]) -> bytes:
    """16 bytes over the length-prefixed parts, scope and id apart from each other."""
    hasher = hashlib.blake2b(digest_size=16)
    for group in (scope, parts):
        encoded = [_encode(text) for text in group]
        hasher.update(len(encoded).to_bytes(4, "big"))
        for raw in encoded:
            hasher.update(len(raw).to_bytes(8, "big"))
            hasher.update(raw)
    return hasher.digest()


def fingerprint(body: bytes) -> int:
    """Eight bits of the body's digest, 0 to 255."""
    return hashlib.blake2b(body, digest_size=1).digest()[0]


def _encode(text: str) -> bytes:
    # JSON can spell lone surrogates, which UTF-8 proper cannot carry; two such ids must still differ.
    return text.encode("utf-8", "surrogatepass")


class _Fraction(str):
    """A JSON number that is not whole, or NaN and its kin; text as it was written."""


class _Members(dict[str, object]):
    """A JSON object that remembers which of its members occurred more than once."""

    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A pointer that leads nowhere; unlike None, which JSON can say."""

    absent: bool = field(default=True)


_NOTHING = _Nothing()


def _members(pairs: list[tuple[str, object]]) -> _Members:
    members = _Members(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        members.repeated = frozenset(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return members


def _integer(text: str) -> str:
    # As text: exact at any size, and not subject to Python's limit on int digits. -0 is 0.
    return "0" if text == "-0" else text


def _step(value: object, step: str) -> object:
    if isinstance(value, _Members):
        return _NOTHING if step in value.repeated else value.get(step, _NOTHING)
    if (
        isinstance(value, list)
        and step.isascii()
        and step.isdigit()
        and len(step) < 10
        and int(step) < len(value)
    ):
        return value[int(step)]
    return _NOTHING


def _text(value: object, *, fractions: bool) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return value if fractions or not isinstance(value, _Fraction) else None


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    # surrogateescape keeps values that are no UTF-8 apart from each other.
    raw = encoded.decode("utf-8", "surrogateescape")
    try:
        return parse_qsl(
            raw,
            keep_blank_values=True,
            encoding="utf-8",
            errors="surrogateescape",
            max_num_fields=10_000,
        )
    except ValueError:
        return []


def _only(pairs: list[tuple[str, str]], name: str, where: str) -> str | Missing | Conflicting:
    values = {value for key, value in pairs if key == name}
    if len(values) > 1:
        return Conflicting(where, "two different values")
    if not values or not (value := values.pop()).strip():
        return Missing(where)
    return value


def _inflate(body: bytes, window: int) -> bytes:
    inflater = zlib.decompressobj(wbits=window)
    try:
        plain = inflater.decompress(body, INFLATE_LIMIT)
    except zlib.error:
        return b""
    return b"" if inflater.unconsumed_tail else plain


def _header_names(locations: Iterable[Location]) -> Iterable[str]:
    for location in locations:
        match location:
            case Header(name):
                yield name
            case Sha256(inner):
                yield from _header_names((inner,))
            case FirstOf(options):
                yield from _header_names(options)
            case Json() | Form() | Query() | Literal():
                pass
            case _:
                assert_never(location)


def _split_options(text: str) -> list[str]:
    # A pipe inside literal:… or a pointer would be ambiguous; only one with white space around it divides.
    return re.split(r"\s+\|\s+", text.strip())


def _parse_one(text: str) -> Location:
    if text.startswith("sha256(") and text.endswith(")"):
        return Sha256(parse_location(text[len("sha256(") : -1]))
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise ValueError(_remedy(text))
    match kind:
        case "header":
            if not _TOKEN.fullmatch(rest):
                raise ValueError(f"{rest!r} is not a header name")
            return Header(rest)
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


def _parse_pointer(text: str) -> tuple[str, ...]:
    if not text.startswith("/"):
        raise ValueError(f"the JSON pointer {text!r} must start with a slash: write json:/{text}")
    if re.search(r"~(?![01])", text):
        raise ValueError(
            f"in the JSON pointer {text!r} a tilde must be written ~0 (and a slash in a name ~1)"
        )
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    if "*" in steps:
        raise ValueError(
            f"the JSON pointer {text!r} walks a batch with *; an event id is a single value"
        )
    return steps


def _remedy(text: str) -> str:
    return (
        f"{text!r} is not a location: write header:NAME, json:/pointer, form:NAME, query:NAME, literal:TEXT, "
        "sha256(LOCATION), or two of them divided by ' | '"
    )
