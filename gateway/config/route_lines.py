"""Lines of one route, as `check` prints them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from gateway.config.route_report import RouteFindings
from gateway.config.sender_report import SenderFindings, Unproven

WIDTH = 80  # of a terminal that nobody has made wider
_UNDER = " " * 16
_IN_FILE = re.compile(r"(.+) line (\d+)")


def route_lines(route: RouteFindings) -> Iterator[str]:
    """One route, within 80 columns."""
    yield from wrapped(f"{route.takes} -> {route.upstream}", f"route {route.name}: ")
    yield from _rows(_provider(route.sender))
    yield from _rows((("mode", route.mode), ("answered", route.answered)))
    if route.sender.pass_through is None:
        yield from _rows(
            (("doubt", route.doubt), ("stale", route.stale), ("stored", route.stored)),
        )
        yield f"  methods     {route.methods}"
        yield from _rows(_events(route))
    yield from _rows(_trust(route.sender))
    if route.sender.pass_through is None:
        yield from _rows((("duplicates", f"are told {route.sender.duplicates}"),))
    yield from _rows((("special", route.sender.special),))
    if route.sender.pass_through is None:
        yield from _memory(route)
    yield from _evidence(route)


def _rows(rows: tuple[tuple[str, str | None], ...]) -> Iterator[str]:
    for name, said in rows:
        if said:
            yield from wrapped(said, f"  {name:<12}")


def _provider(sender: SenderFindings) -> tuple[tuple[str, str | None], ...]:
    return (
        ("provider", sender.provider),
        ("passes", sender.pass_through),
        ("doubtful", sender.doubt),
    )


def _events(route: RouteFindings) -> tuple[tuple[str, str | None], ...]:
    sender = route.sender
    within = f"(unique within {route.scope})"
    return (
        ("event id", route.event_id and f"{route.event_id} {within}"),
        ("batch", sender.batch and f"{sender.batch} {within if not route.event_id else ''}"),
        ("operation", sender.operation_key and f"{sender.operation_key}, in place of the id"),
        ("event type", route.event_type),
        ("event time", route.event_time),
        ("per attempt", sender.per_attempt),
    )


def _trust(sender: SenderFindings) -> tuple[tuple[str, str | None], ...]:
    shown = ""
    if not sender.signature.startswith("not checked"):
        shown = f"; shown right by {sender.verified_by}" if sender.verified_by else "; unverified"
    anew = "with the first secret and a fresh time, for the consumer" if sender.resign else None
    return (
        ("signature", sender.signature + shown),
        ("not signed", sender.unsigned),
        ("signed anew", anew),
        ("late", sender.late_delivery),
        *(("handshake", one) for one in sender.handshakes),
    )


def _memory(route: RouteFindings) -> Iterator[str]:
    if route.floor is None:
        yield "  floor       unknown: no promise on file"
    else:
        total = " + ".join(f"{term.what} {term.span}" for term in route.terms)
        yield from wrapped(f"{route.floor} = {total}", "  floor       ")
        for term in route.terms:
            yield from wrapped(f"{term.what}: {term.origin}", _UNDER)
    if route.promise_source:
        yield from wrapped(route.promise_source, "  promise     ")
    yield from wrapped(f"{route.retention} ({route.retention_origin})", "  retention   ")
    if route.accepted:
        yield from wrapped(route.accepted, "  accepted    ")


def _evidence(route: RouteFindings) -> Iterator[str]:
    sender = route.sender
    first = "  unproven    "
    for one in sender.unproven:
        yield from wrapped(_unproven(one), first)
        first = " " * len(first)
    first = "  set by      "
    for who, names in _by_origin(route.origins).items():
        yield from wrapped(f"{who}: {', '.join(names)}", first)
        first = " " * len(first)
    yield from wrapped("default: everything else", first)
    if sender.provider is not None:
        traps = "1 trap" if sender.traps == 1 else f"{sender.traps} traps"
        name = sender.provider.partition("(preset ")[2].partition(",")[0]
        see = f"`dedup-gateway providers {name}` has the sources, and {traps}"
        yield from wrapped(see, "  more        ")


def _unproven(one: Unproven) -> str:
    value = "" if one.value is None else f" {one.value}"
    note = "" if one.note is None else f": {' '.join(one.note.split())}"
    return f"{one.setting}{value} ({one.confidence}){note}"


def _by_origin(origins: dict[str, str]) -> dict[str, list[str]]:
    """Settings by who set them; those of a file with their lines."""
    found: dict[str, list[str]] = {}
    for name, who in origins.items():
        match = _IN_FILE.fullmatch(who)
        if match is None:
            found.setdefault(who, []).append(name)
        else:
            found.setdefault(match[1], []).append(f"{name} (line {match[2]})")
    return found


def wrapped(text: str, first: str) -> list[str]:
    """Within 80 columns; what has no blanks, such as an address, stays whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * min(len(first), 16),
        break_long_words=False,
        break_on_hyphens=False,
    )
