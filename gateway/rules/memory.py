"""Rules about the memory: whether it reaches as far back as the provider may repeat an event."""

from __future__ import annotations

from gateway.core.route import Route
from gateway.rules.rule import Alert, Severity, Watched, happened, indented

# A canary is planted each hour, so the oldest that is there may be younger than the memory by that.
BETWEEN_CANARIES = 3600
# A purge is due every hour. One of hundreds of millions of claims takes hours.
PURGE_OVERDUE = 6 * 3600


def _below_floor(watched: Watched) -> str:
    if watched.routes:
        return watched.each(
            "retention_seconds", lambda route: _floor(watched, route), _RETENTION_BELOW
        )
    # Each gateway has its own file, and one may differ: compared on each.
    return (
        "min by (route) (\n"
        "  dedup_retention_seconds < dedup_retention_floor_seconds\n"
        "  unless dedup_retention_short_accepted == 1\n"
        ")"
    )


_RETENTION_BELOW = "min by (route) ({series}) < {number}"


def _floor(watched: Watched, route: Route) -> float | None:
    if route.floor is None or route.name in watched.accepted:
        return None
    return route.floor.total_seconds()


def _effective(watched: Watched) -> str:
    effective = watched.series("retention_effective_seconds")
    expected = watched.series("retention_expected_seconds")
    return f"min by (route) (\n  {effective}\n  < {expected} - {BETWEEN_CANARIES}\n)"


def _lost(_: Watched) -> str:
    # At the very first start the schema is absent too; then no store was up before.
    return (
        'sum(\n  increase(dedup_store_errors_total{kind="schema"}[10m])\n'
        "  and on (job, instance) max_over_time(dedup_store_up[1h] offset 10m) == 1\n"
        ") > 0"
    )


def _purge_overdue(_: Watched) -> str:
    # Where none ever ended, since the oldest gateway started. While the store is away nobody knows.
    return (
        "time() - (\n"
        "  max(dedup_purge_last_success_timestamp_seconds)\n"
        "  or min(process_start_time_seconds and on (job, instance) dedup_build_info)\n"
        f") > {PURGE_OVERDUE}\n"
        "and on () max(dedup_store_up) == 1"
    )


def _mismatches(watched: Watched) -> str:
    mismatches = watched.series("payload_mismatches_total")
    duplicates = f"sum by (route) (increase({watched.series('duplicates_total')}[1d]))"
    return (
        f"sum by (route) (increase({mismatches}[1d]))\n"
        f"  > 0.5 * {duplicates}\n"
        f"and\n{indented(duplicates)} >= 10"
    )


MEMORY = (
    Alert(
        "DedupRetentionBelowFloor",
        Severity.WARNING,
        _below_floor,
        "{{ $labels.route }}: the configured retention is below the floor",
        "A gateway remembers events of {{ $labels.route }} for {{ $value | humanizeDuration }},"
        " which is shorter than the provider may repeat them. The last repeats would count as new.",
        lasts="5m",
    ),
    Alert(
        "DedupEffectiveRetentionBelowFloor",
        Severity.CRITICAL,
        _effective,
        "{{ $labels.route }}: claims are missing that should be there",
        "The memory of {{ $labels.route }} reaches back {{ $value | humanizeDuration }} only:"
        " somebody deleted claims, or one gateway purges by another retention. Events from before"
        " that count as new.",
        lasts="1m",
    ),
    Alert(
        "DedupMemoryLost",
        Severity.CRITICAL,
        _lost,
        "The schema dedup was dropped under running gateways",
        "Every event from before that counts as new.",
    ),
    Alert(
        "DedupPromiseExceeded",
        Severity.WARNING,
        happened("promise_exceeded_total", "1d"),
        "{{ $labels.route }}: duplicates come later than the promise on file allows for",
        "Duplicates of {{ $labels.route }} came after retry horizon and redrive window were over,"
        " so the promise on file is wrong and the floor that is made of it too low.",
    ),
    Alert(
        "DedupStaleEvents",
        Severity.WARNING,
        happened("stale_events_total", "1h"),
        "{{ $labels.route }}: events come that are older than the memory",
        "New events of {{ $labels.route }} are older than its retention by their own time, so"
        " nobody can know whether they were handled. They go through marked, or are held.",
    ),
    Alert(
        "DedupPayloadMismatches",
        Severity.CRITICAL,
        _mismatches,
        "{{ $labels.route }}: most duplicates have another body than the first",
        "Different events of {{ $labels.route }} share an id, it seems, and all but the first are"
        " swallowed. Go back to observe and look.",
    ),
    Alert(
        "DedupPurgeNotRunning",
        Severity.WARNING,
        _purge_overdue,
        "Claims are not purged",
        "No run of the purger has ended for {{ $value | humanizeDuration }}; one is due every hour."
        " The table grows.",
        lasts="10m",
    ),
    Alert(
        "DedupUnresolvedPurged",
        Severity.INFO,
        happened("purged_unresolved_total", "1d"),
        "{{ $labels.route }}: claims were purged of which nobody knew the end",
        "Claims of {{ $labels.route }} reached the end of their retention claimed, released in"
        " doubt, or owed by an entry that is gone. Nobody ever learnt what became of these events.",
    ),
)
