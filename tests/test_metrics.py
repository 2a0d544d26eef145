"""What Prometheus reads: what is told moves it, and what strangers send does not break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.core.answer import Reason, Verdict
from gateway.core.batch import BatchPolicy, OnMixed
from gateway.core.inbox import EntryEnding, EntryState, Waiting
from gateway.core.location import Json
from gateway.core.retention import Promise, Shape
from gateway.core.route import Mode
from gateway.core.signature import Signature
from gateway.metrics import LONGEST_TYPE, TYPES_PER_ROUTE, Metrics
from gateway.tallies import MOST_UNTOLD
from tests import routes

ROUTE = replace(
    routes.ROUTE,
    promise=Promise(timedelta(seconds=1.4), timedelta(hours=72), timedelta(days=30), "tests", None),
    retention=timedelta(days=45),
    signature=Signature(
        "stripe", ("new", "old"), ("keys.pem",), None, None, (), frozenset(), resign=False
    ),
    batch=BatchPolicy((("items",),), (Json(("id",)),), None, None, OnMixed.FILTER),
)


def types(metrics: Metrics, name: str = "dedup_events_total") -> dict[str, float]:
    page = metrics.render()[0].decode()
    return {
        sample.labels["event_type"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


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


def page(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its values in the order of labels' names, buckets left out."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.render()[0].decode())
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def of(found: dict[tuple[str, ...], float], name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by their labels."""
    return {key[1:]: value for key, value in found.items() if key[0] == name}


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


def test_duplicates_of_a_type_are_zero_from_its_first_event_on() -> None:
    metrics = Metrics()
    metrics.event("orders", "order.paid")
    assert page(metrics)["dedup_duplicates_total", "order.paid", "orders", "redrive"] == 0


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


def test_gauges_say_how_things_stand_at_the_scrape() -> None:
    metrics, up, pending = Metrics(), True, 3
    metrics.gauges.watch(
        store_up=lambda: up, pending=lambda: pending, certificates=lambda: [("orders", 1e9)]
    )
    assert page(metrics)["dedup_store_up",] == 1
    assert page(metrics)["dedup_pending_settlements",] == 3
    assert page(metrics)["dedup_upstream_certificate_expiry_timestamp_seconds", "orders"] == 1e9
    up, pending = False, 0
    assert page(metrics)["dedup_store_up",] == 0
    assert page(metrics)["dedup_pending_settlements",] == 0


INBOX = {
    ("orders", EntryState.PENDING): Waiting(7, 30.0),
    ("orders", EntryState.LEASED): Waiting(2, 45.5),
    ("orders", EntryState.DEAD): Waiting(1, 86400.0),
    ("removed", EntryState.DEAD): Waiting(9, 1.0),
}


def test_entries_that_wait_are_shown_for_each_route_and_state_and_zero_where_none_do() -> None:
    metrics = Metrics()
    metrics.routes([ROUTE, replace(ROUTE, name="invoices")])
    metrics.gauges.watch_inbox(waiting=lambda: INBOX, open_breakers=list)
    assert of(page(metrics), "dedup_inbox_entries") == {
        ("orders", "pending"): 7,
        ("orders", "leased"): 2,
        ("orders", "dead"): 1,
        ("orders", "held"): 0,
        **{("invoices", state): 0 for state in ("pending", "leased", "dead", "held")},
    }


def test_the_oldest_entry_is_one_that_is_due_and_not_one_that_waits_for_a_person() -> None:
    metrics = Metrics()
    metrics.routes([ROUTE, replace(ROUTE, name="invoices")])
    metrics.gauges.watch_inbox(waiting=lambda: INBOX, open_breakers=list)
    found = of(page(metrics), "dedup_inbox_oldest_entry_age_seconds")
    assert found == {("orders",): 45.5, ("invoices",): 0}


def test_what_waits_in_the_inbox_is_absent_while_the_store_is_away() -> None:
    waits: dict[tuple[str, EntryState], Waiting] | None = INBOX
    metrics = Metrics()
    metrics.routes([ROUTE])
    metrics.gauges.watch_inbox(waiting=lambda: waits, open_breakers=list)
    assert of(page(metrics), "dedup_inbox_entries")
    waits = None
    found = page(metrics)
    assert not of(found, "dedup_inbox_entries")
    assert not of(found, "dedup_inbox_oldest_entry_age_seconds")
    waits = {}
    assert set(of(page(metrics), "dedup_inbox_entries").values()) == {0}


def test_a_route_whose_entries_are_held_back_is_shown_beside_those_whose_are_not() -> None:
    metrics = Metrics()
    metrics.routes([ROUTE, replace(ROUTE, name="invoices")])
    metrics.gauges.watch_inbox(waiting=dict, open_breakers=lambda: ["invoices", "removed"])
    assert of(page(metrics), "dedup_breaker_open") == {("orders",): 0, ("invoices",): 1}


def test_a_reload_counts_as_good_until_one_was_not() -> None:
    metrics = Metrics()
    assert page(metrics)["dedup_config_last_reload_successful",] == 1
    metrics.gauges.reloaded(False)
    assert page(metrics)["dedup_config_last_reload_successful",] == 0
