"""What notes say about a key: that it is wrong, that nobody knows yet, or that it is right."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.findings import Kind, Standing, duplicates, enforced, judge
from gateway.core.observing import Observed, Sum, What
from gateway.core.retention import Promise
from gateway.core.route import OnMissingId, OnStoreDown
from tests.routes import ROUTE

DAY = 86_400.0
Notes = dict[tuple[What, str], int]


def observed(notes: Notes, *, seconds: float = 2 * DAY, oldest: float = 60.0) -> Observed:
    sums = tuple(
        Sum(what, detail, number, oldest if what is What.DURABLE else 0.0, "evt_1")
        for (what, detail), number in notes.items()
    )
    return Observed(sums, 1000.0, 1000.0 + seconds, 0)


def n(what: What, number: int, detail: str = "") -> Notes:
    return {(what, detail): number}


HEALTHY = n(What.NEW, 1000) | n(What.BODY, 1000)
REPEATS = n(What.DURABLE, 20, "retry")
HARDLY_NEW = n(What.BODY, 10) | n(What.SAME_BODY, 10)

# Notes, the finding and whether it is sure. Each pair of neighbours is a threshold.
FOUND = [
    (HEALTHY | REPEATS, None, None),
    (HEALTHY | n(What.SAME_BODY, 5), Kind.DELIVERY_ID, True),
    (HEALTHY | n(What.SAME_BUT_ID, 5), Kind.DELIVERY_ID, True),
    (HEALTHY | n(What.SAME_BODY, 4), Kind.DELIVERY_ID, False),
    (HEALTHY | n(What.SAME_BODY, 200) | REPEATS, Kind.DELIVERY_ID, True),
    (HEALTHY | n(What.SAME_BODY, 199) | REPEATS, None, None),
    (HEALTHY | n(What.SAME_BODY, 5) | n(What.AGAIN, 1), None, None),
    (HARDLY_NEW | n(What.BODY, 40, "once_more"), Kind.DELIVERY_ID, True),
    (HARDLY_NEW | n(What.BODY, 41, "once_more"), None, None),
    (HEALTHY | n(What.DURABLE, 100, "retry") | n(What.MISMATCH, 5), Kind.BUSINESS_ID, True),
    (HEALTHY | n(What.DURABLE, 101, "retry") | n(What.MISMATCH, 5), Kind.BUSINESS_ID, False),
    (HEALTHY | n(What.DURABLE, 4, "retry") | n(What.MISMATCH, 4), Kind.BUSINESS_ID, False),
    (HEALTHY | n(What.CONCURRENT, 5) | n(What.MISMATCH, 5), Kind.BUSINESS_ID, True),
    (
        HEALTHY | n(What.DURABLE, 900, "operation") | n(What.CONCURRENT, 5) | n(What.MISMATCH, 5),
        Kind.BUSINESS_ID,
        True,
    ),
    (n(What.BATCH, 9, "mixed") | n(What.ITEM, 99, "durable") | n(What.MISMATCH, 5),
     Kind.BUSINESS_ID, True),
    (n(What.NEW, 95) | n(What.UNKEYED, 5, "json:/id"), Kind.NO_ID, True),
    (n(What.NEW, 96) | n(What.UNKEYED, 5, "json:/id"), Kind.NO_ID, False),
    (n(What.UNKEYED, 4, "json:/id"), Kind.NO_ID, False),
    (n(What.BATCH, 1, "new") | n(What.ITEM, 95, "new") | n(What.ITEM, 5, "unkeyed"),
     Kind.NO_ID, True),
    (n(What.NEW, 95) | n(What.CONFLICTING, 5, "header:X"), Kind.CONFLICTING, True),
    (n(What.NEW, 4) | n(What.UNSIGNED, 5, "wrong"), Kind.UNSIGNED, True),
    (n(What.NEW, 5) | n(What.UNSIGNED, 5, "missing"), Kind.UNSIGNED, False),
    (n(What.UNSIGNED, 9, "unchecked"), None, None),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "kind", "sure"), FOUND)
def test_a_wrong_key_is_found_by_its_notes(
    notes: Notes, kind: Kind | None, sure: bool | None
) -> None:
    found = [(one.kind, one.sure) for one in judge(observed(notes), ROUTE).findings]
    assert found == ([] if kind is None else [(kind, sure)])


def test_a_first_sign_holds_nothing_up_and_a_sure_one_does() -> None:
    few = HEALTHY | n(What.DURABLE, 101, "retry") | n(What.MISMATCH, 5)
    assert judge(observed(few), ROUTE).standing is Standing.RIGHT
    many = HEALTHY | n(What.DURABLE, 100, "retry") | n(What.MISMATCH, 5)
    assert judge(observed(many, seconds=1.0), ROUTE).standing is Standing.WRONG


STANDINGS = [
    ({}, 0.0, Standing.NOTHING),
    (n(What.BODY, 3), DAY, Standing.NOTHING),
    (HEALTHY | n(What.DURABLE, 20, "retry"), DAY, Standing.RIGHT),
    (HEALTHY | n(What.DURABLE, 19, "retry"), DAY, Standing.EARLY),
    (HEALTHY | n(What.DURABLE, 20, "retry"), DAY - 1, Standing.EARLY),
    (HEALTHY | n(What.AGAIN, 10) | n(What.CONCURRENT, 10), DAY, Standing.RIGHT),
    (HEALTHY | n(What.DURABLE, 20, "operation"), DAY, Standing.EARLY),
    (n(What.BATCH, 2, "new") | n(What.ITEM, 20, "durable"), DAY, Standing.RIGHT),
    (HEALTHY, 90 * DAY, Standing.EARLY),
]


@pytest.mark.parametrize(("notes", "seconds", "standing"), STANDINGS)
def test_a_key_is_right_only_once_enough_came_again_over_a_day(
    notes: Notes, seconds: float, standing: Standing
) -> None:
    assert judge(observed(notes, seconds=seconds), ROUTE).standing is standing


def test_a_route_that_passes_everything_has_no_key_to_judge() -> None:
    route = replace(ROUTE, pass_through="its ids come for every change")
    assert judge(observed(n(What.PASSED, 100)), route).standing is Standing.PASSES


@pytest.mark.parametrize(("age", "found"), [(33 * DAY, False), (33 * DAY + 1, True)])
def test_a_promise_is_too_short_when_a_duplicate_was_older_than_the_floor(
    age: float, found: bool
) -> None:
    promise = Promise(None, timedelta(days=3), timedelta(days=30), "tests", None)
    notes = observed(HEALTHY | n(What.DURABLE, 30, "redrive"), oldest=age)
    judged = judge(notes, replace(ROUTE, promise=promise, own_replay=timedelta(0)))
    assert [one.kind for one in judged.findings] == [Kind.SHORT_PROMISE] * found
    assert judge(notes, replace(ROUTE, promise=None)).findings == ()


EVERYTHING = (
    n(What.NEW, 100)
    | n(What.AGAIN, 3)
    | n(What.AGAIN, 2, "marked")
    | n(What.DURABLE, 7, "retry")
    | n(What.DURABLE, 6, "operation")
    | n(What.CONCURRENT, 5)
    | n(What.CONCURRENT, 1, "operation")
    | n(What.UNKEYED, 11, "json:/id")
    | n(What.CONFLICTING, 13, "header:X")
    | n(What.UNSIGNED, 17, "wrong")
    | n(What.UNSIGNED, 19, "unchecked")
    | n(What.PASSED, 23)
    | n(What.BATCH, 29, "mixed")
    | n(What.BYPASSED, 31)
)


def test_each_delivery_has_one_place_in_what_enforcing_would_have_done() -> None:
    notes = observed(EVERYTHING)
    would = enforced(notes, replace(ROUTE, on_store_down=OnStoreDown.REFUSE))
    assert (would.forwarded, would.again, would.marked) == (100, 5, 2)
    assert (would.answered, would.waited, would.passed) == (13, 6, 23)
    assert would.refused == {400: 13, 401: 17, 503: 19 + 31}
    assert would.unprotected == 11
    assert would.batches == {"mixed": 29}
    told = would.forwarded + would.again + would.answered + would.waited + would.passed
    elsewhere = would.unprotected + sum(would.refused.values()) + sum(would.batches.values())
    assert told + elsewhere == notes.deliveries


def test_what_a_route_does_without_id_or_store_is_what_enforcing_would_have_done() -> None:
    lax = replace(ROUTE, missing_id=OnMissingId.REFUSE, on_store_down=OnStoreDown.FORWARD)
    would = enforced(observed(EVERYTHING), lax)
    assert would.unprotected == 31
    assert would.refused == {400: 13 + 11, 401: 17, 503: 19}


def test_duplicates_are_told_by_their_shapes() -> None:
    assert duplicates(observed(EVERYTHING)) == {"concurrent": 5, "operation": 7, "retry": 7}
