"""Rules about inbox and gateways fire when somebody is owed something, or not there."""

from __future__ import annotations

import pytest

from tests.rules.cases import FIRST, SECOND, Case, change, counted, new, quiet
from tests.rules.promtool import Promtool

INBOX = {"route": "shipping"}
BACKLOG = "DedupInboxBacklog"


CASES = [
    Case(
        "twenty thousand events wait",
        [change("inbox_entries", 20_000, state="pending", **INBOX)],
        BACKLOG,
        fires=["11m"],
        silent=["5m"],
        route="shipping",
    ),
    Case(
        "more than half of the route's high_water waits",
        [
            change("inbox_entries", 400, state="pending", **INBOX),
            change("inbox_entries", 200, state="leased", **INBOX),
        ],
        BACKLOG,
        fires=["11m"],
        route="shipping",
        only="this file",
    ),
    quiet(
        "less than half of high_water waits, as both gateways say",
        change("inbox_entries", 300, state="pending", **INBOX),
        change("inbox_entries", 100, state="leased", **INBOX),
    ),
    Case(
        "the oldest entry waits for eleven minutes",
        [change("inbox_oldest_entry_age_seconds", 660, **INBOX)],
        "DedupInboxBehind",
        fires=["6m"],
        route="shipping",
    ),
    quiet(
        "the oldest entry waits for nine minutes",
        change("inbox_oldest_entry_age_seconds", 540, **INBOX),
    ),
    counted(
        "DedupInboxFull",
        "one is refused",
        "rejected_total",
        "10m",
        reason="inbox_full",
        route="shipping",
    ),
    Case(
        "an entry is dead",
        [change("inbox_entries", 1, state="dead", **INBOX)],
        "DedupDeadEntries",
        fires=["1m"],
        route="shipping",
    ),
    Case(
        "an entry is held",
        [change("inbox_entries", 1, state="held", **INBOX)],
        "DedupHeldEntries",
        fires=["1m"],
        route="shipping",
    ),
    quiet("the store is silent on entries", change("inbox_entries", "_x30")),
    Case(
        "a gateway is gone",
        [
            change("up", "1x10 0x20", instance=SECOND),
            change("build_info", "1x10 _x20", instance=SECOND),
        ],
        "DedupGatewayDown",
        fires=["15m"],
        silent=["10m"],
        route=None,
        instance=SECOND,
    ),
    quiet(
        "something else is gone",
        new("up", "1x10 0x20", job="other"),
    ),
    Case(
        "no gateway is there",
        [change("build_info", "1x10 _x30")],
        "DedupGatewayAbsent",
        fires=["22m"],
        silent=["10m"],
        route=None,
    ),
    Case(
        "the store is away for one gateway",
        [change("store_up", "1x10 0x20", instance=FIRST)],
        "DedupStoreDown",
        fires=["13m"],
        silent=["11m"],
        route=None,
        instance=FIRST,
    ),
    Case(
        "a result cannot be recorded",
        [change("pending_settlements", "0x5 2x30", instance=FIRST)],
        "DedupSettlementsPending",
        fires=["17m"],
        silent=["12m"],
        route=None,
        instance=FIRST,
    ),
    Case(
        "a changed file has mistakes",
        [change("config_last_reload_successful", "1x5 0x30", instance=FIRST)],
        "DedupConfigReloadFailed",
        fires=["8m"],
        silent=["5m"],
        route=None,
        instance=FIRST,
    ),
    counted("DedupInternalError", "a request fails", "rejected_total", "1h", reason="internal"),
    Case(
        "a route is gone from the gateways",
        [change("route_info", "1x10 _x40", route="orders")],
        "DedupRouteMissing",
        fires=["25m"],
        silent=["10m"],
        only="this file",
    ),
    Case(
        "a gateway has a route more",
        [new("route_info", 1, route="newer", mode="forward")],
        "DedupRouteUnwatched",
        fires=["1h5m"],
        silent=["30m"],
        route="newer",
        every="5m",
        only="this file",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_a_rule_about_inbox_and_gateways_fires_in_time_and_for_what_it_is_about(
    case: Case, promtool: Promtool
) -> None:
    promtool.plays(case)
