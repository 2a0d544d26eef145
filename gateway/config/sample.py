"""Samples: what the gateway would make of a request that somebody has in a file. Sends nothing."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from gateway.config import absence
from gateway.config.loaded import Loaded
from gateway.core.addressing import RouteTable
from gateway.core.event import Delivery, EventKey, RawHeaders
from gateway.core.headers import BadNomination, end_to_end
from gateway.core.keying import Conflicting, Missing, Reading, Recipe
from gateway.core.location import Location, describe, parse_location
from gateway.core.retention import parse_event_time
from gateway.core.route import OnMissingId, Probe, Route

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (/[!-~]*) HTTP/1\.[01]\r?\n")


@dataclass(frozen=True, slots=True)
class Part:
    """One location and what was there."""

    where: str
    value: str | None
    """None where nothing usable is."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, as a route reads it."""

    route: str | None
    """The route's name; None for no route."""
    verdict: str
    """`keyed`, `unkeyed`, `passed`, `refused` or `no_route`."""
    why: str | None
    scope: tuple[Part, ...] = ()
    parts: tuple[Part, ...] = ()
    event_id: str | None = None
    key: str | None = None
    """32 hex digits."""
    event_type: str | None = None
    event_time: str | None = None
    """In UTC, or what was there and cannot be used."""
    probe: str | None = None
    """The question to the consumer that this event would lead to if it were in doubt."""
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the route does with it what it is there for."""
        return self.verdict in ("keyed", "passed")


def try_sample(loaded: Loaded, route_name: str | None, raw: bytes) -> Sample:
    """Read a whole HTTP request, or only a body, as a route would.

    Without a name the request's own target and Host choose the route. Raises ValueError that says
    what there is when no route has that name.
    """
    delivery, notes = _delivery(raw)
    found = RouteTable(loaded.routes).find(delivery.target, delivery.header(b"host"))
    route = found if route_name is None else _named(loaded, route_name)
    if route is None:
        return Sample(None, "no_route", "no route takes this host and path: 404", notes=notes)
    if delivery.headers and found is not route:
        there = "no route" if found is None else f"the route {found.name}"
        notes = (*notes, f"by its host and path this request would go to {there}")
    return replace(_read(route, delivery), notes=notes)


def as_text(sample: Sample) -> str:
    """What `try` prints."""
    rows = [
        ("route", sample.route or "none"),
        ("verdict", sample.verdict),
        ("why", sample.why),
        *((f"scope {part.where}", part.value) for part in sample.scope),
        *((f"part {part.where}", part.value) for part in sample.parts),
        ("event id", sample.event_id),
        ("key", sample.key),
        ("event type", sample.event_type),
        ("event time", sample.event_time),
        ("in doubt, asked", sample.probe),
        *(("note", note) for note in sample.notes),
    ]
    return "\n".join(f"{name:<24} {value}" for name, value in rows if value is not None)


def as_json(sample: Sample) -> str:
    """What `try --json` prints."""
    return json.dumps(asdict(sample), indent=2)


def _named(loaded: Loaded, name: str) -> Route:
    for route in loaded.routes:
        if route.name == name:
            return route
    there = ", ".join(route.name for route in loaded.routes)
    raise ValueError(f"no route is called {name!r}; there is {there}")


def _read(route: Route, delivery: Delivery) -> Sample:
    if delivery.method not in route.methods:
        why = f"{delivery.method} is not among the route's methods: forwarded, never claimed"
        return Sample(route.name, "passed", why)
    try:
        lines = end_to_end(delivery.headers, route.recipe.headers())
    except BadNomination as error:
        return Sample(route.name, "refused", f"Connection names {error}, which decides: 400")
    reading = Reading(delivery._replace(headers=lines))
    sample = Sample(
        route.name,
        *_verdict(route, reading),
        scope=_parts(reading, route.recipe.scope),
        parts=_parts(reading, route.recipe.parts),
        event_type=None if route.event_type is None else reading.text(route.event_type),
        event_time=None if route.event_time is None else _time(reading, route.event_time),
    )
    key = reading.identify(route.recipe)
    if isinstance(key, EventKey):
        probe = None if route.probe is None else _question(route.probe, key.event_id)
        return replace(sample, event_id=key.event_id, key=key.digest.hex(), probe=probe)
    return sample


def _verdict(route: Route, reading: Reading) -> tuple[str, str | None]:
    match reading.identify(route.recipe):
        case EventKey():
            return "keyed", None
        case Missing(where):
            why = absence.reason(reading.delivery, parse_location(where))
            said = f"no usable id at {where} ({why})"
            if route.missing_id is OnMissingId.REFUSE:
                return "refused", f"{said}: 400"
            return "unkeyed", f"{said}: forwarded unprotected"
        case Conflicting(where, why):
            return "refused", f"{where}: {why}: 400"
        case other:
            assert_never(other)


def _question(probe: Probe, event_id: str) -> str:
    upstream = probe.upstream
    asked = replace(probe, target=probe.shown).target_of(event_id)
    return f"GET {upstream.scheme}://{upstream.authority}{asked}"


def _parts(reading: Reading, locations: tuple[Location, ...]) -> tuple[Part, ...]:
    parts = []
    for location in locations:
        found = reading.identify(Recipe((), (location,)))
        value = found.event_id if isinstance(found, EventKey) else None
        parts.append(Part(describe(location), value))
    return tuple(parts)


def _time(reading: Reading, location: Location) -> str | None:
    text = reading.text(location)
    if text is None:
        return None
    seconds = parse_event_time(text)
    if seconds is None:
        return f"{text} (not used: neither RFC 3339 with an offset nor an epoch)"
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{text} (beyond the calendar)"


def _delivery(raw: bytes) -> tuple[Delivery, tuple[str, ...]]:
    line = _REQUEST_LINE.match(raw)
    if line is None:
        note = "taken as a body: POST, no headers, no query"
        return Delivery("POST", "/", (), raw, "127.0.0.1", "http"), (note,)
    head, *rest = re.split(rb"\r?\n\r?\n", raw[line.end() - 1 :], maxsplit=1)
    lines, body = _lines(head), rest[0] if rest else b""
    delivery = Delivery(line[1].decode(), line[2].decode(), lines, body, "127.0.0.1", "http")
    if (delivery.header(b"transfer-encoding") or b"").strip().lower() == b"chunked":
        note = "chunked: the body is read as it stands; save it without the chunk sizes"
        return delivery, (note,)
    length = delivery.header(b"content-length")
    if length is not None and length.isdigit() and int(length) != len(body):
        note = f"Content-Length says {int(length)} bytes, the file has {len(body)} after the head"
        return delivery._replace(body=body[: int(length)]), (note,)
    return delivery, ()


def _lines(head: bytes) -> RawHeaders:
    found = []
    for line in re.split(rb"\r?\n", head):
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name, value.strip(b" \t")))
    return tuple(found)
