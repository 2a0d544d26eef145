"""What a rule is, and the pieces that its expression is made of.

Counters are summed over the gateways. A counter that begins at one has not *increased* for
Prometheus, so where a single event is worth an alert, all that a young process has counted is taken
for new: it happened since that process started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.core.durations import parse_duration
from gateway.core.route import Route


class Severity(StrEnum):
    """Who has to know, and when."""

    CRITICAL = "critical"
    """Events are lost, doubled or refused: somebody gets up."""
    WARNING = "warning"
    """It will get there, or has to be looked at: in office hours."""
    INFO = "info"
    """Worth reading once a week."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the rules are for. Without routes: any gateway."""

    routes: tuple[Route, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)
    """The routes whose short retention is meant, and why."""

    def series(self, metric: str, **labels: str) -> str:
        """A selector of the routes' series, as `series` makes one."""
        return series(metric, _named(self.routes) if self.routes else None, **labels)

    def each(
        self, metric: str, number: Callable[[Route], float | None], compared: str, **labels: str
    ) -> str:
        """`compared`, with each route's own number in it: those that share one, together."""
        shared: dict[float, list[Route]] = {}
        for route in self.routes:
            if (told := number(route)) is not None:
                shared.setdefault(told, []).append(route)
        return "\nor\n".join(
            compared.format(series=series(metric, _named(routes), **labels), number=f"{told:.0f}")
            for told, routes in shared.items()
        )


Expression = Callable[[Watched], str]
"""Empty where there is nothing to watch."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule. The texts are templates of Prometheus."""

    name: str
    severity: Severity
    expr: Expression
    summary: str
    """One line, which begins with what it is about."""
    description: str
    """What it means and what to do first; the runbook has the rest."""
    lasts: str = "0s"
    """For how long it has to be so."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A series that Prometheus keeps, because asking for it anew each time takes too much."""

    name: str
    expr: Expression


def series(metric: str, route: str | None = None, **labels: str) -> str:
    """A selector. `route`: a matcher of it. Values: `x` is itself, `!x` another, `~x` a pattern."""
    matchers = [] if route is None else [route]
    matchers += [f"{name}{_matcher(value)}" for name, value in labels.items()]
    return f"dedup_{metric}{{{','.join(matchers)}}}" if matchers else f"dedup_{metric}"


def _matcher(value: str) -> str:
    match value[0]:
        case "!":
            return f'!="{value[1:]}"'
        case "~":
            return f'=~"{value[1:]}"'
        case _:
            return f'="{value}"'


def _named(routes: tuple[Route, ...] | list[Route]) -> str:
    """A matcher of routes. Their names have letters, digits, dashes and dots."""
    if len(routes) == 1:
        return f'route="{routes[0].name}"'
    # the string is read twice, by PromQL and as a pattern
    return 'route=~"{}"'.format("|".join(route.name.replace(".", r"\\.") for route in routes))


def summed(selector: str, window: str) -> str:
    """How much a counter grew, on all gateways together."""
    return f"sum by (route) (increase({selector}[{window}]))"


def happened(metric: str, window: str, **labels: str) -> Expression:
    """A counter grew at all, be it from nothing."""
    seconds = parse_duration(window).total_seconds()

    def expr(watched: Watched) -> str:
        selector = watched.series(metric, **labels)
        return (
            f"{summed(selector, window)} > 0\n"
            "or\n"
            "sum by (route) (\n"
            f"  {selector}\n"
            f"  and on (job, instance) time() - process_start_time_seconds < {seconds:.0f}\n"
            ") > 0"
        )

    return expr


def indented(text: str, by: int = 2) -> str:
    """For an expression inside another one."""
    return "\n".join(" " * by + line for line in text.splitlines())


def enforced(expr: Expression) -> Expression:
    """Only of routes that are not merely observed: in `observe` everything goes through."""
    return lambda watched: (
        f"(\n{indented(expr(watched))}\n)\n"
        f"and on (route) {watched.series('route_info', mode='!observe')}"
    )
