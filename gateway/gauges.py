"""Gauges: how things stand. The names that Prometheus can see are here and in `metrics`.

Those that are read when somebody scrapes are absent where there is nothing to read; what the
configuration says is set when it is put in force.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from gateway import __version__
from gateway.core.canary import Remembered
from gateway.core.inbox import EntryState, Waiting
from gateway.core.route import Route

UNDELIVERED = (EntryState.PENDING, EntryState.LEASED, EntryState.DEAD, EntryState.HELD)
# What waits for a person is as old as the person lets it become: that is no lag of ours.
DUE_IN_TIME = (EntryState.PENDING, EntryState.LEASED)

NONE_WAITS = Waiting(0, 0.0)
Waits = Mapping[tuple[str, EntryState], Waiting]
"""By route and state."""

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels, and of the gauge."""


class Gauges:
    """The gauges of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._names: tuple[str, ...] = ()
        self._store_up = self._gauge("store_up", "Whether the store answers and takes writes.")
        self._unrecorded = self._gauge(
            "pending_settlements", "Settlements that the store has not taken yet."
        )
        self._route_info = self._gauge("route_info", "A route and its mode.", "route", "mode")
        self._configured: dict[str, float] = {}
        self._memories: Callable[[], Mapping[str, Remembered] | None] = lambda: None
        self._read(
            "retention_seconds",
            "How long claims are kept: as configured here, or as purges go by if that is shorter.",
            ("route",),
            self._retentions,
        )
        self._accepted = self._gauge(
            "retention_short_accepted", "Whether a retention below the floor is meant.", "route"
        )
        self._floor = self._gauge(
            "retention_floor_seconds", "Least retention that keeps the promise.", "route"
        )
        self._promise_timeout = self._gauge(
            "promise_timeout_seconds", "How long the provider waits for an answer.", "route"
        )
        self._promise_horizon = self._gauge(
            "promise_retry_horizon_seconds", "How long the provider retries by itself.", "route"
        )
        self._reload = self._gauge(
            "config_last_reload_successful", "Whether the last reload was taken."
        )
        self._reload.set(1)
        self._gauge("build_info", "The running version.", "version").labels(__version__).set(1)

    def watch(
        self,
        *,
        store_up: Callable[[], bool],
        pending: Callable[[], int],
        certificates: Callable[[], Iterable[tuple[str, float]]],
    ) -> None:
        """Gauges that are read when scraped. `certificates`: route and epoch seconds of expiry."""
        self._store_up.set_function(lambda: float(store_up()))
        self._unrecorded.set_function(pending)
        self._read(
            "upstream_certificate_expiry_timestamp_seconds",
            "When the certificate that a consumer last showed expires.",
            ("route",),
            lambda: (((route,), expires) for route, expires in certificates()),
        )

    def watch_inbox(
        self, *, waiting: Callable[[], Waits | None], open_breakers: Callable[[], Iterable[str]]
    ) -> None:
        """The same for the inbox. `waiting` is None while nobody knows."""
        self._read(
            "inbox_entries",
            "Undelivered entries, by state.",
            ("route", "state"),
            lambda: self._entries(waiting()),
        )
        self._read(
            "inbox_oldest_entry_age_seconds",
            "How long the oldest entry has waited that is pending or leased.",
            ("route",),
            lambda: self._oldest(waiting()),
        )
        self._read(
            "breaker_open",
            "Whether entries are held back because the consumer is down.",
            ("route",),
            lambda: self._breakers(frozenset(open_breakers())),
        )

    def watch_memory(
        self,
        *,
        memories: Callable[[], Mapping[str, Remembered] | None],
        last_purge: Callable[[], float | None],
    ) -> None:
        """The same for how long claims last. None while nobody knows."""
        self._memories = memories
        self._read(
            "retention_effective_seconds",
            "How far the memory reaches: the age of the oldest canary since when none is missing.",
            ("route",),
            lambda: (((name,), one.reach) for name, one in (memories() or {}).items()),
        )
        self._read(
            "retention_expected_seconds",
            "How far it has to reach, less an hour: the floor, or the known age of the route.",
            ("route",),
            lambda: (((name,), one.expected) for name, one in (memories() or {}).items()),
        )
        self._read(
            "purge_last_success_timestamp_seconds",
            "When claims were purged last, by whichever process.",
            (),
            lambda: [] if (ended := last_purge()) is None else [((), ended)],
        )

    def routes(self, routes: Iterable[Route], accepted: Container[str]) -> None:
        """The configuration's facts. `accepted`: whose short retention is meant."""
        for info in (
            self._route_info,
            self._accepted,
            self._floor,
            self._promise_timeout,
            self._promise_horizon,
        ):
            info.clear()
        told = tuple(routes)
        self._names = tuple(route.name for route in told)
        for route in told:
            self._describe(route)
            self._accepted.labels(route.name).set(float(route.name in accepted))
        self._configured = {route.name: route.retention.total_seconds() for route in told}

    def reloaded(self, successful: bool) -> None:
        """A changed configuration was taken, or not."""
        self._reload.set(float(successful))

    def _describe(self, route: Route) -> None:
        name, promise = route.name, route.promise
        self._route_info.labels(name, route.mode.value).set(1)
        if route.floor is not None:
            self._floor.labels(name).set(route.floor.total_seconds())
        if promise is not None:
            self._promise_horizon.labels(name).set(promise.retry_horizon.total_seconds())
            if promise.timeout is not None:
                self._promise_timeout.labels(name).set(promise.timeout.total_seconds())

    def _retentions(self) -> Samples:
        memories = self._memories() or {}
        for name, configured in self._configured.items():
            known = memories.get(name)
            yield (name,), configured if known is None else known.retention

    def _entries(self, waits: Waits | None) -> Samples:
        if waits is not None:
            for name, state in product(self._names, UNDELIVERED):
                yield (name, state.value), waits.get((name, state), NONE_WAITS).entries

    def _oldest(self, waits: Waits | None) -> Samples:
        if waits is not None:
            for name in self._names:
                found = (waits.get((name, state), NONE_WAITS) for state in DUE_IN_TIME)
                yield (name,), max(waiting.oldest for waiting in found)

    def _breakers(self, now_open: frozenset[str]) -> Samples:
        return [((name,), float(name in now_open)) for name in self._names]

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"dedup_{name}", text, labels, registry=self._registry)

    def _read(
        self, name: str, text: str, labels: Sequence[str], read: Callable[[], Samples]
    ) -> None:
        self._registry.register(_Read(f"dedup_{name}", text, labels, read))


class _Read:
    """A collector of one gauge. A plain one keeps a series for good once it was set."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], read: Callable[[], Samples]
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for values, value in self._read():
            family.add_metric(values, value)
        yield family
