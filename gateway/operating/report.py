"""`report`: closes the time that a route was observed for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, assert_never

import typer

from gateway import sources
from gateway.config import Loaded, hide_in
from gateway.core.durations import parse_duration
from gateway.core.findings import (
    ENOUGH_REPEATS,
    ENOUGH_SECONDS,
    Enforced,
    Judged,
    Standing,
    duplicates,
    enforced,
    judge,
)
from gateway.core.observing import Observed, What, print_of
from gateway.core.route import Mode, Route
from gateway.operating import meant, remedies, report_lines
from gateway.operating.ending import ask, say, say_json
from gateway.operating.story import wrapped
from gateway.operating.wording import several, span, stamp
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND
from gateway.sources import Unusable
from gateway.store.operator import Desk

_NOT_ALL = (
    "Gateways store what they noted every 5 seconds. One that was killed has taken its last seconds"
    " with it."
)


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says."""

    route: Route
    provider: str | None
    observed: Observed
    judged: Judged
    enforced: Enforced
    hidden: Mapping[str, str]
    """What not to show, and what to show in its place."""


def report(
    route: Annotated[str, typer.Option("--route", help="The route's name.", metavar="NAME")],
    since: Annotated[
        str | None,
        typer.Option("--since", help="Only what was noted this long ago or later.", metavar="7d"),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a time in observe has shown: duplicates, what enforcing would have done, and whether
    the key looks right.

    Exit 1 when something is wrong with the key. Notes are kept for 90 days, and begin anew when the
    key changes.
    """
    span_ = _span(since)
    loaded = sources.read(config, variables_required=False)
    found = meant.named(loaded, route)
    made = ask(config, lambda desk: _report(desk, found, loaded, span_))
    say_json(as_dict(made)) if as_json else say(as_text(made))
    if made.judged.standing is Standing.WRONG:
        raise typer.Exit(FOUND)


async def _report(desk: Desk, route: Route, loaded: Loaded, seconds: float | None) -> Report:
    after = 0.0 if seconds is None else desk.now - seconds
    observed = await desk.observed(route.name, print_of(route), after)
    provider = loaded.providers.get(route.name)
    return Report(
        route,
        provider,
        observed,
        judge(observed, route),
        enforced(observed, route),
        loaded.hidden,
    )


def _span(since: str | None) -> float | None:
    if since is None:
        return None
    try:
        return parse_duration(since).total_seconds()
    except ValueError as error:
        raise Unusable(f"--since: {error}") from None


def as_text(report: Report) -> str:
    """What `report` prints."""
    observed, route = report.observed, report.route
    rows = [
        ("route", f"{route.name}, in {route.mode.value}"),
        ("key", route.pass_through or remedies.key_of(route)),
    ]
    if observed.deliveries:
        length = span(report.judged.seconds)
        rows += [
            ("noted", f"{stamp(observed.since)} to {stamp(observed.until)}, {length}"),
            ("deliveries", f"{observed.deliveries:,}"),
            ("", ""),
            *_titled("duplicates", report_lines.of_duplicates(observed, route)),
            ("", ""),
            *_titled("enforcing", report_lines.of_enforcing(report.enforced, route)),
        ]
    for one in report.judged.findings:
        rows += [
            ("", ""),
            ("wrong" if one.sure else "perhaps", remedies.said(one, route, observed)),
            ("remedy", remedies.remedy(one, route, observed, report.provider)),
        ]
    rows += [("", ""), *_titled("so", _so_lines(report))]
    shown = hide_in(rows, report.hidden)
    return "\n".join(line for row in shown for line in wrapped(*row))


def as_dict(report: Report) -> dict[str, Any]:
    """What `report --json` prints."""
    observed, judged, oldest = report.observed, report.judged, report.observed.oldest
    noted = observed.deliveries > 0
    floor = report.route.floor
    said = {
        "route": report.route.name,
        "mode": report.route.mode.value,
        "key": remedies.key_of(report.route),
        "since": stamp(observed.since) if noted else None,
        "until": stamp(observed.until) if noted else None,
        "seconds": round(judged.seconds),
        "deliveries": observed.deliveries,
        "under_another_key": observed.other_keys,
        "duplicates": duplicates(observed),
        "oldest_duplicate_seconds": None if oldest is None else round(oldest.greatest),
        "retention_floor_seconds": None if floor is None else round(floor.total_seconds()),
        "taken_again": observed.number(What.TAKEN_AGAIN),
        "items": observed.by_detail(What.ITEM),
        "enforcing": {
            "forwarded": report.enforced.forwarded,
            "again": report.enforced.again,
            "marked": report.enforced.marked,
            "answered": report.enforced.answered,
            "waited": report.enforced.waited,
            "unprotected": report.enforced.unprotected,
            "refused": {str(status): n for status, n in report.enforced.refused.items()},
            "passed": report.enforced.passed,
            "batches": report.enforced.batches,
        },
        "repeats": judged.repeats,
        "standing": judged.standing.value,
        "findings": [
            {
                "kind": one.kind.value,
                "sure": one.sure,
                "number": one.number,
                "of": one.of,
                "example": one.example,
                "detail": one.detail,
                "said": remedies.said(one, report.route, observed),
                "remedy": remedies.remedy(one, report.route, observed, report.provider),
            }
            for one in judged.findings
        ],
    }
    return hide_in(said, report.hidden)


def _so_lines(report: Report) -> Iterator[str]:
    judged, observed, route = report.judged, report.observed, report.route
    match judged.standing:
        case Standing.NOTHING:
            yield (
                "Nothing was noted of this route under its present key and per_attempt."
                + _why_nothing(route)
            )
        case Standing.PASSES:
            yield "The route passes everything on: there is no key to be right or wrong."
        case Standing.WRONG:
            yield (
                "Mend this before you enforce anything. A changed key or per_attempt begins with"
                " nothing noted; of any other change, --since shows what came after it."
            )
        case Standing.EARLY:
            yield (
                f"Too early to say that the key is right: {_came_again(judged)} within"
                f" {span(judged.seconds)}, and {ENOUGH_REPEATS} times within"
                f" {span(ENOUGH_SECONDS)} would be enough. Nothing is known to be wrong."
            )
            yield (
                "Wait, or have the provider send an old event again: it has to appear here as a"
                " duplicate."
            )
        case Standing.RIGHT:
            yield f"The key looks right: {_came_again(judged)}.{_next(route)}"
        case _:
            assert_never(judged.standing)
    if observed.other_keys:
        others = several(observed.other_keys, "delivery", "deliveries")
        yield f"Not counted here: {others} under another key, or another per_attempt."
    if observed.deliveries:
        yield _NOT_ALL


def _came_again(judged: Judged) -> str:
    return (
        f"ids came again {several(judged.repeats, 'time')}"
        if judged.repeats
        else "no id came again"
    )


def _why_nothing(route: Route) -> str:
    if route.mode is Mode.OBSERVE:
        return " Send it some deliveries; gateways store what they note every 5 seconds."
    return f" It is in mode {route.mode.value}: only `observe` is noted."


def _next(route: Route) -> str:
    if route.mode is not Mode.OBSERVE:
        return ""
    return (
        " Change the route to mode: forward. The memory stays: what was completed while observing"
        " is a duplicate from then on."
    )


def _titled(title: str, lines: Iterator[str]) -> list[tuple[str, str]]:
    return [("" if number else title, line) for number, line in enumerate(lines)]
