"""Gauges: how things stand at the moment of the scrape."""

from __future__ import annotations

from dataclasses import replace

from gateway.core.inbox import EntryState, Waiting
from gateway.metrics import Metrics
from tests.routes import ROUTE
from tests.scraped import of, page

INBOX = {
    ("orders", EntryState.PENDING): Waiting(7, 30.0),
    ("orders", EntryState.LEASED): Waiting(2, 45.5),
    ("orders", EntryState.DEAD): Waiting(1, 86400.0),
    ("removed", EntryState.DEAD): Waiting(9, 1.0),
}


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
