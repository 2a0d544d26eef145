"""Reports: what a valid configuration means, for the person who is about to run it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import assert_never

from gateway.config.custody import stores
from gateway.config.loaded import Dsn, Embedded, Loaded
from gateway.config.problems import Problem
from gateway.config.remarks import remarks
from gateway.core.durations import format_duration
from gateway.core.location import describe
from gateway.core.route import Mode, OnDoubt, Route

WIDTH = 80  # of a terminal that nobody has made wider


@dataclass(frozen=True, slots=True)
class Term:
    """One number of the retention's sum, and where it came from."""

    what: str
    span: str
    origin: str


@dataclass(frozen=True, slots=True)
class StoreFindings:
    """What the store said when it was asked."""

    version: str
    risks: tuple[str, ...]
    """How it may lose what it confirmed."""


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
    event_id: str
    scope: str
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


@dataclass(frozen=True, slots=True)
class Findings:
    """The whole configuration, in words."""

    listen: tuple[str, ...]
    admin: str
    store: str
    answers: StoreFindings | None
    """None where the store was not asked."""
    routes: tuple[RouteFindings, ...]
    wrong: tuple[Problem, ...]
    """Allowed at start, and yet a reason to exit with 1."""
    notices: tuple[Problem, ...]
    """Worth a look, wrong ones left out."""

    @property
    def unsafe(self) -> bool:
        """Whether `check` ends with 1."""
        return bool(self.wrong) or (self.answers is not None and bool(self.answers.risks))


def check(loaded: Loaded, answers: StoreFindings | None = None) -> Findings:
    """Everything worth knowing before the configuration is used. Looks at nothing but itself.

    `answers`: of the store, where it was asked.
    """
    return Findings(
        listen=tuple(
            f"{one.host}:{one.port}" + (" tls" if one.tls else "") for one in loaded.listen
        ),
        admin=f"{loaded.admin.host}:{loaded.admin.port}",
        store=_store(loaded),
        answers=answers,
        routes=tuple(_route(loaded, index, route) for index, route in enumerate(loaded.routes)),
        wrong=loaded.shortfalls,
        notices=tuple(one for one in loaded.notices if one not in loaded.shortfalls),
    )


def as_text(findings: Findings) -> str:
    """What `check` prints."""
    lines = [
        f"deliveries  {', '.join(findings.listen)}",
        f"admin       {findings.admin}",
        f"store       {findings.store}",
        *_store_lines(findings.answers),
    ]
    for route in findings.routes:
        lines += ["", *_route_lines(route)]
    lines += ["", *_remark_lines(findings.routes)]
    for title, problems in (("wrong", findings.wrong), ("notices", findings.notices)):
        if problems:
            lines += ["", f"{title}:"]
            for problem in problems:
                lines += _wrapped(str(problem), "  - ")
    lines += ["", "something is wrong" if findings.unsafe else "ok"]
    return "\n".join(lines)


def as_json(findings: Findings) -> str:
    """What `check --json` prints."""
    return json.dumps({"ok": not findings.unsafe, **asdict(findings)}, indent=2, ensure_ascii=False)


def _store_lines(answers: StoreFindings | None) -> list[str]:
    if answers is None:
        return []
    lines = [f"  answers   PostgreSQL {answers.version}"]
    for risk in answers.risks:
        lines += _wrapped(risk, "  - ")
    return lines


def _store(loaded: Loaded) -> str:
    match loaded.store:
        case Dsn():
            return str(loaded.store)
        case Embedded(path=path):
            return f"embedded in {path or 'a folder of its own'}"
        case _:
            assert_never(loaded.store)


def _route(loaded: Loaded, index: int, route: Route) -> RouteFindings:
    promise, upstream = route.promise, route.upstream
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
        event_id=", ".join(describe(part) for part in route.recipe.parts),
        scope=", ".join(describe(part) for part in route.recipe.scope),
        floor=None if route.floor is None else format_duration(route.floor),
        terms=_terms(loaded, index, route),
        retention=format_duration(route.retention),
        retention_origin=_retention_origin(loaded, index, route),
        accepted=loaded.accepted_short_retention.get(route.name),
        promise_source=source,
        remarks=remarks(route),
    )


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


def _remark_lines(routes: tuple[RouteFindings, ...]) -> Iterable[str]:
    """Each remark once, with the names of its routes unless it is about all of them."""
    meant: dict[str, list[str]] = {}
    for route in routes:
        for remark in route.remarks:
            meant.setdefault(remark, []).append(route.name)
    yield "what that means:"
    for remark, names in meant.items():
        whose = "" if len(names) == len(routes) else f"({', '.join(names)}) "
        yield from _wrapped(f"{whose}{remark}", "  - ")


def _route_lines(route: RouteFindings) -> Iterable[str]:
    yield from _wrapped(f"{route.takes} -> {route.upstream}", f"route {route.name}: ")
    yield f"  mode        {route.mode}"
    yield f"  answered    {route.answered}"
    for name, said in (("doubt", route.doubt), ("stale", route.stale), ("stored", route.stored)):
        if said:
            yield from _wrapped(said, f"  {name:<12}")
    yield f"  methods     {route.methods}"
    yield from _wrapped(f"{route.event_id} (unique within {route.scope})", "  event id    ")
    if route.floor is None:
        yield "  floor       unknown: no promise on file"
    else:
        total = " + ".join(f"{term.what} {term.span}" for term in route.terms)
        yield from _wrapped(f"{route.floor} = {total}", "  floor       ")
        for term in route.terms:
            yield from _wrapped(f"{term.what}: {term.origin}", "                ")
    if route.promise_source:
        yield from _wrapped(route.promise_source, "  promise     ")
    yield from _wrapped(f"{route.retention} ({route.retention_origin})", "  retention   ")
    if route.accepted:
        yield from _wrapped(route.accepted, "  accepted    ")


def _wrapped(text: str, first: str) -> list[str]:
    """Within 80 columns; what has no blanks, such as an address, stays whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * min(len(first), 16),
        break_long_words=False,
        break_on_hyphens=False,
    )
