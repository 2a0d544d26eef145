"""What is an event id, what is none, and which ids are the same."""

from __future__ import annotations

import gzip
import json
import random
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.event import Delivery, EventKey
from gateway.core.keying import (
    INFLATE_LIMIT,
    MOST_FIELDS,
    Conflicting,
    Missing,
    Reading,
    Recipe,
    digest,
    fingerprint,
)
from gateway.core.location import Literal, parse_location

SCOPE = (Literal("orders"),)


def recipe(*parts: str, scope: tuple[str, ...] = ("literal:orders",)) -> Recipe:
    return Recipe(tuple(map(parse_location, scope)), tuple(map(parse_location, parts)))


BY_JSON = recipe("json:/event_id")
BY_HEADER = recipe("header:X-GitHub-Delivery")


def delivery(
    body: bytes = b"", *headers: tuple[bytes, bytes], target: str = "/hooks/orders"
) -> Delivery:
    return Delivery("POST", target, headers, body, "192.0.2.1", "http")


def identify(by: Recipe, *given: bytes | tuple[bytes, bytes], target: str = "/h") -> object:
    body, *headers = given or (b"",)
    return Reading(delivery(body, *headers, target=target)).identify(by)


def key(by: Recipe, *given: bytes | tuple[bytes, bytes], target: str = "/h") -> EventKey:
    found = identify(by, *given, target=target)
    assert isinstance(found, EventKey)
    return found


def with_id(raw: str) -> bytes:
    return b'{"event_id": ' + raw.encode() + b"}"


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


# B022: composites of form fields.


IPN = recipe("form:txn_id", "form:payment_status")


def test_states_of_one_transaction_are_different_events() -> None:
    pending = key(IPN, b"txn_id=T1&payment_status=Pending&item=a+b%26c")
    completed = key(IPN, b"txn_id=T1&payment_status=Completed&item=a+b%26c")
    again = key(IPN, b"payment_status=Pending&txn_id=T1&other=1")
    assert pending.digest != completed.digest
    assert pending.digest == again.digest
    assert pending.event_id == "T1,Pending"


def test_a_composite_needs_each_of_its_parts() -> None:
    assert identify(IPN, b"txn_id=T1") == Missing("form:payment_status")
    assert identify(IPN, b"txn_id=T1&payment_status=") == Missing("form:payment_status")


@given(st.text(), st.text(), st.text(), st.text())
def test_parts_are_never_joined_into_the_same_key(a: str, b: str, c: str, d: str) -> None:
    if (a, b) != (c, d):
        assert digest(["s"], [a, b]) != digest(["s"], [c, d])


def test_neither_parts_nor_scope_can_slide_into_each_other() -> None:
    groups = [
        (["s"], ["a", "bc"]),
        (["s"], ["ab", "c"]),
        (["s"], ["abc"]),
        (["s", "a"], ["bc"]),
        (["sa"], ["bc"]),
        ([], ["s", "a", "bc"]),
    ]
    assert len({digest(scope, parts) for scope, parts in groups}) == len(groups)


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


# B023: scope.


def test_the_same_id_of_two_scopes_is_two_events() -> None:
    body = with_id('"report_batch_1.csv"')
    orders = key(BY_JSON, body)
    github = key(recipe("json:/event_id", scope=("literal:gh",)), body)
    assert orders.digest != github.digest
    assert orders.event_id == github.event_id


def test_a_scope_may_be_read_from_the_delivery() -> None:
    by = recipe("json:/id", scope=("json:/merchantAccount",))
    a, b = (key(by, b'{"id": 1, "merchantAccount": "%s"}' % name) for name in (b"A", b"B"))
    assert a.digest != b.digest
    assert identify(by, b'{"id": 1}') == Missing("json:/merchantAccount")


# B024: numbers.


def test_large_neighbours_are_different_events() -> None:
    ids = ["9007199254740992", "9007199254740993", "9007199254740994", "1" + "0" * 5000]
    assert len({key(BY_JSON, with_id(number)).digest for number in ids}) == len(ids)


@pytest.mark.parametrize(
    ("number", "text"), [("7", '"7"'), ("-7", '"-7"'), ("-0", '"0"'), ("0", '"0"')]
)
def test_a_whole_number_is_the_same_id_as_its_text(number: str, text: str) -> None:
    assert key(BY_JSON, with_id(number)) == key(BY_JSON, with_id(text))


@pytest.mark.parametrize(
    "raw", ["7.0", "1e2", "1E2", "-0.0", "true", "false", "null", "[1]", '{"a": 1}', "NaN", "[]"]
)
def test_what_is_neither_text_nor_a_whole_number_is_no_id(raw: str) -> None:
    assert identify(BY_JSON, with_id(raw)) == Missing("json:/event_id")


def test_digits_that_differ_are_different_ids() -> None:
    assert key(BY_JSON, with_id('"7"')).digest != key(BY_JSON, with_id('"07"')).digest


# B025: no id.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"ping",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'"event_id"',
        b'{"event_id": ""}',
        b'{"event_id": "   "}',
        b'{"event_id": "\\t\\n"}',
        b'{"Event_Id": "x"}',
        b'{"event_id": "x"',
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"event_id": "a", "event_id": "a"}',
        b'{"event_id": "a", "event_id": "b"}',
    ],
)
def test_a_body_without_a_usable_id_has_none(body: bytes) -> None:
    assert identify(BY_JSON, body) == Missing("json:/event_id")


def test_a_member_given_twice_elsewhere_does_no_harm() -> None:
    assert key(BY_JSON, b'{"event_id": "a", "x": 1, "x": 2}').event_id == "a"


def test_a_member_given_twice_on_the_way_to_the_id_hides_it() -> None:
    body = b'{"data": {"id": "a"}, "data": {"id": "b"}}'
    assert identify(recipe("json:/data/id"), body) == Missing("json:/data/id")


def test_a_header_route_without_the_header_has_no_id() -> None:
    assert identify(BY_HEADER) == Missing("header:X-GitHub-Delivery")
    blank = (b"X-GitHub-Delivery", b"  ")
    assert identify(BY_HEADER, b"", blank) == Missing("header:X-GitHub-Delivery")


def test_nothing_about_an_id_is_trimmed_or_normalised() -> None:
    ids = ["a", "A", " a", "a ", "a\u0301", "\u00e1", "á"]
    keys = {key(BY_JSON, with_id(json.dumps(text))).digest for text in ids}
    assert len(keys) == len(set(ids))


# B027: ids that a database cannot hold.


def _random_text(length: int) -> str:
    dice = random.Random(length)
    return "".join(dice.choices(string.ascii_letters + string.digits, k=length))


@pytest.mark.parametrize("length", [2600, 2700, 10_000])
def test_an_id_of_any_length_has_a_key_of_sixteen_bytes(length: int) -> None:
    text = _random_text(length)
    found = key(BY_JSON, with_id(json.dumps(text)))
    assert len(found.digest) == 16
    assert found.event_id == text


def test_long_ids_that_differ_in_the_last_character_are_different() -> None:
    text = _random_text(5000)
    one, other = (key(BY_JSON, with_id(json.dumps(text + end))) for end in "xy")
    assert one.digest != other.digest


@pytest.mark.parametrize("raw", ['"a\\u0000b"', '"ünï—😀"', '"\\ud800"', '"\\ud83d\\ude00"'])
def test_nul_emoji_and_lone_surrogates_are_ids(raw: str) -> None:
    other = key(BY_JSON, with_id('"a"'))
    assert key(BY_JSON, with_id(raw)).digest != other.digest


def test_two_lone_surrogates_are_different_ids() -> None:
    high, low = (key(BY_JSON, with_id(raw)).digest for raw in ('"\\ud800"', '"\\udc00"'))
    assert high != low


# Headers.


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


# Alternatives, digests, pointers.


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


# Compressed bodies.


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


# Texts for people, prints, fingerprints.


def test_a_type_may_be_any_text_or_number() -> None:
    reading = Reading(delivery(b'{"type": "order.paid", "v": 1.5, "n": 3, "x": null}'))
    values = [reading.text(parse_location(f"json:/{name}")) for name in ("type", "v", "n", "x")]
    assert values == ["order.paid", "1.5", "3", None]


def test_the_print_of_a_recipe_changes_with_what_it_finds_and_not_with_its_spelling() -> None:
    prints = [
        BY_JSON.print(),
        BY_HEADER.print(),
        recipe("json:/event_id", scope=("literal:gh",)).print(),
        recipe("json:/event_id", "json:/type").print(),
        recipe("header:X-GitHub-Delivery | json:/event_id").print(),
        recipe("sha256(json:/event_id)").print(),
    ]
    assert len(set(prints)) == len(prints)
    assert {len(one) for one in prints} == {16}
    assert recipe("header:x-github-delivery").print() == BY_HEADER.print()


def test_a_recipe_knows_the_headers_it_reads() -> None:
    by = recipe("sha256(header:X-Id) | json:/id", scope=("header:X-Account",))
    assert by.headers() == {b"x-id", b"x-account"}


def test_a_fingerprint_is_one_byte_of_the_body() -> None:
    assert {fingerprint(b"%d" % n) for n in range(5000)} == set(range(256))


def test_the_key_of_an_id_never_changes_between_releases() -> None:
    # Claims in the store were made with it: another digest would forget them all.
    assert digest(["orders"], ["evt_1"]).hex() == "39cdcb57b0ee55b2b80bb5b9ee6c58f8"
