"""Reports: what a valid configuration means, for the person who is about to run it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import assert_never

from gateway.config.hiding import hide_in
from gateway.config.loaded import Dsn, Embedded, Loaded
from gateway.config.memory_report import MemoryFindings, memory_notices, memory_wrong
from gateway.config.problems import Problem
from gateway.config.route_lines import route_lines, wrapped
from gateway.config.route_report import RouteFindings, route_findings


@dataclass(frozen=True, slots=True)
class StoreFindings:
    """What the store said when it was asked."""

    version: str
    risks: tuple[str, ...]
    """How it may lose what it confirmed."""
    memory: MemoryFindings | None
    """None where its schema keeps no record of that, or there is none yet."""


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
        routes=tuple(
            hide_in(route_findings(loaded, index, route), loaded.hidden)
            for index, route in enumerate(loaded.routes)
        ),
        wrong=(*loaded.shortfalls, *_told(loaded, memory_wrong, answers)),
        notices=(
            *(one for one in loaded.notices if one not in loaded.shortfalls),
            *_told(loaded, memory_notices, answers),
        ),
    )


def _told(
    loaded: Loaded,
    by: Callable[[Loaded, MemoryFindings], Iterable[Problem]],
    answers: StoreFindings | None,
) -> tuple[Problem, ...]:
    if answers is None or answers.memory is None:
        return ()
    return hide_in(tuple(by(loaded, answers.memory)), loaded.hidden)


def as_text(findings: Findings) -> str:
    """What `check` prints."""
    lines = [
        f"deliveries  {', '.join(findings.listen)}",
        f"admin       {findings.admin}",
        f"store       {findings.store}",
        *_store_lines(findings.answers),
    ]
    for route in findings.routes:
        lines += ["", *route_lines(route)]
    lines += ["", *_remark_lines(findings.routes)]
    for title, problems in (("wrong", findings.wrong), ("notices", findings.notices)):
        if problems:
            lines += ["", f"{title}:"]
            for problem in problems:
                lines += wrapped(str(problem), "  - ")
    lines += ["", "something is wrong" if findings.unsafe else "ok"]
    return "\n".join(lines)


def as_json(findings: Findings) -> str:
    """What `check --json` prints."""
    return json.dumps({"ok": not findings.unsafe, **asdict(findings)}, indent=2, ensure_ascii=False)


def _store_lines(answers: StoreFindings | None) -> list[str]:
    if answers is None:
        return []
    lines = [f"  answers   PostgreSQL {answers.version}"]
    if answers.memory is None:
        lines.append("            without a record of what it remembers: `migrate` brings that")
    for risk in answers.risks:
        lines += wrapped(risk, "  - ")
    return lines


def _store(loaded: Loaded) -> str:
    match loaded.store:
        case Dsn():
            return str(loaded.store)
        case Embedded(path=path):
            return f"embedded in {path or 'a folder of its own'}"
        case _:
            assert_never(loaded.store)


def _remark_lines(routes: tuple[RouteFindings, ...]) -> Iterable[str]:
    """Each remark once, with the names of its routes unless it is about all of them."""
    meant: dict[str, list[str]] = {}
    for route in routes:
        for remark in route.remarks:
            meant.setdefault(remark, []).append(route.name)
    yield "what that means:"
    for remark, names in meant.items():
        whose = "" if len(names) == len(routes) else f"({', '.join(names)}) "
        yield from wrapped(f"{whose}{remark}", "  - ")
