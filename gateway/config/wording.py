"""Wording: pydantic's complaints in our words and at the user's places."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from gateway.config.addresses import redacted
from gateway.config.document import Document
from gateway.config.kinds import ONE_VALUE
from gateway.config.problems import Fault, Path, dotted
from gateway.config.settings import Settings

_EXAMPLES = {
    "store": 'store: {dsn: "${DATABASE_URL}"} or store: {embedded: ./data}',
    "routes": "routes: and under it a list of {name, path, event_id, upstream}",
    "name": "name: orders",
    "path": "path: /hooks/orders",
    "event_id": "event_id: json:/id, or header:NAME, form:NAME, query:NAME",
    "upstream": "upstream: {url: http://127.0.0.1:3000}",
    "url": "url: http://127.0.0.1:3000",
    "probe.url": 'url: "http://127.0.0.1:3000/known?id={event_id}"',
    "address": "address: 127.0.0.1:8080",
    "batch.event_id": "event_id: json:/id, which starts at the item",
    "items": "items: json:/events, or json:/* for a body that is a list",
    "match": "match: [json:/type = verification]",
    "cert": "cert: FILE",
    "key": "key: FILE",
}


_NO_MAPPING = "is not a mapping"
# Settings that people write as their most important member.
_INSIDE = {
    "upstream": "url",
    "admin": "listen",
    "store": "dsn",
    "probe": "url",
    "retry": "give_up",
    "signature": "secrets",
    "batch": "items",
}


def faults(error: ValidationError, document: Document) -> list[Fault]:
    """Each of pydantic's errors, once."""
    found = []
    for one in error.errors(include_url=False, include_input=False):
        # An unknown or missing member has no place of its own: its parent has.
        last = one["loc"][-1:] if one["type"] in ("missing", "extra_forbidden") else ()
        path = document.known(one["loc"][: len(one["loc"]) - len(last)]) + last
        message, remedy = _said(one["type"], one, path)
        if message == _NO_MAPPING and (inside := _INSIDE.get(str(path[-1]))):
            remedy = _as_mapping(str(path[-1]), inside, document.text(path))
        if remedy == ONE_VALUE and document.origin(path).from_environment:
            # Quotes around all of a variable would be part of the value.
            remedy = f"set {dotted(path[:-1])} as a whole, and in it this value in quotes"
        found.append(Fault(path, message, remedy))
    return found


def _as_mapping(name: str, inside: str, text: str | None) -> str:
    # A store's address may hold a password, and so may anybody's URL; a signature's are secrets.
    shown = "…" if text is None or name in ("store", "signature") else redacted(text)
    return f'write {name}: {{{inside}: "{shown}"}}'


def _said(kind: str, error: Any, path: Path) -> tuple[str, str]:
    match kind:
        case "value_error":
            message, _, remedy = str(error["ctx"]["error"]).partition("; ")
            return message, remedy
        case "missing":
            name = str(path[-1])
            example = _EXAMPLES.get(dotted(path[-2:])) or _EXAMPLES.get(name, f"{name}: …")
            return "missing", f"write {example}"
        case "extra_forbidden":
            return "unknown setting", _meant(path)
        case "model_type" | "model_attributes_type" | "dict_type":
            return _NO_MAPPING, "write its settings as name: value, indented below it"
        case "list_type" | "tuple_type":
            return "is not a list", "write its items with a dash each, or in [brackets]"
        case _:
            return str(error["msg"]).lower(), "see `dedup-gateway schema`"


def _meant(path: Path) -> str:
    name = str(path[-1])
    siblings = list(_members(Settings, path[:-1]))
    if near := get_close_matches(name.replace("-", "_"), siblings, 1, cutoff=0.7):
        return f"did you mean {near[0]}?"
    here = tuple(step for step in path[:-1] if isinstance(step, str))
    places = [place for place in _places(Settings) if place[-1] == name]
    if places:
        place = min(places, key=lambda place: (_apart(place[:-1], here), len(place)))
        return f"did you mean {dotted(place)}?"
    return f"write one of: {', '.join(siblings)}"


def _apart(one: Path, other: Path) -> int:
    shared = sum(1 for a, b in zip(one, other, strict=False) if a == b)
    return len(one) + len(other) - 2 * shared


def _members(model: type[BaseModel], path: Path) -> dict[str, Any]:
    """The settings of the model at a path."""
    for step in path:
        fields = _fields(model)
        if isinstance(step, str) and step in fields:
            model = next(_models(fields[step].annotation), model)
    return _fields(model)


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """By the names that people write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _places(model: type[BaseModel], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all settings, without indices."""
    places = []
    for name, field in _fields(model).items():
        places.append((*above, name))
        for inner in _models(field.annotation):
            places += _places(inner, (*above, name))
    return places
