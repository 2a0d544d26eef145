"""Rules about the memory fire when it is shorter than it has to be, and at no other time."""

from __future__ import annotations

import pytest

from tests.rules.cases import DAY, FIRST, FLOOR, SECOND, Case, change, counted, quiet, stands
from tests.rules.promtool import Promtool

SHORT = change("retention_seconds", 10 * DAY, route="orders", instance=SECOND)
BELOW = "DedupRetentionBelowFloor"
DRIFT = "DedupEffectiveRetentionBelowFloor"
MISMATCHES = "DedupPayloadMismatches"
LOST = "DedupMemoryLost"
PURGE = "DedupPurgeNotRunning"


CASES = [
    quiet("all is as in the scrape", at=["0m", "15m", "30m"]),
    quiet("all is as in the scrape, for a day", at=["24h"], every="1h"),
    stands(BELOW, "one gateway's file has a shorter retention", "6m", SHORT),
    Case(
        "a short retention is accepted no more",
        [change("retention_short_accepted", 0, route="short")],
        BELOW,
        fires=["6m"],
        route="short",
        only="any gateway",
    ),
    Case(
        "one gateway's file has another promise too",
        [SHORT, change("retention_floor_seconds", 9 * DAY, route="orders", instance=SECOND)],
        BELOW,
        fires=["6m"],
        only="this file",
    ),
    stands(
        DRIFT,
        "canaries of an old route are missing",
        "2m",
        change("retention_effective_seconds", 1800, route="orders"),
        change("retention_expected_seconds", FLOOR, route="orders"),
    ),
    stands(
        DRIFT,
        "one gateway knows that the route is older than the store says",
        "2m",
        change("retention_effective_seconds", 1800, route="orders"),
        change("retention_expected_seconds", 9000, route="orders", instance=FIRST),
    ),
    quiet(
        "the oldest canary is an hour younger than the floor is long",
        change("retention_effective_seconds", FLOOR - 3600, route="orders"),
        change("retention_expected_seconds", FLOOR, route="orders"),
    ),
    quiet(
        "a route is younger than its floor",
        change("retention_effective_seconds", "0+60x30", route="orders"),
        change("retention_expected_seconds", "0+60x30", route="orders"),
    ),
    quiet("the store is silent on memories", change("retention_effective_seconds", "_x30")),
    Case(
        "the schema is dropped under a running gateway",
        [change("store_errors_total", "0x15 3x30", kind="schema", instance=FIRST)],
        LOST,
        fires=["17m"],
        silent=["14m", "28m"],
        route=None,
    ),
    quiet(
        "a first gateway of all makes the schema",
        change("store_errors_total", "_x14 0x0 1x20", kind="schema"),
        change("store_up", "_x14 0x0 1x20"),
        at=["16m", "20m", "25m"],
    ),
    counted("DedupPromiseExceeded", "a duplicate is too late", "promise_exceeded_total", "1d"),
    counted("DedupStaleEvents", "a stale event comes", "stale_events_total", "1h"),
    counted("DedupUnresolvedPurged", "no end was known", "purged_unresolved_total", "1d"),
    Case(
        "most duplicates have another body",
        [
            change("payload_mismatches_total", "0x3 8x40", route="orders", instance=FIRST),
            change(
                "duplicates_total",
                "0x3 6x40",
                route="orders",
                event_type="order.paid",
                shape="retry",
            ),
        ],
        MISMATCHES,
        fires=["6h"],
        silent=["3h", "30h"],
        every="1h",
    ),
    quiet(
        "some of many duplicates have another body",
        change("payload_mismatches_total", "0x3 8x40", route="orders", instance=FIRST),
        change("duplicates_total", "0x3 12x40", route="orders", event_type="", shape="retry"),
        at=["6h"],
        every="1h",
    ),
    quiet(
        "there are too few duplicates to say",
        change("payload_mismatches_total", "0x3 4x40", route="orders"),
        change("duplicates_total", "0x3 4x40", route="orders", event_type="", shape="retry"),
        at=["6h"],
        every="1h",
    ),
    Case(
        "the purger stops",
        [change("purge_last_success_timestamp_seconds", -5 * 3600)],
        PURGE,
        fires=["1h20m"],
        silent=["1h"],
        route=None,
        every="5m",
    ),
    Case(
        "the purger never ran",
        [change("purge_last_success_timestamp_seconds", "_x30")],
        PURGE,
        fires=["15m"],
        route=None,
    ),
    quiet(
        "the purger never ran, and no gateway is older than an hour",
        change("purge_last_success_timestamp_seconds", "_x30"),
        change("process_start_time_seconds", -3600),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_a_rule_about_the_memory_fires_in_time_and_for_what_it_is_about(
    case: Case, promtool: Promtool
) -> None:
    promtool.plays(case)
