"""Keys by operation: what they are made of, and which events go by their id all the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.core.keying import Conflicting, Recipe
from tests.core.ids import SCOPE, identify, key, recipe

OPERATION = recipe("header:X-Order").parts
BY_ORDER = replace(recipe("header:X-Id"), operation=OPERATION)
ID, OTHER_ID, ORDER, OTHER_ORDER = (
    (b"X-Id", b"evt_1"),
    (b"X-Id", b"evt_2"),
    (b"X-Order", b"7"),
    (b"X-Order", b"8"),
)


def test_events_of_one_operation_have_one_key_and_keep_their_ids() -> None:
    first, second = key(BY_ORDER, b"", ID, ORDER), key(BY_ORDER, b"", OTHER_ID, ORDER)
    assert first.digest == second.digest != key(BY_ORDER, b"", ID, OTHER_ORDER).digest
    assert (first.event_id, second.event_id) == ("evt_1", "evt_2")
    assert key(BY_ORDER, b"", ORDER).event_id == "7"


def test_an_event_of_no_operation_goes_by_its_id_and_is_no_operation_of_that_name() -> None:
    alone = key(BY_ORDER, b"", ID)
    assert alone.event_id == "evt_1"
    assert alone.digest != key(BY_ORDER, b"", OTHER_ID).digest
    assert alone.digest != key(BY_ORDER, b"", (b"X-Order", b"evt_1")).digest


@pytest.mark.parametrize("lines", [(ID, OTHER_ID, ORDER), (ID, ORDER, OTHER_ORDER)])
def test_two_ids_or_two_operations_are_refused_whatever_the_other_says(
    lines: tuple[tuple[bytes, bytes], ...],
) -> None:
    assert isinstance(identify(BY_ORDER, b"", *lines), Conflicting)


def test_recipes_are_the_same_only_where_both_places_are() -> None:
    others = [
        Recipe(SCOPE, OPERATION),
        replace(BY_ORDER, parts=()),
        replace(BY_ORDER, parts=OPERATION),
        replace(BY_ORDER, parts=OPERATION, operation=BY_ORDER.parts),
        recipe("header:X-Order", "header:X-Id"),
    ]
    prints = {one.print() for one in (BY_ORDER, *others)}
    assert len(prints) == 1 + len(others)


def test_an_operation_may_be_made_of_several_parts_of_a_body() -> None:
    by = replace(recipe("json:/id"), operation=recipe("literal:ticket", "json:/order/id").parts)
    first, second = (
        json.dumps({"id": number, "order": {"id": 7}}).encode() for number in ("evt_1", "evt_2")
    )
    assert key(by, first).digest == key(by, second).digest
    assert key(by, b'{"id": "evt_3"}').event_id == "evt_3"
