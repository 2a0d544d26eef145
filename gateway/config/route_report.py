"""What `check` finds of one route."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile

from gateway.config.custody import stores
from gateway.config.loaded import Loaded
from gateway.config.problems import Path, dotted
from gateway.config.remarks import remarks
from gateway.config.sender_report import SenderFindings, sender
from gateway.core.durations import format_duration
from gateway.core.location import Location, describe
from gateway.core.route import Mode, OnDoubt, Route


@dataclass(frozen=True, slots=True)
class Term:
    """One number of the retention's sum, and where it came from."""

    what: str
    span: str
    origin: str


@dataclass(frozen=True, slots=True)
class RouteFindings:
    """One route, in words."""

    name: str
    takes: str
    """Hosts and path."""
    upstream: str
    mode: str
    answered: str
    """Who tells the provider that an event was received."""
    doubt: str | None
    """What happens to an event whose earlier attempt may have had its effect; None in observe."""
    stale: str | None
    """What happens to a new event that is older than the retention; None where nobody looks."""
    stored: str | None
    """How long whole deliveries are tried and kept; None on a route that stores none."""
    methods: str
    """Those that carry events; others pass through."""
    event_id: str | None
    """None where only items have ids, or nothing has."""
    scope: str
    event_type: str | None
    event_time: str | None
    sender: SenderFindings
    floor: str | None
    """None without a promise."""
    terms: tuple[Term, ...]
    retention: str
    retention_origin: str
    accepted: str | None
    """Why a retention below the floor is meant."""
    promise_source: str | None
    """The address where the provider says so, and the day somebody looked."""
    remarks: tuple[str, ...]
    """What the route's choices mean, a sentence each."""
    origins: dict[str, str]
    """Who set what; what is not here has its default."""


def route_findings(loaded: Loaded, index: int, route: Route) -> RouteFindings:
    """One of the configuration's routes, by its place."""
    promise, upstream, batch = route.promise, route.upstream, route.batch
    source = None
    if promise is not None and promise.source:
        source = f"{promise.source} (looked at {promise.checked or 'on an unknown day'})"
    return RouteFindings(
        name=route.name,
        takes=f"{', '.join(route.hosts) or 'any host'} {route.path or '/'}",
        upstream=f"{upstream.scheme}://{upstream.authority}{upstream.path or ''}",
        mode=route.mode.value,
        answered=_answered(route),
        doubt=_doubt(route),
        stale=_stale(route),
        stored=_stored(route),
        methods=" ".join(sorted(route.methods, key=_usual)),
        event_id=", ".join(describe(part) for part in route.recipe.parts) or None,
        scope=", ".join(describe(part) for part in route.recipe.scope),
        event_type=_place(route.event_type, None if batch is None else batch.event_type),
        event_time=_place(route.event_time, None if batch is None else batch.event_time),
        sender=sender(loaded, index, route),
        floor=None if route.floor is None else format_duration(route.floor),
        terms=_terms(loaded, index, route),
        retention=format_duration(route.retention),
        retention_origin=_retention_origin(loaded, index, route),
        accepted=loaded.accepted_short_retention.get(route.name),
        promise_source=source,
        remarks=remarks(route),
        origins=_origins(loaded, index),
    )


def _place(of_body: Location | None, of_item: Location | None) -> str | None:
    places = [describe(one) for one in (of_item, of_body) if one is not None]
    return ", else ".join(dict.fromkeys(places)) or None


def _origins(loaded: Loaded, index: int) -> dict[str, str]:
    """Of the settings that have no members; a list counts as one."""
    here: Path = ("routes", index)
    set_here = [path for path in loaded.origins if path[:2] == here and len(path) > 2]
    around = {path[:-1] for path in set_here if isinstance(path[-1], str)}
    found: dict[str, str] = {}
    for path in sorted(set_here, key=len):
        tail = tuple(takewhile(lambda step: isinstance(step, str), path[2:]))
        if path not in around and (*here, *tail) not in around:
            found.setdefault(dotted(tail), loaded.source_of(*path))
    return found


def _answered(route: Route) -> str:
    if route.mode is Mode.INBOX:
        return "by the gateway at once, when the delivery is stored"
    if route.mode is Mode.OBSERVE or route.acknowledge_after is None:
        return "by the consumer"
    return f"by the consumer; by the gateway after {_span(route.acknowledge_after)}"


def _doubt(route: Route) -> str | None:
    if route.mode is Mode.OBSERVE:
        return None
    if route.on_doubt is not OnDoubt.PROBE or route.probe is None:
        return route.on_doubt.value
    probe = route.probe
    url = f"{probe.upstream.scheme}://{probe.upstream.authority}{probe.shown}"
    waits = f"within {_span(probe.upstream.timeout)}, hold after {_span(probe.give_up)}"
    return f"probe {url} {waits}"


def _stale(route: Route) -> str | None:
    watched = route.mode is not Mode.OBSERVE and route.event_time is not None
    return route.on_stale.value if watched else None


def _stored(route: Route) -> str | None:
    if not stores(route):
        return None
    retry, kept = route.retry, format_duration(route.keep_payload)
    most = f", {route.high_water} at most" if route.mode is Mode.INBOX else ""
    tried = f"tried every {_span(retry.base)} to {_span(retry.cap)} for {_span(retry.give_up)}"
    return f"{tried}, kept {kept} once delivered{most}"


def _span(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def _usual(method: str) -> tuple[int, str]:
    """POST first: it is the one that matters."""
    usual = ("POST", "PUT", "PATCH", "DELETE")
    return usual.index(method) if method in usual else len(usual), method


def _terms(loaded: Loaded, index: int, route: Route) -> tuple[Term, ...]:
    if route.promise is None:
        return ()
    own = loaded.source_of("routes", index, "own_replay")
    if own == "default" and route.mode is Mode.INBOX:
        own = "default in inbox: retry.give_up"
    return (
        _promised(loaded, index, "retry_horizon", route.promise.retry_horizon),
        _promised(loaded, index, "redrive_window", route.promise.redrive_window),
        Term("own replay", format_duration(route.own_replay), own),
    )


def _promised(loaded: Loaded, index: int, name: str, span: timedelta) -> Term:
    origin = loaded.source_of("routes", index, "promise", name)
    if origin == "default":
        origin = "unknown, counted as 7d"
    return Term(name.replace("_", " "), format_duration(span), origin)


def _retention_origin(loaded: Loaded, index: int, route: Route) -> str:
    origin = loaded.source_of("routes", index, "retention")
    if origin != "default":
        return origin
    return "default: 60d without a promise" if route.floor is None else "default: floor + a quarter"
