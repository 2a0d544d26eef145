"""Tallies: counters and histograms that are kept in plain numbers until somebody scrapes.

The metrics library takes a lock and several calls for each step, and 1 to 5 µs to find a series by
its labels. A delivery takes five steps; a scrape takes all of them at once, a few times a minute.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric

# Observations that a histogram is not told yet: 8 KiB of pointers for a label.
MOST_UNTOLD = 1024

Labels = str | tuple[str, ...]
"""The value of one label, or those of several."""


class Tally(collections.Counter[Labels]):
    """Steps of a counter, by labels."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def tell(self) -> None:
        """Hand over what was counted since the last time."""
        while self:
            labels, steps = self.popitem()  # a scrape that fails half-way counts nothing twice
            values = (labels,) if isinstance(labels, str) else labels
            self._counter.labels(*values).inc(steps)


class Observations:
    """What a histogram of one label has to be told."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._untold: dict[str, list[float]] = collections.defaultdict(list)

    def observe(self, label: str, value: float) -> None:
        """Note one observation."""
        untold = self._untold[label]
        untold.append(value)
        if len(untold) >= MOST_UNTOLD:
            self.tell()

    def tell(self) -> None:
        """Hand over what was observed since the last time."""
        for label, untold in self._untold.items():
            series = self._histogram.labels(label)
            for value in untold:
                series.observe(value)
            untold.clear()


class Tallies:
    """Makes them, and is read before them: a collector without metrics of its own."""

    def __init__(self, registry: CollectorRegistry, *, prefix: str) -> None:
        self._registry = registry
        self._prefix = prefix
        self._all: list[Tally | Observations] = []
        registry.register(self)

    def counter(self, name: str, text: str, *labels: str) -> Tally:
        """A counter; its name ends in `_total` for whoever reads it."""
        full = f"{self._prefix}_{name}"
        tally = Tally(Counter(full, text, labels, registry=self._registry))
        self._all.append(tally)
        return tally

    def histogram(self, name: str, text: str, label: str, buckets: Sequence[float]) -> Observations:
        """A histogram with upper bounds."""
        full = f"{self._prefix}_{name}"
        histogram = Histogram(full, text, [label], buckets=buckets, registry=self._registry)
        observations = Observations(histogram)
        self._all.append(observations)
        return observations

    def describe(self) -> Iterator[Metric]:
        """No names to reserve."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Told in the order of registration, so before the metrics themselves are read."""
        for tally in self._all:
            tally.tell()
        return iter(())
