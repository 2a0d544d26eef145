"""Rules about deliveries fire when events are unprotected, refused or late, and not before."""

from __future__ import annotations

import pytest

from tests.rules.cases import DAY, FIRST, SECOND, Case, change, counted, quiet
from tests.rules.promtool import Promtool

TAKEN_OVER = "DedupTakeovers"
PAID = {"route": "orders", "instance": FIRST}


def hour(alert: str, story: str, *values: tuple[str, str, dict[str, str]]) -> Case:
    """Counters of one gateway that grow within an hour; without an alert, by too little."""
    changes = [
        change(series, growth, **{"route": "orders", "instance": SECOND, **labels})
        for series, growth, labels in values
    ]
    if not alert:
        return quiet(story, *changes, at=["1h10m"], every="5m")
    route = changes[0].labels["route"]
    return Case(story, changes, alert, ["1h10m"], ["55m", "2h10m"], route, every="5m")


def grows(by: int) -> str:
    return f"0x11 {by}x20"


ARRIVED: dict[str, str] = {"verdict": "first"}
BUSY: dict[str, str] = {"verdict": "busy"}
SENT: dict[str, str] = {"outcome": "delivered"}
WRONG = {"route": "signed", "result": "wrong"}
RIGHT = {"route": "signed", "result": "valid", "secret": "0"}

CASES = [
    counted(
        "DedupUnkeyedDeliveries", "one is unkeyed", "deliveries_total", "10m", verdict="unkeyed"
    ),
    counted(
        "DedupUnkeyedDeliveries",
        "an item of a batch is unkeyed",
        "batch_items_total",
        "10m",
        verdict="unkeyed",
        route="mail",
    ),
    quiet(
        "an observed route has unkeyed and bypassed deliveries",
        change("deliveries_total", "0x10 9x30", route="watched", verdict="unkeyed"),
        change("deliveries_total", "0x10 9x30", route="watched", verdict="bypassed"),
        at=["12m"],
    ),
    counted(
        "DedupBypassedDeliveries", "one is bypassed", "deliveries_total", "10m", verdict="bypassed"
    ),
    hour(
        "DedupSlowForwards",
        "one forward in ten is slow",
        ("slow_forwards_total", grows(4), {}),
        ("forwards_total", grows(40), SENT),
    ),
    hour(
        "",
        "one forward in forty is slow",
        ("slow_forwards_total", grows(1), {}),
        ("forwards_total", grows(40), SENT),
    ),
    Case(
        "nothing is answered",
        [change("forwards_total", "0x10 5x10 9x40", outcome="ambiguous", **PAID)],
        "DedupConsumerAway",
        fires=["18m"],
        silent=["12m", "35m"],
    ),
    quiet(
        "one forward of a hundred is not answered",
        change("forwards_total", "0x10 1x40", outcome="unreached", **PAID),
        change("forwards_total", "0x10 100x40", outcome="delivered", **PAID),
        at=["18m"],
    ),
    hour(
        "DedupBusyReplies",
        "many duplicates cannot be decided",
        ("deliveries_total", grows(7), BUSY),
        ("deliveries_total", grows(200), ARRIVED),
    ),
    hour(
        "",
        "few of very many deliveries are busy",
        ("deliveries_total", grows(7), BUSY),
        ("deliveries_total", grows(2000), ARRIVED),
    ),
    hour("", "one or two are busy", ("deliveries_total", grows(2), BUSY)),
    counted(TAKEN_OVER, "a claim is taken over", "takeovers_total", "1h"),
    Case(
        "a gateway that has just started begins with a takeover",
        [
            change("takeovers_total", "_x6 1x40", route="orders", instance=SECOND),
            change("process_start_time_seconds", "_x6 1700x40", instance=SECOND),
        ],
        TAKEN_OVER,
        fires=["30m", "1h20m"],
        silent=["25m", "1h35m"],
        every="5m",
    ),
    Case(
        "a gateway is restarted and has as many takeovers as before",
        [
            change("takeovers_total", "1x5 _x1 1x40", route="orders", instance=SECOND),
            change("process_start_time_seconds", f"-{DAY}x5 _x1 1900x40", instance=SECOND),
        ],
        TAKEN_OVER,
        fires=["45m"],
        silent=["25m", "1h40m"],
        every="5m",
    ),
    quiet(
        "Prometheus meets a gateway that has counted takeovers for long",
        change("takeovers_total", "_x5 9x40", route="orders"),
        at=["30m", "1h"],
        every="5m",
    ),
    counted("DedupPossibleDoubles", "an event may be doubled", "possible_doubles_total", "1d"),
    hour("DedupSignaturesWrong", "all are wrong", ("signatures_total", grows(7), WRONG)),
    hour(
        "",
        "one forger among right ones",
        ("signatures_total", grows(7), WRONG),
        ("signatures_total", grows(1), RIGHT),
    ),
    hour("", "a scanner or two", ("signatures_total", grows(2), WRONG)),
    counted(
        "DedupSignaturesExpired",
        "one is expired",
        "signatures_total",
        "10m",
        result="expired",
        route="signed",
    ),
    counted(
        "DedupSignatureKeysAway",
        "there are no keys",
        "signatures_total",
        "10m",
        result="unchecked",
        route="signed",
    ),
    Case(
        "the consumer's certificate ends in ten days",
        [change("upstream_certificate_expiry_timestamp_seconds", 10 * DAY, route="tls.eu")],
        "DedupUpstreamCertificateExpiring",
        fires=["5m"],
        route="tls.eu",
    ),
    quiet(
        "one gateway has not seen the renewed certificate yet",
        change(
            "upstream_certificate_expiry_timestamp_seconds",
            10 * DAY,
            route="tls.eu",
            instance=FIRST,
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_a_rule_about_deliveries_fires_in_time_and_for_what_it_is_about(
    case: Case, promtool: Promtool
) -> None:
    promtool.plays(case)
