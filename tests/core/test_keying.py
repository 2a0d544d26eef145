"""What is an event id, what is none, and which ids are the same."""

from __future__ import annotations

import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fingerprint import fingerprint
from gateway.core.keying import (
    Missing,
    digest,
)
from tests.core.ids import BY_HEADER, BY_JSON, identify, key, recipe, with_id

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
