"""Rules about deliveries: what goes through unprotected, what is refused, what may come twice."""

from __future__ import annotations

from gateway.rules.rule import (
    Alert,
    Expression,
    Severity,
    Watched,
    enforced,
    happened,
    summed,
)


def _either(first: Expression, second: Expression) -> Expression:
    return lambda watched: f"{first(watched)}\nor\n{second(watched)}"


def _slow(watched: Watched) -> str:
    slow, forwards = watched.series("slow_forwards_total"), watched.series("forwards_total")
    return f"{summed(slow, '1h')}\n  / {summed(forwards, '1h')} > 0.05"


def _away(watched: Watched) -> str:
    failed = watched.series("forwards_total", outcome="~unreached|ambiguous")
    return f"{summed(failed, '10m')}\n  / {summed(watched.series('forwards_total'), '10m')} > 0.1"


def _busy(watched: Watched) -> str:
    busy = summed(watched.series("deliveries_total", verdict="busy"), "1h")
    every = summed(watched.series("deliveries_total"), "1h")
    return f"{busy}\n  / {every} > 0.01\nand {busy} > 5"


def _unsigned(watched: Watched) -> str:
    bad = watched.series("signatures_total", result="~wrong|missing")
    good = watched.series("signatures_total", result="valid")
    return f"{summed(bad, '1h')} > 5\nunless {summed(good, '1h')} > 0"


def _expiring(watched: Watched) -> str:
    # A gateway that has not connected since the renewal still knows the old certificate.
    expiry = watched.series("upstream_certificate_expiry_timestamp_seconds")
    return f"max by (route) ({expiry}) - time() < 14 * 86400"


DELIVERIES = (
    Alert(
        "DedupUnkeyedDeliveries",
        Severity.WARNING,
        enforced(
            _either(
                happened("deliveries_total", "10m", verdict="unkeyed"),
                happened("batch_items_total", "10m", verdict="unkeyed"),
            )
        ),
        "{{ $labels.route }}: events pass unprotected, without a usable id",
        "Most often the provider has moved the id, and nothing else looks different.",
    ),
    Alert(
        "DedupBypassedDeliveries",
        Severity.WARNING,
        enforced(happened("deliveries_total", "10m", verdict="bypassed")),
        "{{ $labels.route }}: deliveries went past the store, and doubles may have got through",
        "The store was away, and the route says on_store_down: forward.",
    ),
    Alert(
        "DedupSlowForwards",
        Severity.WARNING,
        _slow,
        "{{ $labels.route }}: the handler outlasts the provider's time-out",
        "{{ $value | humanizePercentage }} of the forwards of an hour were slower than the provider"
        " waits. For each of them a retry is on its way.",
    ),
    Alert(
        "DedupConsumerAway",
        Severity.CRITICAL,
        _away,
        "{{ $labels.route }}: the consumer is down, or answers too late",
        "{{ $value | humanizePercentage }} of the forwards of ten minutes ended without a reply.",
        lasts="5m",
    ),
    Alert(
        "DedupBusyReplies",
        Severity.WARNING,
        _busy,
        "{{ $labels.route }}: duplicates cannot be decided in time",
        "{{ $value | humanizePercentage }} of the deliveries of an hour were told 503 because the"
        " first one of their event was still undecided.",
    ),
    Alert(
        "DedupTakeovers",
        Severity.WARNING,
        happened("takeovers_total", "1h"),
        "{{ $labels.route }}: claims were taken over from gateways that never settled them",
        "Gateways die or are paused.",
    ),
    Alert(
        "DedupPossibleDoubles",
        Severity.INFO,
        happened("possible_doubles_total", "1d"),
        "{{ $labels.route }}: events were accepted after an attempt that may have had its effect",
        "Each was answered with a 5xx or not at all, and accepted later, marked. Most had no effect"
        " the first time.",
    ),
    Alert(
        "DedupSignaturesWrong",
        Severity.CRITICAL,
        _unsigned,
        "{{ $labels.route }}: nothing that comes is signed with your secrets",
        "It is the wrong secret or public_url, rather than a forger. All deliveries are refused.",
    ),
    Alert(
        "DedupSignaturesExpired",
        Severity.WARNING,
        happened("signatures_total", "10m", result="expired"),
        "{{ $labels.route }}: signed deliveries come too late",
        "Somebody replays old deliveries, or a clock is wrong: secret and bytes are right.",
    ),
    Alert(
        "DedupSignatureKeysAway",
        Severity.CRITICAL,
        happened("signatures_total", "10m", result="unchecked"),
        "{{ $labels.route }}: public keys cannot be fetched",
        "Deliveries are told to come again until there are keys to check them with.",
    ),
    Alert(
        "DedupUpstreamCertificateExpiring",
        Severity.WARNING,
        _expiring,
        "{{ $labels.route }}: the consumer's certificate ends in {{ $value | humanizeDuration }}",
        "Once it has expired, nothing is forwarded.",
    ),
)
