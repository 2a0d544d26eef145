"""Keying: the event id read from a delivery, and the key made of it.

What counts as an id: text that is not blank, and whole JSON numbers of any size, which are the
same id as their decimal text (providers change serialisers). Missing, empty, blank, null, true,
7.0, 1e2, objects, arrays and a JSON member that occurs twice at the pointer are no id. Nothing is
normalised, trimmed or cut: ids that differ in one byte are different ids. A list of locations is a
composite, and each part must be there.

An operation key stands in for the id in the key: two events that would start one operation twice
have one claim. The id stays beside it, so that the two are told apart.

The key is a digest over length-prefixed parts, scope first, so (`a`,`bc`) and (`ab`,`c`) differ,
any length fits the index, and ids that Postgres could not store as text (NUL, lone surrogates) are
ids all the same.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from gateway.core import form
from gateway.core.document import (
    Document,
    Parse,
    bytes_of,
    is_out_of_proportion,
    parse_plainly,
    text_of,
)
from gateway.core.event import Delivery, EventKey
from gateway.core.location import (
    FirstOf,
    Form,
    Header,
    Json,
    Literal,
    Location,
    Query,
    Sha256,
    canonical,
    describe,
    header_names,
)

# An inflated copy is only ever read for the id, so it needs no more room than a large plain body.
INFLATE_LIMIT = 25 * 2**20
# Characters of a scope whose beginning of a digest is remembered: mostly the route's name.
LONGEST_REMEMBERED = 256
# Tells the print of a recipe by operation from that of one whose ids are read at the same places.
_OF_AN_OPERATION = (Literal("operation"),)
# Before an id among operations: no part of one is blank, so none is the same.
_OF_NONE = ("",)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a route makes keys. Part of the memory: another recipe recognises nothing older."""

    scope: tuple[Location, ...]
    parts: tuple[Location, ...]
    """Empty where only the items of batches have ids."""
    operation: tuple[Location, ...] = ()
    """What the key is made of instead of the id; empty for the id itself."""

    def print(self) -> bytes:
        """16 bytes that change when the recipe does, and not when only its spelling does."""
        made_of = self.parts
        if self.operation:  # an event of no operation goes by its id
            made_of = (*self.operation, *_OF_AN_OPERATION, *self.parts)
        return digest(map(canonical, self.scope), map(canonical, made_of))

    def headers(self) -> frozenset[bytes]:
        """Lower-case names of the headers that it reads."""
        read = (*self.scope, *self.parts, *self.operation)
        return frozenset(name.lower().encode() for name in header_names(read))


@dataclass(frozen=True, slots=True)
class Missing:
    """No usable value there."""

    where: str
    items: int = 0
    """Of a batch: how many items it has, none of which has one."""


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Two values, or bytes that gateway and consumer would read differently: a client error."""

    where: str
    why: str


class Reading:
    """One delivery, read for its id, type and time; parsed once, and only when asked for."""

    __slots__ = ("_document", "_form", "_parse", "delivery")

    def __init__(self, delivery: Delivery, parse: Parse = parse_plainly) -> None:
        self.delivery = delivery
        self._parse = parse
        self._document: Document | None = None
        self._form: list[tuple[str, str]] | None = None

    def identify(self, recipe: Recipe) -> EventKey | Missing | Conflicting:
        """The event's key under a route's recipe."""
        if not (recipe.parts or recipe.operation):
            return Missing("the items of a batch")
        scope = self.values(recipe.scope)
        if not isinstance(scope, list):
            return scope
        parts = self.values(recipe.parts)
        if recipe.operation:
            return self._operation(recipe, scope, parts)
        if not isinstance(parts, list):
            return parts
        return EventKey(digest(scope, parts), ",".join(parts))

    def _operation(
        self, recipe: Recipe, scope: list[str], parts: list[str] | Missing | Conflicting
    ) -> EventKey | Missing | Conflicting:
        """An event without an id of its own goes by its operation's, and one of none by its id."""
        operation = self.values(recipe.operation)
        if isinstance(operation, Conflicting):
            return operation
        if isinstance(parts, Conflicting):
            return parts
        if isinstance(operation, Missing):
            if isinstance(parts, list) and parts:
                return EventKey(digest(scope, (*_OF_NONE, *parts)), ",".join(parts))
            return operation
        shown = parts if isinstance(parts, list) and parts else operation
        return EventKey(digest(scope, operation), ",".join(shown))

    def of(self, body: bytes) -> Reading:
        """A reading of one item of the body, with the rest of the request as it is."""
        return Reading(self.delivery._replace(body=body), self._parse)

    def text(self, location: Location) -> str | None:
        """A value for people (an event's type, its time): like an id, but fractions count too."""
        found = self._find(location, fractions=True)
        return found if isinstance(found, str) else None

    def lacks(self, location: Location) -> bool:
        """Whether there is nothing at all: two values, or another spelling, are something."""
        return isinstance(self._find(location, fractions=True), Missing)

    def json_text(self) -> str | None:
        """The text of what may be a JSON body; None where its parts would take too much memory."""
        body = self.json_body()
        if is_out_of_proportion(body):
            return None
        with suppress(ValueError):
            return text_of(body)
        return None

    def json_body(self) -> bytes:
        """The body, unpacked if it is packed."""
        # No packed body begins like a JSON object or list, so there is nothing to look up.
        plain = self.delivery.body[:1] in (b"{", b"[")
        return self.delivery.body if plain else self._plain_body()

    def values(self, locations: Iterable[Location]) -> list[str] | Missing | Conflicting:
        """What is at each of them, or why one has no usable value."""
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
                return _only(self._form_pairs(), name, describe(location))
            case Query(name):
                return _only(self._query_pairs(), name, describe(location))
            case Literal(text):
                return text
            case Sha256(inner):
                return sha256_of(self._find(inner))
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
        dashed = wanted.replace(b"_", b"-")
        values = set()
        for line, value in self.delivery.headers:
            line = line.lower()
            if line == wanted:
                values.add(value)
            elif line.replace(b"_", b"-") == dashed:
                return Conflicting(where, "a second spelling (_ for -) that CGI takes for the same")
        if len(values) > 1:
            return Conflicting(where, "two different values")
        if not values or not (value := values.pop()).strip():
            return Missing(where)
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return Conflicting(where, "bytes that are not UTF-8")

    def _json(self, location: Json, *, fractions: bool) -> str | Missing:
        document = self._document
        if document is None:
            document = self._document = Document(self.json_body(), self._parse)
        text = document.text(location.pointer, fractions=fractions)
        return Missing(describe(location)) if text is None else text

    def _plain_body(self) -> bytes:
        body = self.delivery.body
        coding = (self.delivery.header(b"content-encoding") or b"").strip().lower()
        if coding in (b"gzip", b"x-gzip"):
            return _inflate(body, zlib.MAX_WBITS | 16)
        return _inflate(body, zlib.MAX_WBITS) if coding == b"deflate" else body

    def _form_pairs(self) -> list[tuple[str, str]]:
        if self._form is None:
            self._form = form.fields(self.delivery, self._plain_body())
        return self._form

    def _query_pairs(self) -> list[tuple[str, str]]:
        return form.pairs(self.delivery.target.partition("?")[2].encode("latin-1"))


def digest(scope: Iterable[str], parts: Iterable[str]) -> bytes:
    """16 bytes over the length-prefixed parts, scope and id apart from each other."""
    begin = tuple(scope)
    # Nobody's megabytes are to be remembered: a scope may come out of a body.
    short = sum(map(len, begin)) <= LONGEST_REMEMBERED
    hasher = _begun(begin).copy() if short else _begin(begin)
    _add(hasher, parts)
    return hasher.digest()


def _begin(scope: tuple[str, ...]) -> hashlib.blake2b:
    hasher = hashlib.blake2b(digest_size=16)
    _add(hasher, scope)
    return hasher


_begun = lru_cache(maxsize=256)(_begin)


def _add(hasher: hashlib.blake2b, group: Iterable[str]) -> None:
    encoded = [bytes_of(text) for text in group]
    pieces = [len(encoded).to_bytes(4, "big")]
    for raw in encoded:
        pieces += (len(raw).to_bytes(8, "big"), raw)
    hasher.update(b"".join(pieces))


def sha256_of(found: str | Missing | Conflicting) -> str | Missing | Conflicting:
    if not isinstance(found, str):
        return found
    return hashlib.sha256(bytes_of(found.rstrip("\n"))).hexdigest()


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
    # Cut short, over the limit, or followed by something that a consumer may or may not read.
    return plain if inflater.eof and not inflater.unused_data else b""
