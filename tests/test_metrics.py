"""Counters: what is told moves them, and what an alert rests on is there before that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from gateway.core.answer import Reason, Verdict
from gateway.core.batch import BatchPolicy, OnMixed
from gateway.core.inbox import EntryEnding
from gateway.core.location import Json
from gateway.core.retention import Promise, Shape
from gateway.core.route import Mode
from gateway.core.signature import Signature
from gateway.metrics import Metrics
from gateway.tallies import MOST_UNTOLD
from tests import routes
from tests.scraped import of, page

ROUTE = replace(
    routes.ROUTE,
    promise=Promise(timedelta(seconds=1.4), timedelta(hours=72), timedelta(days=30), "tests", None),
    retention=timedelta(days=45),
    signature=Signature(
        "stripe", ("new", "old"), ("keys.pem",), None, None, (), frozenset(), resign=False
    ),
    batch=BatchPolicy((("items",),), (Json(("id",)),), None, None, OnMixed.FILTER),
)


ZERO_AT_FIRST: list[tuple[Callable[[Metrics], None], tuple[str, ...]]] = [
    (lambda m: m.request("orders"), ("dedup_requests_total", "orders")),
    (lambda m: m.takeover("orders"), ("dedup_takeovers_total", "orders")),
    (lambda m: m.late_success("orders"), ("dedup_late_successes_total", "orders")),
    (lambda m: m.possible_double("orders"), ("dedup_possible_doubles_total", "orders")),
    (lambda m: m.stale("orders"), ("dedup_stale_events_total", "orders")),
    (lambda m: m.mismatch("orders"), ("dedup_payload_mismatches_total", "orders")),
    (
        lambda m: m.delivery("orders", Verdict.FIRST),
        ("dedup_deliveries_total", "orders", "first"),
    ),
    (
        lambda m: m.forward("orders", "refused", 9, slow=True),
        ("dedup_slow_forwards_total", "orders"),
    ),
    (
        lambda m: m.forward("orders", "refused", 9, slow=False),
        ("dedup_forwards_total", "refused", "orders"),
    ),
    (
        lambda m: m.rejection("orders", Reason.INTERNAL),
        ("dedup_rejected_total", "internal", "orders"),
    ),
    (lambda m: m.rejection("", Reason.INTERNAL), ("dedup_rejected_total", "internal", "")),
    (
        lambda m: m.duplicate("orders", None, Shape.RETRY, 1.0),
        ("dedup_duplicates_total", "", "orders", "retry"),
    ),
    (
        lambda m: m.concluded("orders", EntryEnding.BURY),
        ("dedup_inbox_concluded_total", "bury", "orders"),
    ),
    *(
        (
            partial(Metrics.signature, route="orders", result=result, secret=secret),
            ("dedup_signatures_total", result, "orders", secret),
        )
        for result, secret in [
            ("valid", "0"),
            ("valid", "1"),
            ("valid", "2"),
            ("missing", ""),
            ("wrong", ""),
            ("expired", ""),
            ("unchecked", ""),
        ]
    ),
    *(
        (
            partial(Metrics.items, route="orders", verdict=verdict, number=1),
            ("dedup_batch_items_total", "orders", verdict.value),
        )
        for verdict in (Verdict.FIRST, Verdict.DUPLICATE, Verdict.BUSY, Verdict.UNKEYED)
    ),
    (lambda m: m.store_error("schema"), ("dedup_store_errors_total", "schema")),
]


@pytest.mark.parametrize(("told", "sample"), ZERO_AT_FIRST)
def test_a_counter_that_an_alert_rests_on_is_zero_before_it_is_one(
    told: Callable[[Metrics], None], sample: tuple[str, ...]
) -> None:
    metrics = Metrics()
    metrics.routes([ROUTE])
    assert page(metrics)[sample] == 0
    told(metrics)
    assert page(metrics)[sample] == 1


def test_a_scheme_that_knows_its_keys_by_itself_has_one_place_for_what_is_valid() -> None:
    metrics = Metrics()
    assert ROUTE.signature is not None
    keyless = replace(ROUTE.signature, secrets=(), keys=())
    metrics.routes([replace(ROUTE, signature=keyless), replace(ROUTE, name="x", signature=None)])
    valid = [key for key in of(page(metrics), "dedup_signatures_total") if key[0] == "valid"]
    assert valid == [("valid", "orders", "0")]
    assert not [key for key in page(metrics) if key[0] == "dedup_signatures_total" and "x" in key]


def test_a_forward_moves_its_outcome_and_its_duration_and_not_the_slow_ones() -> None:
    metrics = Metrics()
    metrics.routes([ROUTE])
    metrics.forward("orders", "delivered", 2.5, slow=False)
    found = page(metrics)
    assert found["dedup_forward_duration_seconds_sum", "orders"] == 2.5
    assert found["dedup_slow_forwards_total", "orders"] == 0


def test_what_was_turned_away_and_what_failed_is_counted_by_its_kind() -> None:
    metrics = Metrics()
    metrics.rejection("", Reason.NO_ROUTE)
    metrics.store_error("timeout")
    metrics.duplicate("orders", None, Shape.REDRIVE, 86400.0)
    found = page(metrics)
    assert found["dedup_rejected_total", "no_route", ""] == 1
    assert found["dedup_store_errors_total", "timeout"] == 1
    assert found["dedup_duplicate_age_seconds_sum", "orders"] == 86400


def test_only_statements_on_the_claims_are_claims_durations() -> None:
    metrics = Metrics()
    metrics.statement("arrive", 0.5, 3)
    metrics.statement("health", 0.5, 1)
    metrics.statement("accept", 0.5, 1)
    metrics.statement("put_back", 0.5, 1)
    timed = of(page(metrics), "dedup_claim_duration_seconds_sum")
    assert timed == {("arrive",): 0.5, ("accept",): 0.5}


def test_the_facts_of_a_route_go_with_it() -> None:
    metrics = Metrics()
    metrics.routes([ROUTE])
    found = page(metrics)
    assert found["dedup_retention_floor_seconds", "orders"] == 33 * 86400
    assert found["dedup_promise_retry_horizon_seconds", "orders"] == 3 * 86400
    assert found["dedup_promise_timeout_seconds", "orders"] == 1.4
    assert found["dedup_retention_seconds", "orders"] == 45 * 86400
    metrics.routes([replace(ROUTE, name="invoices", promise=None, mode=Mode.OBSERVE)])
    found = page(metrics)
    assert found["dedup_route_info", "observe", "invoices"] == 1
    assert not [key for key in found if key[0] == "dedup_route_info" and "orders" in key]
    assert not [key for key in found if key[0] == "dedup_retention_floor_seconds"]


def test_a_scrape_takes_what_came_since_the_last_and_loses_nothing() -> None:
    metrics = Metrics()
    for n in range(1, 3):
        for _ in range(MOST_UNTOLD + 5):
            metrics.delivery("orders", Verdict.FIRST)
            metrics.forward("orders", "delivered", 0.25, slow=False)
        found = page(metrics)
        assert found == page(metrics)
        assert found["dedup_deliveries_total", "orders", "first"] == n * (MOST_UNTOLD + 5)
        assert found["dedup_forward_duration_seconds_count", "orders"] == n * (MOST_UNTOLD + 5)
        assert found["dedup_forward_duration_seconds_sum", "orders"] == n * (MOST_UNTOLD + 5) / 4
