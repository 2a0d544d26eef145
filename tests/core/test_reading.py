"""Where on a delivery an id is found: headers, forms, queries, pointers, packed bodies."""

from __future__ import annotations

import gzip
import json
import zlib

import orjson
import pytest

from gateway.core.event import EventKey
from gateway.core.fingerprint import lasting
from gateway.core.form import MOST_FIELDS
from gateway.core.keying import (
    INFLATE_LIMIT,
    Conflicting,
    Missing,
    Reading,
)
from gateway.core.location import parse_location
from tests.core.ids import BY_HEADER, BY_JSON, delivery, identify, key, recipe, with_id

# B021: the configured location decides, not the content type.


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"Content-Type", b"text/plain; charset=UTF-8"),),
        ((b"Content-Type", b"application/vnd.acme.v2+json"),),
        ((b"Content-Type", b"APPLICATION/JSON"),),
        ((b"Content-Type", b"application/x-www-form-urlencoded"),),
    ],
)
def test_json_that_does_not_call_itself_json_is_read_all_the_same(
    headers: tuple[tuple[bytes, bytes], ...],
) -> None:
    body = b'{"Type": "Notification", "MessageId": "m-1", "Message": "{}"}'
    assert key(recipe("json:/MessageId"), body, *headers).event_id == "m-1"


def test_a_form_value_is_decoded_as_forms_are() -> None:
    assert key(recipe("form:id"), b"id=a+b%26c%2Bd").event_id == "a b&c+d"


def test_form_and_query_values_that_disagree_are_a_client_error() -> None:
    assert isinstance(identify(recipe("form:id"), b"id=1&id=2"), Conflicting)
    assert isinstance(identify(recipe("query:id"), target="/h?id=1&id=2"), Conflicting)
    assert key(recipe("form:id"), b"id=1&id=1").event_id == "1"


def test_a_query_parameter_is_an_id() -> None:
    assert key(recipe("query:id"), target="/h?x=1&id=a%2Fb").event_id == "a/b"
    assert identify(recipe("query:id"), target="/h") == Missing("query:id")


def test_values_that_are_no_utf8_stay_apart() -> None:
    keys = {key(recipe("form:id"), b"id=" + raw).digest for raw in (b"%E9", b"%E8", b"%C3%A9")}
    assert len(keys) == 3


def test_a_form_of_endless_fields_has_no_id() -> None:
    body = b"&".join(b"a=1" for _ in range(MOST_FIELDS)) + b"&id=1"
    assert identify(recipe("form:id"), body) == Missing("form:id")


def test_a_member_given_twice_elsewhere_does_no_harm() -> None:
    assert key(BY_JSON, b'{"event_id": "a", "x": 1, "x": 2}').event_id == "a"


def test_a_member_given_twice_on_the_way_to_the_id_hides_it() -> None:
    body = b'{"data": {"id": "a"}, "data": {"id": "b"}}'
    assert identify(recipe("json:/data/id"), body) == Missing("json:/data/id")


def test_a_header_route_without_the_header_has_no_id() -> None:
    assert identify(BY_HEADER) == Missing("header:X-GitHub-Delivery")
    blank = (b"X-GitHub-Delivery", b"  ")
    assert identify(BY_HEADER, b"", blank) == Missing("header:X-GitHub-Delivery")


def test_a_header_is_found_whatever_its_case() -> None:
    assert key(BY_HEADER, b"", (b"x-gIthub-delivery", b"id-1")).event_id == "id-1"


def test_equal_lines_agree_and_different_ones_are_a_client_error() -> None:
    same, other = (b"X-GitHub-Delivery", b"1"), (b"x-github-delivery", b"2")
    assert key(BY_HEADER, b"", same, same).event_id == "1"
    assert identify(BY_HEADER, b"", same, other) == Conflicting(
        "header:X-GitHub-Delivery", "two different values"
    )


@pytest.mark.parametrize(
    ("wanted", "sent"), [("X-Event-Id", b"X_Event_Id"), ("X_Event_Id", b"X-Event-Id")]
)
def test_a_spelling_that_a_cgi_consumer_would_mix_up_is_a_client_error(
    wanted: str, sent: bytes
) -> None:
    by = recipe(f"header:{wanted}")
    assert isinstance(identify(by, b"", (sent, b"1")), Conflicting)
    assert isinstance(identify(by, b"", (wanted.encode(), b"1"), (sent, b"1")), Conflicting)
    assert key(by, b"", (wanted.encode(), b"1")).event_id == "1"


def test_header_bytes_that_are_no_utf8_are_a_client_error() -> None:
    assert isinstance(identify(BY_HEADER, b"", (b"X-GitHub-Delivery", b"\xe9")), Conflicting)
    assert key(BY_HEADER, b"", (b"X-GitHub-Delivery", "é".encode())).event_id == "é"


def test_the_same_id_from_a_header_and_from_json_is_one_event() -> None:
    by_either = recipe("header:X-Id | json:/event_id")
    assert key(by_either, b"", (b"X-Id", b"1")) == key(by_either, with_id('"1"'))


def test_the_first_location_that_is_there_wins() -> None:
    by = recipe("header:X-Id | json:/event_id")
    assert key(by, with_id('"body"'), (b"X-Id", b"head")).event_id == "head"
    assert identify(by, b"{}") == Missing("header:X-Id | json:/event_id")


def test_a_conflict_in_an_alternative_is_not_passed_over() -> None:
    by = recipe("header:X-Id | json:/event_id")
    found = identify(by, with_id('"body"'), (b"X-Id", b"1"), (b"X-Id", b"2"))
    assert isinstance(found, Conflicting)


def test_a_digest_stands_for_the_value() -> None:
    by = recipe("sha256(form:payload)")
    one, same, other = (key(by, b"payload=" + raw) for raw in (b"a", b"a", b"b"))
    assert one == same
    assert one.digest != other.digest
    assert len(one.event_id) == 64
    assert identify(by, b"x=1") == Missing("form:payload")


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/list/0/id", "first"),
        ("/list/1", "second"),
        ("/list/01", None),
        ("/list/2", None),
        ("/list/-", None),
        ("/list/-1", None),
        ("/list/id", None),
        ("/0", "zero"),
        ("/a~1b", "slash"),
        ("/m~0n", "tilde"),
        ("/", "empty name"),
        ("/text/0", None),
    ],
)
def test_a_pointer_walks_objects_and_lists(pointer: str, found: str | None) -> None:
    document = {
        "list": [{"id": "first"}, "second"],
        "0": "zero",
        "a/b": "slash",
        "m~n": "tilde",
        "": "empty name",
        "text": "abc",
    }
    got = identify(recipe(f"json:{pointer}"), json.dumps(document).encode())
    assert (got.event_id if isinstance(got, EventKey) else None) == found


def gzipped(plain: bytes) -> bytes:
    """Without the time, which would give the tests other names in each worker."""
    return gzip.compress(plain, mtime=0)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", gzipped(with_id('"z"'))),
        (b"X-GZIP", gzipped(with_id('"z"'))),
        (b"deflate", zlib.compress(with_id('"z"'))),
        (b"identity", with_id('"z"')),
    ],
)
def test_a_packed_body_is_unpacked_for_reading(coding: bytes, packed: bytes) -> None:
    assert key(BY_JSON, packed, (b"Content-Encoding", coding)).event_id == "z"


@pytest.mark.parametrize(
    "packed",
    [
        b"not gzip",
        gzipped(with_id('"z"'))[:-6],
        gzipped(with_id('"z"')) + gzipped(b" "),
        gzipped(with_id('"z"') + b" " * INFLATE_LIMIT),
    ],
)
def test_a_packed_body_that_others_may_read_differently_has_no_id(packed: bytes) -> None:
    found = identify(BY_JSON, packed, (b"Content-Encoding", b"gzip"))
    assert found == Missing("json:/event_id")


def test_a_type_may_be_any_text_or_number() -> None:
    reading = Reading(delivery(b'{"type": "order.paid", "v": 1.5, "n": 3, "x": null}'))
    values = [reading.text(parse_location(f"json:/{name}")) for name in ("type", "v", "n", "x")]
    assert values == ["order.paid", "1.5", "3", None]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_a_json_body_is_read_in_any_of_its_encodings_with_numbers_of_any_length(
    encoding: str,
) -> None:
    def came(attempt: int) -> bytes:
        return f'{{"n": {"7" * 5000}, "event_id": "evt_1", "attempt": {attempt}}}'.encode(encoding)

    found = Reading(delivery(came(1)), orjson.loads).identify(BY_JSON)
    assert isinstance(found, EventKey)
    assert found.event_id == "evt_1"
    assert lasting(came(1), [("attempt",)]) == lasting(came(2), [("attempt",)])
