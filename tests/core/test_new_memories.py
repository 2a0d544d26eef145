"""Routes that recognise nothing of what their name or their place remembers."""

from __future__ import annotations

from datetime import date, timedelta

from gateway.core.retention import NewMemory, OnRecord, Promise, derivation, is_beyond, new_memories

DAY = timedelta(days=1)

# A recipe covers the scope, and the scope is the route's name unless it is written.
ORDERS = OnRecord("orders", b"orders", "/hooks/orders")
BILLS = OnRecord("bills", b"bills", "/hooks/bills")


def test_a_route_that_is_as_it_was_recognises_all() -> None:
    assert new_memories([("orders", b"orders", "/hooks/orders")], [ORDERS, BILLS]) == []


def test_a_route_that_is_on_no_record_has_nothing_to_recognise() -> None:
    assert new_memories([("orders", b"orders", "/hooks/orders")], []) == []


def test_another_recipe_is_a_new_memory_wherever_the_route_is() -> None:
    found = [NewMemory("orders", "orders")]
    assert new_memories([("orders", b"new", "/hooks/orders")], [ORDERS]) == found
    assert new_memories([("orders", b"new", "/elsewhere")], [ORDERS]) == found


def test_another_name_at_the_same_place_is_a_new_memory() -> None:
    routes = [("shop", b"shop", "/hooks/orders")]
    assert new_memories(routes, [ORDERS]) == [NewMemory("shop", "orders")]


def test_another_name_with_the_scope_of_before_is_none() -> None:
    assert new_memories([("shop", b"orders", "/hooks/orders")], [ORDERS]) == []


def test_a_route_that_moves_takes_its_memory_along() -> None:
    assert new_memories([("orders", b"orders", "/elsewhere")], [ORDERS]) == []


def test_two_routes_that_swap_names_recognise_nothing_of_each_other() -> None:
    routes = [("orders", b"orders", "/hooks/bills"), ("bills", b"bills", "/hooks/orders")]
    assert new_memories(routes, [ORDERS, BILLS]) == [
        NewMemory("orders", "bills"),
        NewMemory("bills", "orders"),
    ]


def test_a_route_at_a_place_that_another_one_left_is_a_new_memory() -> None:
    routes = [("orders", b"orders", "/elsewhere"), ("shop", b"shop", "/hooks/orders")]
    assert new_memories(routes, [ORDERS]) == [NewMemory("shop", "orders")]


def test_what_is_on_record_without_a_place_is_known_by_its_name_alone() -> None:
    old = ORDERS._replace(place=None)
    assert new_memories([("shop", b"shop", "/hooks/orders")], [old]) == []
    assert new_memories([("orders", b"new", "/x")], [old]) == [NewMemory("orders", "orders")]


def test_a_duplicate_is_beyond_the_promise_when_neither_retries_nor_redrives_reach_it() -> None:
    promise = Promise(None, 3 * DAY, 30 * DAY, "", None)
    assert not is_beyond((33 * DAY).total_seconds(), promise)
    assert is_beyond((33 * DAY).total_seconds() + 1, promise)
    assert not is_beyond((999 * DAY).total_seconds(), None)


def test_the_record_says_what_a_retention_was_derived_from() -> None:
    promise = Promise(None, 3 * DAY, 30 * DAY, "https://provider.example/docs", date(2026, 8, 25))
    assert derivation(promise, 2 * DAY) == (
        "a floor of retry horizon 3d + redrive window 30d + own replay 2d,"
        " from https://provider.example/docs, looked at 2026-08-25"
    )
    assert derivation(None, DAY) == "no promise is on file"
    own = Promise(None, DAY, DAY, "", None)
    assert derivation(own, DAY).endswith("own replay 1d, from the configuration")
