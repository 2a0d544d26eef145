"""Kinds of values: how each is written, what is wrong when it is written otherwise.

Every value arrives as the text that somebody typed (see `document`). A kind turns it into what the
program uses, or raises ValueError with two halves divided by a semicolon: what is wrong, and what
to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema

from gateway.config import addresses
from gateway.config.addresses import Address, ProbeUrl, Url
from gateway.core.durations import parse_duration, parse_size
from gateway.core.headers import Networks
from gateway.core.location import Literal as Fixed
from gateway.core.location import Location as CoreLocation
from gateway.core.location import parse_location

ONE_VALUE = 'write one value, in "quotes" if it has {, [ or ": " in it'
_VARIABLE = r"\$\{.+\}"
# As `parse_location` reads them: no divider inside of one, but inside of sha256( ) any.
_ONE_LOCATION = r"((header|json|form|query|literal):((?!\s\|\s).)+|sha256\(.+\))"
LOCATION_PATTERN = rf"\s*{_ONE_LOCATION}(\s+\|\s+{_ONE_LOCATION})*\s*"
# What webhooks and health checks use. A misspelled method would leave its events unprotected.
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_COUNT = "[1-9][0-9]{0,8}"
_STATUS = "[2-5][0-9]{2}"
_MEDIA_TYPE = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+( *;[\x20-\x7e]*)?"
_NO_REASONS = frozenset({"true", "false", "yes", "no", "on", "off", "ok", "null", "none"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


def text(value: object) -> str:
    """The text itself."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("has a NUL in it, which nothing takes; remove it")
        return value
    kind = "a mapping" if isinstance(value, dict) else "a list"
    raise ValueError(f"is {kind} here; {ONE_VALUE}")


def filled(value: object) -> str:
    """A text that says something."""
    said = text(value)
    if not said.strip():
        raise ValueError("is empty; write a text or remove the line")
    return said


def reason(value: object) -> str:
    """Words for whoever asks later why."""
    said = filled(value)
    if said.strip().lower() in _NO_REASONS or not re.search(r"\w\w", said):
        raise ValueError(
            f"{said!r} is no reason; say why in words, as in nobody redrives test events"
        )
    return said


def truth(value: object) -> bool:
    """`true` or `false`, and none of YAML's other spellings."""
    match text(value):
        case "true":
            return True
        case "false":
            return False
        case other:
            raise ValueError(f"{other!r} is neither yes nor no here; write true or false")


def count(value: object) -> int:
    """A whole number from 1."""
    said = text(value)
    if not re.fullmatch(_COUNT, said):
        raise ValueError(f"{said!r} is not a whole number from 1; write one, as in 64")
    return int(said)


def status(value: object) -> int:
    """A final HTTP status."""
    said = text(value)
    if not re.fullmatch(_STATUS, said):
        raise ValueError(f"{said!r} is not a final HTTP status; write one from 200 to 599")
    return int(said)


def reply_status(value: object) -> int:
    """A status after which no provider sends the event again."""
    said = text(value)
    if not re.fullmatch(_STATUS, said):
        raise ValueError(f"{said!r} is not a final HTTP status; write one from 200 to 299")
    if not said.startswith("2"):
        raise ValueError(
            f"{said} would make the provider send the event again; write one from 200 to 299"
        )
    return int(said)


def duration(value: object) -> timedelta:
    """`8s`, `45d`."""
    said = text(value)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", said) and said != "0":
        raise ValueError(f"{said!r} has no unit; write {said}s if seconds are meant")
    return parse_duration(said)


def span(value: object) -> timedelta:
    """A duration that is not zero."""
    said = duration(value)
    if not said:
        raise ValueError("is zero, which would never let anything finish; write a longer time")
    return said


def size(value: object) -> int:
    """`64KiB`, `25MiB`: bytes, not zero."""
    said = text(value)
    if re.fullmatch(r"[0-9]+", said):
        raise ValueError(f"{said!r} has no unit; write {said}B if bytes are meant")
    if not (found := parse_size(said)):
        raise ValueError("is zero, so nothing would fit; write a size as in 25MiB")
    return found


def day(value: object) -> date:
    """`2026-08-25`."""
    said = text(value)
    try:
        return date.fromisoformat(said)
    except ValueError:
        raise ValueError(f"{said!r} is not a day; write it as in 2026-08-25") from None


def name(value: object) -> str:
    """A route's name: it becomes a label, part of keys, and a word on command lines."""
    said = text(value)
    if not _NAME.fullmatch(said):
        raise ValueError(
            f"{said!r} is not a name; write 1 to 63 letters, digits, dots, dashes or underscores"
        )
    return said


def method(value: object) -> str:
    """An HTTP method, in upper case."""
    said = text(value)
    if said.upper() in _METHODS:
        return said.upper()
    near = get_close_matches(said.upper(), _METHODS, 1)
    meant = f"did you mean {near[0]}?" if near else "write one of " + " ".join(_METHODS)
    raise ValueError(f"{said!r} is not a method that carries events; {meant}")


def location(value: object) -> CoreLocation:
    """`header:NAME`, `json:/pointer` and their kin."""
    return parse_location(text(value))


def scope(value: object) -> CoreLocation:
    """A location, or a plain text. What looks like a location has to be one."""
    said = filled(value)
    if re.match(r"[a-z0-9]+[:(]", said):
        return parse_location(said)
    return Fixed(said)


def content_type(value: object) -> str:
    """A media type, perhaps with parameters."""
    said = filled(value)
    if not re.fullmatch(_MEDIA_TYPE, said):
        raise ValueError(f"{said!r} is not a media type; write one, as in text/plain")
    return said


def read_as(reader: Callable[[str], T]) -> PlainValidator:
    """Validator made of something that reads a text."""
    return PlainValidator(lambda value: reader(text(value)))


def one_of(choices: type[E], others: str = "") -> Callable[[object], E]:
    """One of an enumeration's words. `others`: what else the setting takes, for the remedy."""

    def choose(value: object) -> E:
        said = text(value)
        words = [str(choice.value) for choice in choices]
        if said in words:
            return choices(said)
        if near := get_close_matches(said, words, 1):
            meant = f"did you mean {near[0]}?" + (f" Or write {others}" if others else "")
            raise ValueError(f"{said!r} is not one of {', '.join(words)}; {meant}")
        meant = " or ".join(words) + (f", or {others}" if others else "")
        raise ValueError(f"{said!r} means nothing here; write {meant}")

    return choose


class OneOrMany:
    """A list that may be written as its only item."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


def pattern(written: str) -> dict[str, Any]:
    """Schema of a text, or of a variable in its place."""
    return {"type": "string", "pattern": f"^({written})$|{_VARIABLE}"}


def _or_text(kind: dict[str, Any], written: str) -> dict[str, Any]:
    """Schema of what YAML reads as something else than text, which may be quoted, too."""
    return {"anyOf": [kind, pattern(written)]}


def one_word_of(words: Iterable[str]) -> dict[str, Any]:
    """Schema of an enumeration."""
    return {"anyOf": [{"enum": list(words)}, {"type": "string", "pattern": _VARIABLE}]}


def choice(choices: type[StrEnum], others: str = "") -> tuple[PlainValidator, WithJsonSchema]:
    """Validator and schema of an enumeration."""
    return PlainValidator(one_of(choices, others)), WithJsonSchema(
        one_word_of(str(choice.value) for choice in choices)
    )


_SPAN = pattern(r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+")
_DURATION = {"anyOf": [pattern(r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+|0"), {"const": 0}]}
_STRING = {"type": "string"}

Listed = (BeforeValidator(_listed), OneOrMany())

Text = Annotated[str, PlainValidator(text), WithJsonSchema(_STRING)]
Filled = Annotated[str, PlainValidator(filled), WithJsonSchema({**_STRING, "minLength": 1})]
Why = Annotated[str, PlainValidator(reason), WithJsonSchema({**_STRING, "minLength": 2})]
Truth = Annotated[
    bool, PlainValidator(truth), WithJsonSchema(_or_text({"type": "boolean"}, "true|false"))
]
Count = Annotated[
    int,
    PlainValidator(count),
    WithJsonSchema(_or_text({"type": "integer", "minimum": 1, "maximum": 999999999}, _COUNT)),
]
Status = Annotated[
    int,
    PlainValidator(status),
    WithJsonSchema(_or_text({"type": "integer", "minimum": 200, "maximum": 599}, _STATUS)),
]
ReplyStatus = Annotated[
    int,
    PlainValidator(reply_status),
    WithJsonSchema(_or_text({"type": "integer", "minimum": 200, "maximum": 299}, "2[0-9]{2}")),
]
Duration = Annotated[timedelta, PlainValidator(duration), WithJsonSchema(_DURATION)]
Span = Annotated[timedelta, PlainValidator(span), WithJsonSchema(_SPAN)]
Size = Annotated[int, PlainValidator(size), WithJsonSchema(pattern("[0-9]+(B|KiB|MiB|GiB)"))]
Day = Annotated[date, PlainValidator(day), WithJsonSchema(pattern("[0-9]{4}-[0-9]{2}-[0-9]{2}"))]
Name = Annotated[str, PlainValidator(name), WithJsonSchema(pattern(_NAME.pattern))]
RawPath = Annotated[str, read_as(addresses.path), WithJsonSchema(pattern("/.*"))]
Host = Annotated[str, read_as(addresses.host), WithJsonSchema(_STRING)]
Method = Annotated[
    str, PlainValidator(method), WithJsonSchema(one_word_of((*_METHODS, *map(str.lower, _METHODS))))
]
Place = Annotated[Address, read_as(addresses.address), WithJsonSchema(pattern(".+:[0-9]{1,5}"))]
Network = Annotated[Networks, read_as(addresses.network), WithJsonSchema(_STRING)]
Location = Annotated[
    CoreLocation, PlainValidator(location), WithJsonSchema(pattern(LOCATION_PATTERN))
]
Scope = Annotated[CoreLocation, PlainValidator(scope), WithJsonSchema(_STRING)]
HostHeader = Annotated[str, read_as(addresses.authority), WithJsonSchema(_STRING)]
WebAddress = Annotated[Url, read_as(addresses.url), WithJsonSchema(pattern("https?://.+"))]
ProbeAddress = Annotated[
    ProbeUrl,
    read_as(addresses.probe_url),
    WithJsonSchema(pattern(r"https?://[^/?]+[/?].*\{event_id\}.*")),
]
ContentType = Annotated[str, PlainValidator(content_type), WithJsonSchema(pattern(_MEDIA_TYPE))]
