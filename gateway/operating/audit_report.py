"""What an audit found: as text for a terminal, as JSON, and as CSV.

Findings are written one by one, for there may be a million. In text the summary comes after them,
where a person looks.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from gateway.core.auditing import Standing
from gateway.operating.audit_summary import Report, summary
from gateway.operating.ending import say
from gateway.operating.wording import span, stamp, visible
from gateway.store.audit import ANNOUNCED, Found

_HEADS = {
    Standing.LEAK: "leak: an effect without a claim",
    Standing.LOSS: "loss: a completed claim without an effect",
    Standing.MARKED: "marked: a claim that a backfill made, without an effect",
    Standing.DOUBLE: "double: an event with two effects",
    Standing.MISSING: "missing: sent, says the provider, and without a claim",
    Standing.UNKNOWN: "unknown: a claim that the provider does not list",
}
_BY_AN_OPERATOR = {"complete": "completed by hand", "backfill": "marked by a backfill"}
_COLUMNS = (
    "kind", "event_id", "key", "first", "last", "number", "line",
    "claim", "doubtful", "attempt", "action", "route",
)  # fmt: skip


def show_text(report: Report, findings: Iterable[Found]) -> None:
    """Findings by kind, a line each, then the summary."""
    write = sys.stdout.write
    kind = None
    for one in findings:
        if one.kind != kind:
            write(("\n" if kind else "") + _HEADS[Standing(one.kind)] + "\n")
            kind = one.kind
        write(_line(one, report.unit) + "\n")
    say(("\n" if kind else "") + summary(report))


def show_csv(report: Report, findings: Iterable[Found]) -> None:
    """A row for each finding; the summary goes to standard error."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in findings:
        row = _as_dict(one)
        if one.event_id is not None:
            row["event_id"] = visible(one.event_id)
        writer.writerow([_cell(row[name]) for name in _COLUMNS])
    typer.echo(summary(report), err=True)


def show_json(report: Report, findings: Iterable[Found]) -> None:
    """One document, its findings a line each."""
    write = sys.stdout.write
    write(json.dumps(_head(report), indent=2).removesuffix("\n}") + ',\n  "findings": [')
    divider = "\n"
    for one in findings:
        write(f"{divider}    {json.dumps(_as_dict(one))}")
        divider = ",\n"
    say("\n  ]\n}")


def _head(report: Report) -> dict[str, Any]:
    answer, terms = report.answer, report.answer.terms
    return {
        "route": report.route,
        "against": report.against.value,
        "source": report.source,
        "since": stamp(terms.since),
        "until": stamp(terms.until),
        "memory_begins": stamp(terms.begins),
        "key_on_record": answer.same_key,
        "rows": report.rows,
        "unusable": report.unusable,
        "unusable_examples": list(report.examples),
        "assumed_absent": list(report.absent),
        "claims": answer.claims,
        "found": {kind.value: answer.found(kind) for kind in report.kinds},
        "announced": answer.of_list.get(ANNOUNCED, 0),
        "list": _rest(answer.of_list, report.kinds),
        "claims_not_listed": _rest(answer.of_claims, report.kinds),
        "claimed_by": dict(answer.routes),
        "operations_of_several_events": answer.operations,
        "sample": report.sample,
        "seed": None if report.sample is None else report.seed,
    }


def _rest(counts: Mapping[str, int], kinds: tuple[Standing, ...]) -> dict[str, int]:
    """What is nothing wrong."""
    left_out = {*(kind.value for kind in kinds), ANNOUNCED, Standing.DOUBLE.value}
    return {name: number for name, number in sorted(counts.items()) if name not in left_out}


def _line(one: Found, unit: str) -> str:
    moment = "no time" if one.first is None else stamp(one.first)
    shown = f"key {one.key.hex()}" if one.event_id is None else visible(one.event_id)
    return f"  {moment:<20}  {_note(one, unit):<23}  {shown}"


def _note(one: Found, unit: str) -> str:
    doubtful = ", doubtful" if one.doubtful else ""
    match Standing(one.kind):
        case Standing.MARKED | Standing.LOSS | Standing.UNKNOWN if one.action in _BY_AN_OPERATOR:
            return _BY_AN_OPERATOR[one.action]
        case Standing.LOSS:
            return f"attempt {one.attempt}{doubtful}"
        case Standing.UNKNOWN:
            return f"{one.state}{doubtful}"
        case Standing.DOUBLE:
            length = 0.0 if one.first is None or one.last is None else one.last - one.first
            announced = ", announced" if one.doubtful else ""
            return f"{one.number} in {span(length)}{announced}"
        case _:
            return f"{unit} {one.line}"


def _as_dict(one: Found) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "event_id": one.event_id,
        "key": one.key.hex(),
        "first": None if one.first is None else stamp(one.first),
        "last": None if one.last is None else stamp(one.last),
        "number": one.number,
        "line": one.line,
        "claim": one.state,
        "doubtful": None if one.state is None else one.doubtful,
        "attempt": one.attempt,
        "action": one.action,
        "route": one.route,
    }


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
