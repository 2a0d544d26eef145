"""Samples: what the gateway would make of a request that somebody has in a file. Sends nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from gateway.config.hiding import hide_in
from gateway.config.loaded import Loaded
from gateway.config.request_file import read_request
from gateway.config.trial import Part, SampleItem, Trial, tried
from gateway.core.addressing import RouteTable
from gateway.core.route import Route

# So many items are printed; the rest is counted.
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, as a route reads it."""

    route: str | None
    """The route's name; None for no route."""
    verdict: str
    """`keyed`, `unkeyed`, `passed`, `refused` or `no_route`."""
    why: str | None
    signature: str | None = None
    """Whether the provider signed it; None where nobody checks."""
    handshake: str | None = None
    """What becomes of it, if it is one."""
    scope: tuple[Part, ...] = ()
    parts: tuple[Part, ...] = ()
    operation: tuple[Part, ...] = ()
    """What the key is made of instead of the id."""
    items: tuple[SampleItem, ...] = ()
    """Of a batch."""
    event_id: str | None = None
    key: str | None = None
    """32 hex digits."""
    event_type: str | None = None
    event_time: str | None = None
    """In UTC, or what was there and cannot be used."""
    left_out: tuple[str, ...] = ()
    """Members that change with every attempt and were there: they make no mismatch."""
    duplicate: str | None = None
    """What a duplicate of it would be told."""
    probe: str | None = None
    """The question to the consumer that this event would lead to if it were in doubt."""
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the route does with it what it is there for."""
        return self.verdict in ("keyed", "passed")


def try_sample(loaded: Loaded, route_name: str | None, raw: bytes, now: float = 0.0) -> Sample:
    """Read a whole HTTP request, or only a body, as a route would.

    Without a name the request's own target and Host choose the route. `now`: epoch seconds, for
    signed time stamps. Raises ValueError that says what there is when no route has that name.
    """
    delivery, notes = read_request(raw)
    found = RouteTable(loaded.routes).find(delivery.target, delivery.header(b"host"))
    route = found if route_name is None else _named(loaded, route_name)
    if route is None:
        return Sample(None, "no_route", "no route takes this host and path: 404", notes=notes)
    if delivery.headers and found is not route:
        there = "no route" if found is None else f"the route {found.name}"
        notes = (*notes, f"by its host and path this request would go to {there}")
    if (setting := loaded.unknown_keys.get(route.name)) is not None:
        notes = (*notes, f"{setting} has a variable that is not set here: the key is another one")
    trial = Trial(loaded, loaded.routes.index(route), route, delivery, now)
    made = Sample(route.name, **tried(trial))
    return hide_in(replace(made, notes=(*notes, *made.notes)), loaded.hidden)


def as_text(sample: Sample) -> str:
    """What `try` prints."""
    rows = [
        ("route", sample.route or "none"),
        ("verdict", sample.verdict),
        ("why", sample.why),
        ("signature", sample.signature),
        ("handshake", sample.handshake),
        *((f"scope {part.where}", part.value) for part in sample.scope),
        *((f"part {part.where}", part.value) for part in sample.parts),
        *((f"operation {part.where}", part.value) for part in sample.operation),
        ("event id", sample.event_id),
        ("key", sample.key),
        ("event type", sample.event_type),
        ("event time", sample.event_time),
        *_item_rows(sample.items),
        *(("not compared", member) for member in sample.left_out),
        ("a duplicate is told", sample.duplicate),
        ("in doubt, asked", sample.probe),
        *(("note", note) for note in sample.notes),
    ]
    return "\n".join(f"{name:<24} {value}" for name, value in rows if value is not None)


def _item_rows(items: tuple[SampleItem, ...]) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = []
    for number, item in enumerate(items[:_MOST_SHOWN]):
        if item.key is None:
            rows.append((f"item {number}", f"no usable id ({item.why}), so it counts as new"))
            continue
        facts = [str(item.event_id), item.event_type, item.event_time]
        rows.append((f"item {number}", ", ".join(fact for fact in facts if fact is not None)))
        rows.append(("  key", item.key + (" (a repeat in this body)" if item.repeat else "")))
    if len(items) > _MOST_SHOWN:
        rows.append(("items", f"and {len(items) - _MOST_SHOWN} more, {len(items)} in all"))
    return rows


def as_json(sample: Sample) -> str:
    """What `try --json` prints."""
    return json.dumps(asdict(sample), indent=2)


def _named(loaded: Loaded, name: str) -> Route:
    for route in loaded.routes:
        if route.name == name:
            return route
    there = ", ".join(route.name for route in loaded.routes)
    raise ValueError(f"no route is called {name!r}; there is {there}")
