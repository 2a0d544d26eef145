"""What is noted of deliveries, and what it is told apart by."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.claim import Seen
from gateway.core.keying import Recipe
from gateway.core.location import Header, Json, Literal
from gateway.core.observing import LONGEST_BODY, Observed, Sum, What, print_of, shape, traces
from gateway.core.retention import Promise, Shape
from tests.routes import ROUTE

PROMISE = Promise(timedelta(seconds=8), timedelta(hours=72), timedelta(days=30), "tests", None)


def body(**members: object) -> bytes:
    return json.dumps({"type": "order.paid", "amount": 12, **members}).encode()


ALIKE = [
    ("byte for byte", body(), body(), ("d-1001", "d-1002"), ()),
    ("but for the id in it", body(id="d-1001"), body(id="d-1002"), ("d-1001", "d-1002"), ()),
    (
        "but for one part of a composite",
        body(order="ord_1", change="chg_1"),
        body(order="ord_1", change="chg_2"),
        ("ord_1,chg_1", "ord_1,chg_2"),
        (),
    ),
    (
        "but for what changes with every attempt",
        body(sent=1),
        body(sent=2),
        ("d-1001", "d-1002"),
        (("sent",),),
    ),
]


@pytest.mark.parametrize(("how", "one", "other", "ids", "per_attempt"), ALIKE)
def test_two_bodies_are_known_for_the_same(
    how: str,
    one: bytes,
    other: bytes,
    ids: tuple[str, str],
    per_attempt: tuple[tuple[str, ...], ...],
) -> None:
    first, second = traces(one, ids[0], per_attempt), traces(other, ids[1], per_attempt)
    (common,) = {*first} & {*second}
    assert common.holds_id is (one != other and not per_attempt), how


DIFFERENT = [
    ("another amount", body(amount=1), body(amount=2), ("d-1001", "d-1002")),
    ("a short id that is part of a price", body(amount=31), body(amount=32), ("1", "2")),
    (
        "two parts of a composite",
        body(message="msg_1", status="sent"),
        body(message="msg_2", status="read"),
        ("msg_1,sent", "msg_2,read"),
    ),
    ("a part beside the body", body(order="ord_1"), body(order="ord_2"), ("ord_1,d1", "ord_2,d2")),
]


@pytest.mark.parametrize(("how", "one", "other", "ids"), DIFFERENT)
def test_two_bodies_are_told_apart(
    how: str, one: bytes, other: bytes, ids: tuple[str, str]
) -> None:
    assert not {*traces(one, ids[0], ())} & {*traces(other, ids[1], ())}, how


@pytest.mark.parametrize("said", [b"", b"ping=1", b"{}", b'{"id":"evt_1234567890"}'])
def test_a_body_that_says_nothing_about_an_event_is_not_known_again(said: bytes) -> None:
    assert traces(said, "evt_1234567890", ()) == ()


def test_a_body_that_takes_long_to_read_is_not_known_again() -> None:
    assert traces(b"x" * LONGEST_BODY, "evt_1", ())
    assert not traces(b"x" * (LONGEST_BODY + 1), "evt_1", ())


KEYS = [
    replace(ROUTE, recipe=Recipe((Literal("orders"),), (Header("X-Id"),))),
    replace(ROUTE, recipe=replace(ROUTE.recipe, operation=(Json(("order",)),))),
    replace(ROUTE, per_attempt=(("sent",),)),
    replace(ROUTE, per_attempt=(("sent", "at"),)),
]


def test_notes_begin_anew_where_the_key_or_what_is_compared_changes() -> None:
    prints = [print_of(route) for route in (ROUTE, *KEYS)]
    assert len(set(prints)) == len(prints)
    same = [replace(ROUTE, lease=99.0), replace(ROUTE, promise=PROMISE)]
    assert {print_of(route) for route in same} == {prints[0]}


SHAPES = [
    (Seen(100.0, True, 105.0), Shape.RETRY, 5.0),
    (Seen(100.0, True, 100.0 + 73 * 3600), Shape.REDRIVE, 73 * 3600.0),
    (Seen(100.0, True, 105.0, same_event=False), Shape.OPERATION, 5.0),
    (Seen(100.0, True, 99.0), Shape.RETRY, 0.0),
]


@pytest.mark.parametrize(("seen", "expected", "age"), SHAPES)
def test_a_duplicate_has_the_shape_that_forward_mode_would_count(
    seen: Seen, expected: Shape, age: float
) -> None:
    assert shape(seen, PROMISE) == (expected, age)


def test_what_is_noted_beside_a_delivery_is_no_delivery() -> None:
    sums = tuple(Sum(what, "", 1, 0.0, None) for what in What)
    beside = {
        What.MISMATCH, What.BODY, What.SAME_BODY, What.SAME_BUT_ID, What.TAKEN_AGAIN, What.ITEM,
    }  # fmt: skip
    assert Observed(sums, 0.0, 0.0, 0).deliveries == len(What) - len(beside)
