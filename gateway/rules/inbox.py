"""Rules about the inbox: what was acknowledged and is not delivered.

Every gateway reads these gauges from the store, so all say the same: `max`, and never `sum`.
"""

from __future__ import annotations

from gateway.rules.rule import Alert, Expression, Severity, Watched, happened

# Where the file does not say when a route is full.
BACKLOG = 10_000
OLD = 600
_WAITING = "sum by (route) (max by (route, state) ({series})) > {number}"


def _backlog(watched: Watched) -> str:
    due = {"state": "~pending|leased"}
    if watched.routes:
        return watched.each("inbox_entries", lambda route: route.high_water / 2, _WAITING, **due)
    return _WAITING.format(series=watched.series("inbox_entries", **due), number=BACKLOG)


def _age(watched: Watched) -> str:
    age = watched.series("inbox_oldest_entry_age_seconds")
    return f"max by (route) ({age}) > {OLD}"


def _any(state: str) -> Expression:
    return lambda watched: f"max by (route) ({watched.series('inbox_entries', state=state)}) > 0"


INBOX = (
    Alert(
        "DedupInboxBacklog",
        Severity.WARNING,
        _backlog,
        "{{ $labels.route }}: {{ $value | humanize }} events wait to be delivered",
        "The consumer takes fewer than come. At the route's high_water new ones are refused.",
        lasts="10m",
    ),
    Alert(
        "DedupInboxBehind",
        Severity.WARNING,
        _age,
        "{{ $labels.route }}: the oldest event has waited for {{ $value | humanizeDuration }}",
        "The consumer is behind or down, or refuses this event each time.",
        lasts="5m",
    ),
    Alert(
        "DedupInboxFull",
        Severity.CRITICAL,
        happened("rejected_total", "10m", reason="inbox_full"),
        "{{ $labels.route }}: new events are refused, the inbox is full",
        "The route owes as many events as its high_water allows; new ones get 503 until the"
        " consumer has caught up.",
    ),
    Alert(
        "DedupDeadEntries",
        Severity.WARNING,
        _any("dead"),
        "{{ $labels.route }}: {{ $value | humanize }} acknowledged events could not be delivered",
        "They were tried for as long as retry.give_up says. The provider does not repeat them: a"
        " person has to.",
    ),
    Alert(
        "DedupHeldEntries",
        Severity.WARNING,
        _any("held"),
        "{{ $labels.route }}: {{ $value | humanize }} events wait for a person",
        "Nobody knows whether they happened, and the route wants that decided before they are sent"
        " again.",
    ),
)
