"""Metrics: what happened, in counters and histograms; how things stand is in `gauges`.

The names that Prometheus can see are in these two files.

Labels come from the configuration, with one exception: `event_type` is learned, and only from
deliveries that the consumer accepted, so that nobody can invent series from outside.
A counter says what happened, not what was tried.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.core.answer import Reason, Verdict
from gateway.core.inbox import EntryEnding
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.core.signature import UNCHECKED, VALID, Flaw, Signature
from gateway.gauges import Gauges
from gateway.tallies import Tallies

# More types than this on one route is a mistyped pointer (an id, a time), not a catalogue of
# events.
TYPES_PER_ROUTE = 25
OTHER_TYPE = "other"
# The longest names of providers' types have some 60 characters.
LONGEST_TYPE = 128

# The providers' time-outs are at 3, 5, 8, 10 and 30 seconds; a bound at each makes them readable.
FORWARD_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 10, 20, 30, 60)
AGE_BUCKETS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, *(86400 * d for d in (3, 7, 14, 30, 60, 90)))
# What the store calls its failures.
STORE_ERROR_KINDS = (
    "connection", "timeout", "too_many_connections", "read_only", "lock", "deadlock",
    "canceled", "prepared", "schema", "data", "other",
)  # fmt: skip
# What an item of a batch may turn out to be.
ITEM_VERDICTS = (Verdict.FIRST, Verdict.DUPLICATE, Verdict.BUSY, Verdict.UNKEYED)
CLAIM_STATEMENTS = frozenset({"arrive", "take_over", "settle", "complete", "accept", "store"})
CLAIM_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2)


class Metrics:
    """The process's registry, and what other parts tell it."""

    def __init__(self) -> None:
        # A second series per counter, which nothing here reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.gauges = Gauges(self.registry)
        # Since when it runs tells rules which counters are all news; nothing else of it is ours.
        ProcessCollector(registry=self.registry)
        self._tallies = Tallies(self.registry, prefix="dedup")
        self._count_deliveries()
        self._count_forwards()
        self._types: dict[str, set[str]] = {}

    def _count_deliveries(self) -> None:
        counter, histogram = self._tallies.counter, self._tallies.histogram
        self._requests = counter("requests", "Request heads, by route.", "route")
        self._deliveries = counter(
            "deliveries", "Deliveries, by what they were told.", "route", "verdict"
        )
        self._rejected = counter("rejected", "Requests that were not handled.", "route", "reason")
        self._events = counter(
            "events", "Events that the consumer accepted, by type.", "route", "event_type"
        )
        self._duplicates = counter(
            "duplicates", "Duplicates, by shape.", "route", "event_type", "shape"
        )
        self._ages = histogram(
            "duplicate_age_seconds",
            "Time from an event's first delivery to this duplicate.",
            "route",
            AGE_BUCKETS,
        )

    def _count_forwards(self) -> None:
        counter, histogram = self._tallies.counter, self._tallies.histogram
        self._forwards = counter("forwards", "Forwards, by outcome.", "route", "outcome")
        self._forward_seconds = histogram(
            "forward_duration_seconds",
            "How long forwards took, waiting for a slot included.",
            "route",
            FORWARD_BUCKETS,
        )
        self._slow = counter(
            "slow_forwards", "Forwards slower than the provider's time-out.", "route"
        )
        self._claim_seconds = histogram(
            "claim_duration_seconds",
            "How long statements on the claims took, by statement.",
            "statement",
            CLAIM_BUCKETS,
        )
        self._takeovers = counter(
            "takeovers", "Claims won from a holder that never settled.", "route"
        )
        self._late = counter(
            "late_successes", "Successes recorded after the lease was lost.", "route"
        )
        self._doubles = counter(
            "possible_doubles",
            "Events accepted after an attempt that may have had its effect.",
            "route",
        )
        self._mismatches = counter(
            "payload_mismatches", "Deliveries whose body differs from the one claimed.", "route"
        )
        self._signatures = counter(
            "signatures",
            "Signatures that were checked, by what was found and which secret had made them.",
            "route",
            "result",
            "secret",
        )
        self._items = counter(
            "batch_items", "Items of batches, by what they turned out to be.", "route", "verdict"
        )
        self._stale = counter("stale_events", "New events older than the retention.", "route")
        self._exceeded = counter(
            "promise_exceeded",
            "Duplicates that came later than the provider promised.",
            "route",
        )
        self._purged = counter("purged", "Claims purged, their retention being over.", "route")
        self._unresolved = counter(
            "purged_unresolved", "Those of them that never came to a known end.", "route"
        )
        self._concluded = counter(
            "inbox_concluded",
            "Entries that were leased, by what their worker made of them.",
            "route",
            "ending",
        )
        self._store_errors = counter("store_errors", "Failed store calls, by kind.", "kind")
        for kind in STORE_ERROR_KINDS:
            self._store_errors[kind] += 0

    def render(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def routes(self, routes: Iterable[Route], accepted_short: Container[str] = ()) -> None:
        """The configuration's facts, and a zero for every counter that an alert rests on.

        `accepted_short`: names of routes whose retention is meant to be below the floor.
        """
        told = tuple(routes)
        self.gauges.routes(told, accepted_short)
        for route in told:
            self._zero(route.name)
            if route.signature is not None:
                self._zero_signatures(route.name, route.signature)
            if route.batch is not None:
                for verdict in ITEM_VERDICTS:
                    self._items[route.name, verdict] += 0
        self._zero_rejections("")

    def _zero(self, name: str) -> None:
        for verdict in Verdict:
            self._deliveries[name, verdict] += 0
        for outcome in ("delivered", "refused", "unreached", "ambiguous"):
            self._forwards[name, outcome] += 0
        for ending in EntryEnding:
            self._concluded[name, ending] += 0
        self._zero_rejections(name)
        for label in ("", OTHER_TYPE):
            self._zero_duplicates(name, label)
        for counter in (
            self._requests,
            self._slow,
            self._takeovers,
            self._late,
            self._doubles,
            self._mismatches,
            self._stale,
            self._exceeded,
            self._purged,
            self._unresolved,
        ):
            counter[name] += 0

    def _zero_signatures(self, name: str, signature: Signature) -> None:
        for result in (*(flaw.value for flaw in Flaw), UNCHECKED):
            self._signatures[name, result, ""] += 0
        # A scheme may know its keys by itself; its one place is the first.
        for place in range(max(len(signature.secrets) + len(signature.keys), 1)):
            self._signatures[name, VALID, str(place)] += 0

    def _zero_rejections(self, name: str) -> None:
        for reason in Reason:
            self._rejected[name, reason] += 0

    def _zero_duplicates(self, name: str, label: str) -> None:
        for shape in Shape:
            self._duplicates[name, label, shape] += 0

    def request(self, route: str) -> None:
        """A request head was read; `route` is empty when there is none for it."""
        self._requests[route] += 1

    def rejection(self, route: str, reason: Reason) -> None:
        """A request ended without a verdict."""
        self._rejected[route, reason] += 1

    def delivery(self, route: str, verdict: Verdict) -> None:
        """A request ended with a verdict."""
        self._deliveries[route, verdict] += 1

    def event(self, route: str, event_type: str | None) -> None:
        """The consumer accepted an event: its type may become a label."""
        known = self._types.setdefault(route, set())
        is_new = event_type not in known and len(known) < TYPES_PER_ROUTE
        if event_type and is_new and _is_legible(event_type):
            known.add(event_type)
            self._zero_duplicates(route, event_type)
        self._events[route, self._type_label(route, event_type)] += 1

    def duplicate(self, route: str, event_type: str | None, shape: Shape, age: float) -> None:
        """A duplicate; `age` in seconds since the event was first seen."""
        label = self._type_label(route, event_type)
        self._duplicates[route, label, shape] += 1
        self._ages.observe(route, age)

    def forward(self, route: str, outcome: str, seconds: float, *, slow: bool) -> None:
        """One forward ended."""
        self._forwards[route, outcome] += 1
        self._forward_seconds.observe(route, seconds)
        if slow:
            self._slow[route] += 1

    def takeover(self, route: str) -> None:
        """A lapsed claim was taken over."""
        self._takeovers[route] += 1

    def late_success(self, route: str) -> None:
        """A success was recorded after its lease was lost."""
        self._late[route] += 1

    def possible_double(self, route: str) -> None:
        """An event was accepted after doubt."""
        self._doubles[route] += 1

    def stale(self, route: str) -> None:
        """A new event was older than the retention."""
        self._stale[route] += 1

    def promise_exceeded(self, route: str) -> None:
        """A duplicate came later than the provider's retries and redrives were said to."""
        self._exceeded[route] += 1

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        """So many claims were forgotten, and nobody knew what had become of so many of them."""
        self._purged[route] += claims
        self._unresolved[route] += unresolved

    def mismatch(self, route: str) -> None:
        """One id came with two bodies."""
        self._mismatches[route] += 1

    def signature(self, route: str, result: str, secret: str) -> None:
        """A signature was checked; `secret` is the place of the one that matched, or empty."""
        self._signatures[route, result, secret] += 1

    def items(self, route: str, verdict: Verdict, number: int) -> None:
        """So many items of one batch turned out alike."""
        self._items[route, verdict] += number

    def concluded(self, route: str, ending: EntryEnding) -> None:
        """A worker ended its attempt at an entry."""
        self._concluded[route, ending] += 1

    def store_error(self, kind: str) -> None:
        """A store call failed."""
        self._store_errors[kind] += 1

    def statement(self, name: str, seconds: float, size: int) -> None:
        """A statement took `seconds` for a batch of `size`; those on the claims are of interest."""
        if name in CLAIM_STATEMENTS:
            self._claim_seconds.observe(name, seconds)

    def _type_label(self, route: str, event_type: str | None) -> str:
        if not event_type:
            return ""
        return event_type if event_type in self._types.get(route, ()) else OTHER_TYPE


def _is_legible(event_type: str) -> bool:
    # A lone surrogate in one label would break every scrape from then on; a body's worth of text,
    # nearly so.
    return len(event_type) <= LONGEST_TYPE and event_type.isprintable()
