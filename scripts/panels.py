"""The panels of the dashboard: what each asks Prometheus, and what it says of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHOSEN = '{route=~"$route"}'


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and the legend of each series that comes back."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing. `unit`: as Grafana names it."""

    title: str
    unit: str
    about: str
    queries: tuple[Query, ...]
    stacked: bool = False
    logarithmic: bool = False


def rate(counter: str, by: str, more: str = "") -> str:
    """Each second, of the chosen routes."""
    return f'sum by ({by}) (rate({counter}{{route=~"$route"{more}}}[$__rate_interval]))'


def quantiles(histogram: str, by: str, selector: str, *shares: float) -> tuple[Query, ...]:
    """Of a histogram, by a label."""
    buckets = f"sum by (le, {by}) (rate({histogram}_bucket{selector}[$__rate_interval]))"
    return tuple(
        Query(f"histogram_quantile({share}, {buckets})", f"{{{{{by}}}}} {share:.0%}")
        for share in shares
    )


def hourly(counter: str, legend: str) -> Query:
    """What happens so rarely that one is worth seeing."""
    return Query(f"sum by (route) (increase({counter}{CHOSEN}[1h])) > 0", f"{{{{route}}}} {legend}")


ROWS: dict[str, Sequence[Panel]] = {
    "Arrivals": (
        Panel(
            "Arrivals by verdict",
            "reqps",
            "Deliveries, each once, as what it was finally told.",
            (Query(rate("dedup_deliveries_total", "verdict"), "{{verdict}}"),),
            stacked=True,
        ),
        Panel(
            "Refused, by reason",
            "reqps",
            "Requests without a verdict: nothing was claimed, and the consumer saw nothing.",
            (Query(f"{rate('dedup_rejected_total', 'reason')} > 0", "{{reason}}"),),
            stacked=True,
        ),
    ),
    "Duplicates": (
        Panel(
            "Duplicates by shape",
            "reqps",
            "concurrent met an undecided claim, retry is younger than the promised horizon, redrive"
            " older, operation is another event of one operation.",
            (Query(rate("dedup_duplicates_total", "shape"), "{{shape}}"),),
            stacked=True,
        ),
        Panel(
            "Duplicates by type",
            "reqps",
            "The event types that are learned from accepted events.",
            (
                Query(
                    f"{rate('dedup_duplicates_total', 'route, event_type')} > 0",
                    "{{route}} {{event_type}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Age of duplicates against the promised horizon",
            "s",
            "Ninety-nine of a hundred are younger, within six hours. Above the horizon somebody"
            " redrives, or the promise on file is wrong.",
            (
                Query(
                    "histogram_quantile(0.99, sum by (le, route) ("
                    f"increase(dedup_duplicate_age_seconds_bucket{CHOSEN}[6h])))",
                    "{{route}} 99%",
                ),
                Query(
                    f"max by (route) (dedup_promise_retry_horizon_seconds{CHOSEN})",
                    "{{route}} horizon",
                ),
            ),
            logarithmic=True,
        ),
    ),
    "Forwards": (
        Panel(
            "Forward latency against the provider's time-out",
            "s",
            "How long forwards took, waiting for a slot included. Above the time-out a retry is on"
            " its way.",
            (
                *quantiles("dedup_forward_duration_seconds", "route", CHOSEN, 0.5, 0.99),
                Query(
                    f"min by (route) (dedup_promise_timeout_seconds{CHOSEN})",
                    "{{route}} time-out",
                ),
            ),
            logarithmic=True,
        ),
        Panel(
            "Forwards by outcome",
            "reqps",
            "ambiguous may have had its effect; unreached has not.",
            (Query(rate("dedup_forwards_total", "outcome"), "{{outcome}}"),),
            stacked=True,
        ),
        Panel(
            "Doubt, in an hour",
            "short",
            "Each of these may be a second effect, or a lost event.",
            (
                hourly("dedup_takeovers_total", "takeovers"),
                hourly("dedup_possible_doubles_total", "possible doubles"),
                hourly("dedup_late_successes_total", "late successes"),
                hourly("dedup_payload_mismatches_total", "payload mismatches"),
                hourly("dedup_stale_events_total", "stale events"),
            ),
        ),
    ),
    "Inbox": (
        Panel(
            "Undelivered, by state",
            "short",
            "dead and held wait for a person.",
            (
                Query(
                    f"sum by (state) (max by (route, state) (dedup_inbox_entries{CHOSEN}))",
                    "{{state}}",
                ),
            ),
        ),
        Panel(
            "Age of the oldest that is due",
            "s",
            "How long the oldest entry has waited that is pending or leased.",
            (Query(f"max by (route) (dedup_inbox_oldest_entry_age_seconds{CHOSEN})", "{{route}}"),),
        ),
        Panel(
            "Attempts, by what became of them",
            "reqps",
            "deliver is done, bury is dead from now on.",
            (Query(rate("dedup_inbox_concluded_total", "ending"), "{{ending}}"),),
            stacked=True,
        ),
        Panel(
            "Breaker open",
            "short",
            "1 while a gateway holds a route's entries back because the consumer is down.",
            (Query(f"sum by (route) (dedup_breaker_open{CHOSEN})", "{{route}}"),),
        ),
    ),
    "Memory": (
        Panel(
            "Retention against the floor",
            "s",
            "effective is how far the memory really reaches; it has to reach what is expected.",
            (
                Query(f"min by (route) (dedup_retention_seconds{CHOSEN})", "{{route}} configured"),
                Query(f"max by (route) (dedup_retention_floor_seconds{CHOSEN})", "{{route}} floor"),
                Query(
                    f"min by (route) (dedup_retention_effective_seconds{CHOSEN})",
                    "{{route}} effective",
                ),
                Query(
                    f"max by (route) (dedup_retention_expected_seconds{CHOSEN})",
                    "{{route}} expected",
                ),
            ),
        ),
        Panel(
            "Purged claims",
            "cps",
            "By route; unresolved ones never came to a known end.",
            (
                Query(rate("dedup_purged_total", "route"), "{{route}}"),
                Query(rate("dedup_purged_unresolved_total", "route"), "{{route}} unresolved"),
            ),
        ),
        Panel(
            "Since the last purge",
            "s",
            "One is due every hour, by whichever gateway.",
            (Query("time() - max(dedup_purge_last_success_timestamp_seconds)", "last purge"),),
        ),
    ),
    "Gateways and store": (
        Panel(
            "Store",
            "short",
            "1 while it answers and takes writes; results that it has not taken yet.",
            (
                Query("dedup_store_up", "{{instance}} up"),
                Query("dedup_pending_settlements", "{{instance}} pending results"),
            ),
        ),
        Panel(
            "Claim latency",
            "s",
            "Ninety-nine of a hundred statements are faster.",
            quantiles("dedup_claim_duration_seconds", "statement", "", 0.99),
            logarithmic=True,
        ),
        Panel(
            "Store errors",
            "cps",
            "Failed calls, by kind.",
            (
                Query(
                    "sum by (kind) (rate(dedup_store_errors_total[$__rate_interval])) > 0",
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            "Memory in use",
            "bytes",
            "Of each gateway.",
            (
                Query(
                    "process_resident_memory_bytes and on (job, instance) dedup_build_info",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Until the consumer's certificate ends",
            "s",
            "By route; nothing for routes without TLS.",
            (
                Query(
                    "max by (route)"
                    f" (dedup_upstream_certificate_expiry_timestamp_seconds{CHOSEN}) - time()",
                    "{{route}}",
                ),
            ),
        ),
        Panel(
            "Routes",
            "short",
            "How many gateways have each route, and in which mode.",
            (
                Query(
                    f"sum by (route, mode) (dedup_route_info{CHOSEN})",
                    "{{route}} {{mode}}",
                ),
            ),
        ),
    ),
}
