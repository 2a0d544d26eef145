"""How people say where the event id is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.location import (
    FirstOf,
    Form,
    Header,
    Json,
    Literal,
    Location,
    Query,
    Sha256,
    describe,
    header_names,
    may_be_constant,
    parse_location,
)

WRITTEN = [
    ("header:X-GitHub-Delivery", Header("X-GitHub-Delivery")),
    ("json:/event_id", Json(("event_id",))),
    ("json:/data/0/id", Json(("data", "0", "id"))),
    ("json:/a~1b/c~0d", Json(("a/b", "c~d"))),
    ("json:/", Json(("",))),
    ("form:txn_id", Form("txn_id")),
    ("query:id", Query("id")),
    ("literal:v2", Literal("v2")),
    ("literal:a:b", Literal("a:b")),
    ("sha256(form:token)", Sha256(Form("token"))),
    ("header:X-Id | json:/id", FirstOf((Header("X-Id"), Json(("id",))))),
    ("sha256(form:a | form:b)", Sha256(FirstOf((Form("a"), Form("b"))))),
    ("sha256(form:a) | form:b", FirstOf((Sha256(Form("a")), Form("b")))),
    ("json:/a|b", Json(("a|b",))),
]


@pytest.mark.parametrize(("text", "location"), WRITTEN)
def test_a_location_is_read_and_written_back(text: str, location: Location) -> None:
    assert parse_location(text) == location
    assert describe(location) == text


WRONG = [
    ("event_id", "write json:/event_id, header:event_id, form:event_id or query:event_id"),
    ("X-Event-Id", "'X-Event-Id' does not say where to look; write header:X-Event-Id, or json:/X"),
    ("", "does not say where to look; write header:NAME"),
    ("header:", "write header:NAME, json:/pointer"),
    ("jsn:/id", "write json:/id"),
    ("Header:X-Id", "write header:X-Id"),
    ("Json:/id", "write json:/id"),
    ("/data/id", "write json:/data/id"),
    ("data.event.id", "write json:/data/event/id"),
    ("$.data.event.id", "write json:/data/event/id"),
    ("json:data.event.id", "must start with a slash; write json:/data/event/id"),
    ("json:$.data.event.id", "must start with a slash; write json:/data/event/id"),
    ("json:data/event", "must start with a slash; write json:/data/event"),
    ("json:$['items'][0].id", "must start with a slash; write json:/items/0/id"),
    ("json:$", "write json:/NAME"),
    ("header:X Id", "is not a header name"),
    ("header: X-Id", "is not a header name"),
    ("json:id", "must start with a slash; write json:/id"),
    ("json:/a~b", "has a bare tilde; write ~0"),
    ("json:/items/*/id", "walks a batch"),
    *(
        (text, "has a | with nothing, or no blank, on one side; write LOCATION | LOCATION")
        for text in (
            "json:/a |",
            "| json:/a",
            "json:/a | | json:/b",
            "json:/a |json:/b",
            "json:/a| json:/b",
            "sha256(form:a | )",
            "header:a | ",
        )
    ),
    ("sha256(body)", "'body' is the body as a whole, which is no id"),
    ("sha256(raw_body)", "write json:/NAME for a member of it"),
    ("body:", "is the body as a whole, which is no id"),
    ("sha256()", "does not say where to look"),
    ("sha256(form:a", "does not say where to look; write header:NAME"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_no_location_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_location(text)


names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)
simple = st.one_of(
    st.builds(Header, names),
    st.builds(Json, st.lists(st.text("ab/~.|", max_size=4), min_size=1, max_size=3).map(tuple)),
    st.builds(Form, names),
    st.builds(Query, names),
    st.builds(Literal, names),
)
digested = st.builds(Sha256, simple)
several = st.builds(FirstOf, st.lists(simple | digested, min_size=2, max_size=3).map(tuple))


@given(simple | digested | several | st.builds(Sha256, several))
def test_every_location_is_read_back_as_itself(location: Location) -> None:
    assert parse_location(describe(location)) == location


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("literal:x", True),
        ("sha256(literal:x)", True),
        ("header:X-Id | literal:none", True),
        ("header:X-Id | json:/id", False),
        ("header:Authorization", True),
        ("sha256(header:cookie)", True),
        ("json:/id | header:Date", True),
        ("query:id", False),
        ("form:id", False),
    ],
)
def test_a_location_that_needs_nothing_from_the_delivery_is_known(
    text: str, constant: bool
) -> None:
    assert may_be_constant(parse_location(text)) is constant


def test_the_headers_that_locations_read_are_found_at_any_depth() -> None:
    locations = [
        parse_location(text) for text in ("sha256(header:A | json:/x)", "header:B", "form:c")
    ]
    assert list(header_names(locations)) == ["A", "B"]
