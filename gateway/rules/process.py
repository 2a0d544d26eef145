"""Rules about the gateways themselves, and about what is configured and is not there."""

from __future__ import annotations

from gateway.rules.rule import Alert, Severity, Watched, happened, indented, series


def _down(_: Watched) -> str:
    # Whatever its job is called: it said once that it is a gateway.
    return "up == 0\nand on (job, instance) last_over_time(dedup_build_info[1d])"


def _missing(watched: Watched) -> str:
    absent = "\nor\n".join(
        f"absent({series('route_info', route=_itself(route.name))})" for route in watched.routes
    )
    return absent and f"(\n{indented(absent)}\n)\nand on () dedup_build_info"


def _itself(name: str) -> str:
    return f'route="{name}"'


def _unwatched(watched: Watched) -> str:
    """Of a gateway that has one of ours: another installation's routes are not our concern."""
    if not watched.routes:
        return ""
    ours = watched.series("route_info")
    others = ours.replace("=~", "!~") if "=~" in ours else ours.replace("=", "!=")
    return f"max by (route) ({others} and on (job, instance) {ours})"


PROCESS = (
    Alert(
        "DedupGatewayDown",
        Severity.CRITICAL,
        _down,
        "{{ $labels.instance }}: the gateway cannot be reached",
        "It is down, or its admin address is closed.",
        lasts="1m",
    ),
    Alert(
        "DedupGatewayAbsent",
        Severity.CRITICAL,
        lambda _: "absent(dedup_build_info)",
        "No gateway is there",
        "Prometheus knows of none at all.",
        lasts="5m",
    ),
    Alert(
        "DedupStoreDown",
        Severity.CRITICAL,
        lambda _: "dedup_store_up == 0",
        "{{ $labels.instance }}: the store is away",
        "Deliveries get 503, or doubles get through, as each route has it.",
        lasts="1m",
    ),
    Alert(
        "DedupSettlementsPending",
        Severity.WARNING,
        lambda _: "dedup_pending_settlements > 0",
        "{{ $labels.instance }}: results wait for the store",
        "{{ $value | humanize }} times a consumer acted and the store does not know yet. If this"
        " gateway is killed now, their events are sent again, marked.",
        lasts="10m",
    ),
    Alert(
        "DedupConfigReloadFailed",
        Severity.WARNING,
        lambda _: "dedup_config_last_reload_successful == 0",
        "{{ $labels.instance }}: a changed configuration was not taken",
        "It has mistakes; the old one runs on.",
        lasts="1m",
    ),
    Alert(
        "DedupInternalError",
        Severity.WARNING,
        happened("rejected_total", "1h", reason="internal"),
        "{{ $labels.route }}: requests failed by a fault in the gateway",
        "They got 500. Please report it.",
    ),
    Alert(
        "DedupRouteMissing",
        Severity.CRITICAL,
        _missing,
        "{{ $labels.route }}: no gateway has this route",
        "The file from which these rules were made has it. Deliveries for it get 404.",
        lasts="5m",
    ),
    Alert(
        "DedupRouteUnwatched",
        Severity.WARNING,
        _unwatched,
        "{{ $labels.route }}: these rules do not know this route",
        "It is not in the file from which they were made, so nothing watches it. Make them anew.",
        lasts="1h",
    ),
)
