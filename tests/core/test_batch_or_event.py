"""Lists that are no batch: the data of one event, which the request alone has named."""

from __future__ import annotations

import pytest

from gateway.core import batch
from gateway.core.batch import Batch, BatchPolicy, OnMixed
from gateway.core.event import Delivery
from gateway.core.keying import Conflicting, Missing, Reading
from gateway.core.location import parse_location
from tests.core.ids import delivery, recipe

# As CloudEvents has it: in the headers in binary mode, else in each item.
HEADERS_FIRST = ("header:ce-source | json:/source", "header:ce-id | json:/id")
NAMED = ((b"ce-source", b"shop"), (b"ce-id", b"7"))


def read(came: Delivery, *parts: str) -> Batch | Missing | Conflicting | None:
    by = BatchPolicy(((),), tuple(map(parse_location, parts)), None, None, OnMixed.FILTER)
    return batch.read(Reading(came), by, recipe(), ())


def sent(body: str, *headers: tuple[bytes, bytes]) -> Delivery:
    return delivery(body.encode())._replace(headers=headers)


@pytest.mark.parametrize("data", ["[]", "[1]", "[1, 1]", '[{"id": "a"}, {"id": "b"}]'])
def test_a_list_that_headers_name_is_one_event_whatever_is_in_it(data: str) -> None:
    assert read(sent(data, *NAMED), *HEADERS_FIRST) is None


@pytest.mark.parametrize("named", [(), NAMED[:1]])
def test_a_list_that_headers_name_in_part_is_a_batch(
    named: tuple[tuple[bytes, bytes], ...],
) -> None:
    items = '[{"source": "shop", "id": "7"}, {"source": "shop", "id": "8"}]'
    found = read(sent(items, *named), *HEADERS_FIRST)
    assert isinstance(found, Batch)
    assert [item.part and item.part.key.event_id for item in found.items] == ["shop,7", "shop,8"]


def test_items_that_have_ids_of_their_own_before_the_headers_are_a_batch() -> None:
    own_first = "json:/id | header:ce-id"
    found = read(sent('[{"id": "a"}, {}]', *NAMED), own_first)
    assert isinstance(found, Batch)
    assert [item.part and item.part.key.event_id for item in found.items] == ["a", "7"]
    assert read(sent("[{}, {}]", *NAMED), own_first) is None
