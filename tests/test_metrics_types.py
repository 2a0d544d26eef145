"""Types of events as labels: what strangers send breaks no page and fills none."""

from __future__ import annotations

import pytest

from gateway.core.retention import Shape
from gateway.metrics import LONGEST_TYPE, TYPES_PER_ROUTE, Metrics
from tests.scraped import of, page


def types(metrics: Metrics, name: str = "dedup_events_total") -> dict[str, float]:
    return {labels[0]: value for labels, value in of(page(metrics), name).items()}


def test_an_accepted_type_becomes_a_label_and_none_is_an_empty_one() -> None:
    metrics = Metrics()
    metrics.event("orders", "order.paid")
    metrics.event("orders", None)
    assert types(metrics) == {"order.paid": 1, "": 1}


@pytest.mark.parametrize("odd", ["\ud800", "a\nb", "a\x00b", "\u2028", "x" * (LONGEST_TYPE + 1)])
def test_a_type_that_no_page_could_carry_is_other_and_every_scrape_goes_on(odd: str) -> None:
    metrics = Metrics()
    metrics.event("orders", odd)
    metrics.duplicate("orders", odd, Shape.RETRY, 1.0)
    assert types(metrics) == {"other": 1}
    assert types(metrics, "dedup_duplicates_total") == {"other": 1}


@pytest.mark.parametrize("usual", ["ünï.paid 😀", "x" * LONGEST_TYPE])
def test_a_type_that_people_can_read_is_a_label(usual: str) -> None:
    metrics = Metrics()
    metrics.event("orders", usual)
    assert types(metrics) == {usual: 1}


def test_types_beyond_what_a_catalogue_has_are_counted_as_other() -> None:
    metrics = Metrics()
    for n in range(100):
        metrics.event("orders", f"type-{n}")
    metrics.event("invoices", "type-99")
    found = types(metrics)
    assert len(found) == TYPES_PER_ROUTE + 2
    assert found["other"] == 100 - TYPES_PER_ROUTE
    assert found["type-99"] == 1


def test_a_type_that_no_consumer_accepted_is_never_a_label() -> None:
    metrics = Metrics()
    metrics.duplicate("orders", "forged", Shape.RETRY, 1.0)
    assert types(metrics, "dedup_duplicates_total") == {"other": 1}


def test_duplicates_of_a_type_are_zero_from_its_first_event_on() -> None:
    metrics = Metrics()
    metrics.event("orders", "order.paid")
    assert page(metrics)["dedup_duplicates_total", "order.paid", "orders", "redrive"] == 0
