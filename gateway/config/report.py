"""Reports: findings, samples and mistakes as text for people and as data for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from gateway.config.check import Findings, RouteFindings
from gateway.config.problems import Problem
from gateway.config.sample import Sample


def findings_text(findings: Findings) -> str:
    """What `check` prints."""
    lines = [
        f"deliveries  {', '.join(findings.listen)}",
        f"admin       {findings.admin}",
        f"store       {findings.store}",
    ]
    for route in findings.routes:
        lines += ["", *_route(route)]
    for title, problems in (("wrong", findings.wrong), ("notices", findings.notices)):
        if problems:
            lines += ["", f"{title}:", *(f"  {problem}" for problem in problems)]
    lines += ["", "something is wrong" if findings.wrong else "ok"]
    return "\n".join(lines)


def findings_json(findings: Findings) -> dict[str, Any]:
    """What `check --json` prints."""
    return {"ok": not findings.wrong, **asdict(findings)}


def problems_json(problems: Iterable[Problem]) -> dict[str, Any]:
    """What `check --json` prints for a configuration that cannot be used."""
    return {"ok": False, "problems": [asdict(problem) for problem in problems]}


def sample_text(sample: Sample) -> str:
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
        *(("note", note) for note in sample.notes),
    ]
    return "\n".join(f"{name:<24} {value}" for name, value in rows if value is not None)


def sample_json(sample: Sample) -> dict[str, Any]:
    """What `try --json` prints."""
    return asdict(sample)


def _route(route: RouteFindings) -> Iterable[str]:
    yield f"route {route.name}: {route.takes} -> {route.upstream}"
    yield f"  mode        {route.mode}"
    yield f"  event id    {route.event_id} (unique within {route.scope})"
    if route.floor is None:
        yield "  floor       unknown: no promise on file"
    else:
        total = " + ".join(f"{term.what} {term.span}" for term in route.terms)
        yield f"  floor       {route.floor} = {total}"
        for term in route.terms:
            yield f"                {term.what}: {term.origin}"
    if route.promise_source:
        yield f"  promise     {route.promise_source}"
    yield f"  retention   {route.retention} ({route.retention_origin})"
    if route.accepted:
        yield f"  accepted    {route.accepted}"
    for remark in route.remarks:
        yield f"  - {remark}"
