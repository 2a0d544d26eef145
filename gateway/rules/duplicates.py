"""A rule about duplicates: a type of event that suddenly comes again and again.

What it compares with is a week of what was common, which Prometheus keeps as two series of its own.
"""

from __future__ import annotations

from gateway.rules.rule import Alert, Recorded, Severity, Watched

_DUPLICATES = "route_event_type:dedup_duplicates:increase10m"
_ARRIVALS = "route_event_type:dedup_arrivals:increase10m"

TIMES = 5
# Below that a share says nothing: the first duplicate in a week is infinitely more than none.
LEAST = 20
# Ten minutes each, in 24 hours.
ENOUGH = 144
# What is going on now is no measure of what is common.
RECENT = "1h"


def _duplicates(watched: Watched) -> str:
    return f"sum by (route, event_type) (increase({watched.series('duplicates_total')}[10m]))"


def _arrivals(watched: Watched) -> str:
    duplicates, events = watched.series("duplicates_total"), watched.series("events_total")
    return (
        f"sum by (route, event_type) (\n  increase({duplicates}[10m]) or increase({events}[10m])\n)"
    )


def _spike(watched: Watched) -> str:
    return (
        f"{_DUPLICATES} / {_ARRIVALS}\n"
        f"  > {TIMES} * sum_over_time({_DUPLICATES}[7d:10m] offset {RECENT})\n"
        f"    / clamp_min(sum_over_time({_ARRIVALS}[7d:10m] offset {RECENT}), 1)\n"
        f"and {_DUPLICATES} > {LEAST}\n"
        f"and count_over_time({_ARRIVALS}[7d:10m]) >= {ENOUGH}"
    )


DUPLICATES = (
    Recorded(_DUPLICATES, _duplicates),
    Recorded(_ARRIVALS, _arrivals),
    Alert(
        "DedupDuplicateSpike",
        Severity.WARNING,
        _spike,
        "{{ $labels.route }}: far more duplicates than usual of"
        " {{ with $labels.event_type }}{{ . }}{{ else }}events without a type{{ end }}",
        "{{ $value | humanizePercentage }} of what came of this type within ten minutes were"
        " duplicates, more than five times the mean of seven days: a redrive, a handler that became"
        " slow, or an id that is not one any more.",
    ),
)
