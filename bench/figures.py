"""The figures of a run: what is promised beside what was measured, and all of it as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bench.backlog import Inbox
from bench.measure import Measured, percentiles
from bench.series import Spread, added
from bench.storage import Size, Time


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A figure that must not be exceeded, and the name that it has in the JSON."""

    name: str
    most: float
    what: str


CEILINGS = (
    Ceiling("cpu_ratio.forward", 3.3, "CPU of a first delivery, in echo requests"),
    Ceiling("cpu_ratio.duplicate", 1.9, "CPU of a duplicate, in echo requests"),
    Ceiling("cpu_ratio.inbox", 2.5, "CPU of an inbox acceptance, in echo requests"),
    Ceiling("added_latency_ms.p50", 3.0, "added latency at 200/s, median, ms"),
    Ceiling("added_latency_ms.p99", 15.0, "added latency at 200/s, 99th, ms"),
    Ceiling("bytes_per_claim", 190.0, "bytes of a settled claim, 28-character id"),
    Ceiling("bytes_per_claim_without_id", 125.0, "bytes of a settled claim, no id"),
    Ceiling("store_time.growth", 1.4, "store time of a first, largest table / smallest"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that one run measured."""

    ratios: dict[str, Spread]
    """At 64 connections."""
    ratios_one: dict[str, Spread]
    """At one connection."""
    latencies: dict[str, list[float]]
    measured: list[Measured]
    inbox: Inbox
    sizes: list[Size]
    times: list[Time]
    machine: dict[str, object]


def as_json(found: Found, *, quick: bool) -> dict[str, object]:
    """The names that are promised first, then the raw figures."""
    size_with, size_without = found.sizes
    return {
        "quick": quick,
        "cpu_ratio": _ratios(found.ratios),
        "cpu_ratio_c1": _ratios(found.ratios_one),
        "bytes_per_claim": size_with.total,
        "bytes_per_claim_without_id": size_without.total,
        "added_latency_ms": added(found.latencies),
        "store_time": {
            "growth": found.times[-1].first / found.times[0].first,
            "growth_duplicate": found.times[-1].duplicate / found.times[0].duplicate,
            "by_rows": [asdict(time) for time in found.times],
        },
        "inbox": {
            "drain": asdict(found.inbox.drain),
            "while_draining": {
                "accepted_per_second": found.inbox.draining.accepted.per_second,
                "accepted_latency_ms": found.inbox.draining.accepted.latency_ms,
                "delivered_per_second": found.inbox.draining.delivered_per_second,
                "left": found.inbox.draining.left,
            },
        },
        "cpu_ratio_spread": _spreads(found.ratios),
        "cpu_ratio_c1_spread": _spreads(found.ratios_one),
        "latency_ms_at_rate": {
            name: percentiles(latencies) for name, latencies in found.latencies.items()
        },
        "sizes": [asdict(size) for size in found.sizes],
        "measured": [asdict(measured) for measured in found.measured],
        "machine": found.machine,
    }


def figure(document: dict[str, object], name: str) -> float:
    """The number under a dotted name."""
    value: object = document
    for step in name.split("."):
        assert isinstance(value, dict)
        value = value[step]
    assert isinstance(value, int | float)
    return float(value)


def _ratios(spreads: dict[str, Spread]) -> dict[str, float]:
    return {name: spread.ratio for name, spread in spreads.items()}


def _spreads(ratios: dict[str, Spread]) -> dict[str, list[float]]:
    return {name: [spread.low, spread.high] for name, spread in ratios.items()}
