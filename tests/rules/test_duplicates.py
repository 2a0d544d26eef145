"""A spike of duplicates of one type is told from what is common, once that is known."""

from __future__ import annotations

import pytest
import yaml

from gateway.rules import rules
from tests.rules.cases import FIRST, SECOND, Case, Change, change
from tests.rules.promtool import Promtool
from tests.rules.scrape import Scraped

PAID = {"route": "orders", "event_type": "order.paid"}
OTHER = {"route": "orders", "event_type": "other", "shape": "redrive", "instance": SECOND}
# Steps of five minutes.
HOUR = 12
EVENTS = change("events_total", "0+50x400", **PAID)
"""On each of two gateways: 200 within ten minutes."""


def duplicates(number: int, after: int, *, common: int = 1, type_: dict[str, str] = PAID) -> Change:
    """So many more on one gateway, in one step, after so many hours of `common` ones each step."""
    then = common * after * HOUR + number
    growth = f"0+{common}x{after * HOUR - 1} {then}+{common}x80"
    return change("duplicates_total", growth, **{"instance": FIRST, "shape": "retry", **type_})


def spike(story: str, *changes: Change, after: int, type_: str | None = "order.paid") -> Case:
    """`type_`: None where nothing may fire."""
    at = f"{after}h5m"
    if type_ is None:
        return Case(story, changes, silent=[f"{after}h", at], every="5m")
    alert = "DedupDuplicateSpike"
    again = [f"{after - 1}h", f"{after}h20m"]
    return Case(story, changes, alert, [at], again, type_=type_, every="5m")


CASES = [
    spike("thirty instead of two", EVENTS, duplicates(30, 25), after=25),
    spike(
        "thirty instead of two within the first day",
        EVENTS,
        duplicates(30, 20),
        after=20,
        type_=None,
    ),
    spike(
        "thirty where ten are common", EVENTS, duplicates(30, 25, common=5), after=25, type_=None
    ),
    spike(
        "nineteen where none ever came",
        EVENTS,
        duplicates(19, 25, common=0),
        after=25,
        type_=None,
    ),
    spike("twenty-five where none ever came", EVENTS, duplicates(25, 25, common=0), after=25),
    spike(
        "a redrive after a restart, of types that nobody knows yet",
        duplicates(300, 25, common=0, type_=OTHER),
        after=25,
        type_="other",
    ),
    spike(
        "a redrive of types that few events of the week had",
        change("events_total", "0x100 40x300", **PAID),
        duplicates(300, 25, common=0),
        after=25,
    ),
]


@pytest.fixture(scope="module")
def alone(scraped: Scraped, tmp_path_factory: pytest.TempPathFactory) -> Promtool:
    """This rule only: a day has many steps."""
    (group,) = [
        group
        for group in yaml.safe_load(rules(scraped.watched))["groups"]
        if group["name"] == "dedup-duplicates"
    ]
    place = tmp_path_factory.mktemp("alone")
    return Promtool(place, "this file", yaml.safe_dump({"groups": [group]}), scraped.samples)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_a_spike_fires_for_its_type_and_stays_silent_without_a_day_of_history(
    case: Case, alone: Promtool
) -> None:
    alone.plays(case)
