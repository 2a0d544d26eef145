"""A row has the key that the route makes of a delivery with the same values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core import batch
from gateway.core.batch import Batch, BatchPolicy, OnMixed
from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Reading, Recipe
from gateway.core.location import Literal, Location, describe, parse_location
from gateway.core.route import Route
from gateway.operating.composing import Composer, NoKey
from gateway.operating.formats import Row
from gateway.sources import Unusable
from tests.routes import ROUTE

# Each kind of place, by itself and inside others.
PLACES = (
    "json:/a", "json:/b/c", "header:X-Topic", "form:f", "query:q", "literal:shop",
    "sha256(json:/a)", "json:/n | header:X-Topic", "query:q | literal:none",
    "sha256(json:/n | json:/a)",
)  # fmt: skip
BARE = ("json:/a", "json:/b/c", "json:/n", "header:X-Topic", "form:f", "query:q")
# What HTTP carries in a header: visible, and not at the ends blank.
HEADER = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.fixed_dictionaries(
    {
        place: HEADER if place.startswith("header:") else TEXT | st.integers()
        for place in BARE
        if place not in ("form:f", "query:q")
    }
    | {"form:f": TEXT, "query:q": TEXT}
)
PARTS = st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)


def route(parts: list[str], scope: list[str], operation: list[str]) -> Route:
    def read(texts: list[str]) -> tuple[Location, ...]:
        return tuple(map(parse_location, texts))

    return replace(ROUTE, recipe=Recipe(read(scope), read(parts), read(operation)))


def delivery(values: Mapping[str, object]) -> Delivery:
    """One that carries them: as JSON, or as a form where that has a field."""
    headers = [(b"X-Topic", str(values["header:X-Topic"]).encode())]
    query = quote(str(values["query:q"]), safe="")
    document = {"a": values["json:/a"], "b": {"c": values["json:/b/c"]}, "n": values["json:/n"]}
    body = json.dumps(document).encode()
    if "form:f" in values:
        headers.append((b"Content-Type", b"application/x-www-form-urlencoded"))
        body = f"f={quote(str(values['form:f']), safe='')}".encode()
    return Delivery("POST", f"/hooks?q={query}", tuple(headers), body, "127.0.0.1", "http")


@given(PARTS, PARTS, st.just([]) | PARTS, VALUES, st.booleans())
def test_a_row_has_the_key_of_the_delivery_that_carries_its_values(
    parts: list[str], scope: list[str], operation: list[str], values: dict[str, object], form: bool
) -> None:
    if form:
        values |= {"json:/a": "", "json:/b/c": None, "json:/n": None}
    else:
        values["form:f"] = ""
    made = route(parts, scope, operation)
    carried = {k: v for k, v in values.items() if k != "form:f" or form}
    known = Reading(delivery(carried)).identify(made.recipe)
    found = Composer(made).compose(Row(1, values))
    assert isinstance(found, EventKey) == isinstance(known, EventKey)
    assert isinstance(found, NoKey) or found == known


@given(st.lists(TEXT | st.integers(), min_size=1, max_size=4), st.sampled_from(["id", "json:/id"]))
@example([7, "7"], "id")
def test_a_row_has_the_key_of_the_item_of_a_batch(ids: list[str | int], column: str) -> None:
    policy = BatchPolicy(((),), (parse_location("json:/id"),), None, None, OnMixed.WHOLE)
    made = replace(ROUTE, recipe=Recipe((Literal("mail"),), ()), batch=policy)
    body = json.dumps([{"id": one} for one in ids]).encode()
    carried = batch.read(
        Reading(Delivery("POST", "/", (), body, "", "http")), policy, made.recipe, ()
    )
    assert isinstance(carried, Batch)
    composer = Composer(made)
    for one, item in zip(ids, carried.items, strict=True):
        found = composer.compose(Row(1, {column: one}))
        assert (found if isinstance(found, EventKey) else None) == (item.part and item.part.key)


def key(made: Route, **columns: object) -> EventKey | str:
    found = Composer(made).compose(Row(1, {k.replace("__", ":/"): v for k, v in columns.items()}))
    return found.why if isinstance(found, NoKey) else found


def test_where_one_part_is_no_literal_its_column_may_be_called_id() -> None:
    made = route(["literal:order", "json:/id"], ["literal:orders"], [])
    assert key(made, id="7") == key(made, json__id=7) == key(made, id=Decimal(7))
    assert isinstance(key(made, id="7"), EventKey)


def test_scope_and_operation_have_such_names_too() -> None:
    made = route(["json:/id"], ["header:X-Shop"], ["literal:paid", "json:/order"])
    known = Reading(
        Delivery("POST", "/", ((b"x-shop", b"s1"),), b'{"id":"e1","order":5}', "", "http")
    ).identify(made.recipe)
    assert key(made, id="e1", scope="s1", operation=5) == known


def test_an_operation_needs_no_id_beside_it_and_an_id_goes_without_one() -> None:
    made = route(["json:/id"], ["literal:s"], ["json:/order"])
    assert isinstance(key(made, operation="5"), EventKey)
    assert key(made, operation="5") != key(made, operation="", id="5")
    assert isinstance(key(made, operation=None, id="5"), EventKey)
    assert "json:/order is in no column" in str(key(made, id="5"))


def test_a_digest_may_be_given_or_what_it_is_made_of() -> None:
    made = route(["sha256(form:bt_payload)"], ["literal:s"], [])
    digest = hashlib.sha256(b"eyJ").hexdigest()
    given_, whole = Row(1, {"id": digest}), Row(1, {"form:bt_payload": "eyJ\n"})
    composer = Composer(made)
    assert composer.compose(given_) == composer.compose(whole)
    assert "write form:bt_payload" in str(key(made, id="eyJ"))


def test_spellings_of_one_header_are_one_column() -> None:
    made = route(["header:X-GitHub-Delivery"], ["literal:s"], [])
    composer = Composer(made)
    lower = composer.compose(Row(1, {"header:x-github-delivery": "7"}))
    assert lower == composer.compose(Row(1, {"header:X-GitHub-Delivery": " 7\t"}))
    both = composer.compose(
        Row(1, {"header:X-GITHUB-DELIVERY": "7", "header:x-github-delivery": "7"})
    )
    assert isinstance(both, NoKey)


def test_of_alternatives_each_must_have_a_column_unless_all_of_it_has_one() -> None:
    made = route(["json:/a | json:/c", "json:/b"], ["literal:s"], [])
    assert isinstance(key(made, json__a="", json__c="x", json__b="1"), EventKey)
    assert "json:/c is in no column" in str(key(made, json__a="", json__b="1"))
    whole = Row(1, {"json:/a | json:/c": "x", "json:/b": "1"})
    assert Composer(made).compose(whole) == key(made, json__a="x", json__b="1")


def test_a_literal_stands_in_for_what_no_row_has_a_column_for_and_that_is_said() -> None:
    made = route(["json:/id", "json:/a | literal:-"], ["json:/account | literal:-"], [])
    delivered = Delivery("POST", "/", (), b'{"id":"evt_1"}', "", "http")
    composer = Composer(made)
    found = composer.compose(Row(1, {"json:/id": "evt_1"}))
    assert found == Reading(delivered).identify(made.recipe)
    assert {*composer.absent} == {"json:/account", "json:/a"}
    with_account = composer.compose(Row(2, {"json:/id": "evt_1", "json:/account": "acct_1"}))
    assert with_account != found
    assert [*composer.absent] == ["json:/a"]


def test_a_literal_stands_in_for_no_id_of_which_nothing_else_is_read() -> None:
    for parts in (["json:/id | literal:-"], ["sha256(json:/id | literal:-)"]):
        assert "is in no column" in str(key(route(parts, ["literal:s"], []), x="7"))
    made = route(["json:/id"], ["literal:s"], ["json:/order | literal:-"])
    assert "is in no column" in str(key(made, id="7"))


def test_parts_that_begin_with_one_value_have_it_in_a_column_id() -> None:
    made = route(["json:/a | json:/b", "json:/a | json:/c"], ["literal:s"], [])
    assert key(made, id="7") == key(made, json__a="7")
    assert key(made, json__a="7") == key(made, json__a="", json__b="7", json__c="7")
    assert key(made, x="7") == "json:/a is in no column; write a column 'json:/a' or 'id'"
    unlike = route(["json:/a | json:/b", "json:/c"], ["literal:s"], [])
    assert "is in no column" in str(key(unlike, id="7"))


def test_what_is_missing_is_said_with_what_to_write() -> None:
    made = route(["json:/order/id", "header:X-Topic"], ["literal:s", "query:shop"], [])
    found = Composer(made).compose(Row(1, {"id": "7", "scope": "s1"}))
    assert found == NoKey(
        "json:/order/id is in no column; write a column 'query:shop' or 'scope', and a column"
        " 'json:/order/id', and a column 'header:X-Topic'",
        lacks_column=True,
    )


@pytest.mark.parametrize(
    "value", [None, "", " ", True, 7.0, Decimal("7.5"), Decimal("7.0"), {}, []]
)
def test_what_is_no_id_of_a_delivery_is_none_of_a_row(value: object) -> None:
    assert "no value that is an id" in str(key(route(["json:/id"], ["literal:s"], []), id=value))


def test_what_only_databases_have_is_to_be_selected_as_text() -> None:
    made = route(["json:/id"], ["literal:s"], [])
    assert "select it as text" in str(key(made, id=b"7"))
    one = UUID("0d9f5c0e-7a0a-4b0a-9a6c-0a0a0a0a0a0a")
    assert key(made, id=one) == key(made, id=str(one))


def test_a_route_that_passes_everything_on_has_no_keys() -> None:
    with pytest.raises(Unusable, match="has no ids"):
        Composer(replace(ROUTE, pass_through="pings"))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("2026-08-25T09:30:00Z", 1787650200.0),
        ("2026-08-25T11:30:00+02:00", 1787650200.0),
        ("1787650200", 1787650200.0),
        (" 1787650200\t", 1787650200.0),
        ("20269999", 20269999.0),
        ("1787650200000", 1787650200.0),
        (1787650200.5, 1787650200.5),
        (datetime(2026, 8, 25, 9, 30, tzinfo=UTC), 1787650200.0),
        (datetime(2026, 8, 25, 9, 30, tzinfo=UTC) + timedelta(days=1), 1787736600.0),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_as_those_of_events(written: object, found: float | None) -> None:
    assert Composer(ROUTE).time(Row(1, {"time": written})) == found


@pytest.mark.parametrize(
    "written",
    ["20261101", 20261101, "19000101", "21001231", "202611010930", "20261101093000", 20261101.0],
)
def test_a_compact_date_is_no_count_of_seconds(written: object) -> None:
    found = Composer(ROUTE).time(Row(1, {"time": written}))
    assert isinstance(found, NoKey)
    assert "is no certain time; write it as 2026-08-25T09:30:00Z" in found.why


@pytest.mark.parametrize("written", ["1" * 29, "0001-01-01T00:00:00Z", "253402300800000"])
def test_a_time_of_no_year_that_there_is_is_none(written: str) -> None:
    assert isinstance(Composer(ROUTE).time(Row(1, {"time": written})), NoKey)


@pytest.mark.parametrize("written", ["2026-08-25 09:30", datetime(2026, 8, 25), "yesterday"])
def test_times_without_an_offset_are_none(written: object) -> None:
    found = Composer(ROUTE).time(Row(1, {"time": written}))
    assert isinstance(found, NoKey)
    assert "with an offset" in found.why


def test_times_and_types_may_be_named_by_their_places() -> None:
    made = replace(
        ROUTE, event_time=parse_location("json:/at"), event_type=parse_location("json:/k")
    )
    row = Row(1, {"json:/at": "1787650200", "json:/k": "paid"})
    assert Composer(made).time(row) == 1787650200.0
    assert Composer(made).type(row) == "paid"
    assert describe(parse_location("json:/k")) in row.values


def test_where_lone_events_and_items_have_ids_elsewhere_either_will_do() -> None:
    policy = BatchPolicy(((),), (parse_location("json:/event"),), None, None, OnMixed.WHOLE)
    made = replace(route(["json:/id"], ["literal:s"], []), batch=policy)
    assert key(made, json__id="7") == key(made, json__event="7") == key(made, id="7")
    assert key(made, x="7") == (
        "json:/id is in no column; write a column 'json:/id' or 'id', or else a column"
        " 'json:/event' or 'id'"
    )
