"""What a batch carries, and what is left of it when some of it is left out."""

from __future__ import annotations

import gzip
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import batch
from gateway.core.batch import MOST_ITEMS, Batch, BatchPolicy, OnMixed
from gateway.core.claim import Seen, Won
from gateway.core.event import Delivery, Part
from gateway.core.fingerprint import fingerprint
from gateway.core.keying import Conflicting, Missing, Reading, Recipe
from gateway.core.location import Json, parse_location
from gateway.core.spans import Pointer
from tests.core.ids import delivery, recipe

RECIPE = recipe()


def policy(*parts: str, items: tuple[Pointer, ...] = ((),)) -> BatchPolicy:
    located = tuple(map(parse_location, parts or ("json:/id",)))
    return BatchPolicy(items, located, Json(("type",)), Json(("at",)), OnMixed.FILTER)


def read(
    came: Delivery, by: BatchPolicy | None = None, scope: Recipe = RECIPE
) -> Batch | Missing | Conflicting | None:
    return batch.read(Reading(came), by or policy(), scope, ())


def carried(body: str | bytes, by: BatchPolicy | None = None) -> Batch:
    found = read(delivery(body.encode() if isinstance(body, str) else body), by)
    assert isinstance(found, Batch)
    return found


def ids(found: Batch) -> list[str | None]:
    return [None if item.part is None else item.part.key.event_id for item in found.items]


def part(event_id: str, **more: object) -> Part:
    (item,) = carried(json.dumps([{"id": event_id, **more}])).items
    assert item.part is not None
    return item.part


def left(came: Delivery, *event_ids: str, by: BatchPolicy | None = None) -> Delivery:
    found = read(came, by)
    assert isinstance(found, Batch)
    kept = {one.part.key.digest for one in found.items if one.part and ids_of(one) in event_ids}
    narrowed = batch.with_only(Reading(came), found, kept)
    assert narrowed is not None
    return narrowed


def ids_of(item: batch.Item) -> str | None:
    return None if item.part is None else item.part.key.event_id


def test_each_item_is_read_for_itself() -> None:
    found = carried('[{"id":"a","type":"t1","at":1.5},{"id":7},{"no":1}]')
    assert ids(found) == ["a", "7", None]
    assert [(item.event_type, item.event_time) for item in found.items] == [
        ("t1", "1.5"), (None, None), (None, None),
    ]  # fmt: skip
    assert found.unkeyed == 1


def test_an_integer_id_and_its_text_are_one_event() -> None:
    found = carried('[{"id":7},{"id":"7"},{"id":123456789012345678901234567890}]')
    assert len(found.by_key()) == 2


@pytest.mark.parametrize(
    "raw", ["null", "true", "7.0", "1e2", '""', '"  "', "{}", "[]", '1,"id":2']
)
def test_an_item_without_a_usable_id_has_none(raw: str) -> None:
    assert ids(carried(f'[{{"id":"a"}},{{"id":{raw}}}]')) == ["a", None]


def test_items_lie_in_nested_lists_as_metas_do() -> None:
    body = {
        "object": "whatsapp",
        "entry": [
            {"id": "1", "changes": [{"value": {"messages": [{"id": "a"}, {"id": "b"}]}}]},
            {"id": "2", "changes": [{"value": {"statuses": [{"id": "s"}]}}]},
            {"id": "3", "changes": [{"value": {"messages": [{"id": "c"}]}}]},
        ],
    }
    lists = (
        ("entry", "*", "changes", "*", "value", "messages"),
        ("entry", "*", "changes", "*", "value", "statuses"),
    )
    by, came = policy(items=lists), delivery(json.dumps(body).encode())
    assert ids(carried(came.body, by)) == ["a", "b", "s", "c"]
    body["entry"][0]["changes"][0]["value"]["messages"] = [{"id": "b"}]  # type: ignore[index]
    body["entry"][1]["changes"][0]["value"]["statuses"] = []  # type: ignore[index]
    assert json.loads(left(came, "b", "c", by=by).body) == body


def test_lists_inside_items_are_no_lists_of_items() -> None:
    by = policy(items=((), ("*", "more"), ()))
    assert ids(carried('[{"id":"a","more":[{"id":"x"}]},{"id":"b"}]', by)) == ["a", "b"]


def test_headers_and_queries_are_those_of_the_request() -> None:
    by = policy("header:X-Account", "query:shop", "json:/id")
    came = Delivery("POST", "/h?shop=9", ((b"X-Account", b"acc"),), b'[{"id":1}]', "::1", "http")
    found = read(came, by)
    assert isinstance(found, Batch)
    assert ids(found) == ["acc,9,1"]
    conflicting = came._replace(headers=((b"X-Account", b"a"), (b"X-Account", b"b")))
    assert isinstance(read(conflicting, by), Conflicting)


def test_the_scope_is_that_of_the_whole_body() -> None:
    scope = recipe(scope=("json:/tenant",))
    by = policy(items=(("events",),))
    one, other = (
        read(delivery(b'{"tenant":"%s","events":[{"id":"a","tenant":"x"}]}' % name), by, scope)
        for name in (b"t1", b"t2")
    )
    assert isinstance(one, Batch)
    assert isinstance(other, Batch)
    assert not one.by_key().keys() & other.by_key().keys()
    assert read(delivery(b'{"events":[]}'), by, scope) == Missing("json:/tenant")


@pytest.mark.parametrize("body", [b"", b"{}", b"5", b"[", b"\xff[]", b'{"id":"a"}', b"[1,]"])
def test_a_body_without_the_list_is_no_batch(body: bytes) -> None:
    assert read(delivery(body)) is None


def test_a_batch_may_be_empty_and_must_not_be_endless() -> None:
    assert carried("[]").items == ()
    assert len(carried("[" + ",".join(['{"id":1}'] * MOST_ITEMS) + "]").items) == MOST_ITEMS
    many = b"[" + b",".join([b"1"] * (MOST_ITEMS + 1)) + b"]"
    assert isinstance(read(delivery(many)), Missing)


@pytest.mark.parametrize("item", ['{"id":"a"}', '{"a":{"b":1},"c":[1,2],"id":"a"}', '"a"', "1"])
def test_what_a_batch_weighs_is_about_its_items(item: str) -> None:
    weighed = batch.weight(f"[{','.join([item] * 800)}]".encode())
    assert 99 <= weighed <= 1600
    assert weighed >= 800 or "{" not in item


def test_an_item_is_the_same_event_as_a_delivery_of_its_own() -> None:
    alone = Reading(delivery(b'{"id":"a"}')).identify(recipe("json:/id"))
    assert part("a").key == alone


def test_the_key_of_a_batch_is_that_of_its_items_in_any_order() -> None:
    a, b, c = part("a"), part("b"), part("c")
    assert batch.key_of([a, b]) == batch.key_of([b, a])
    keys = [batch.key_of(parts) for parts in ([a, b], [a], [b, c], [a, b, c])]
    keys += [batch.key_of([a, b], "1"), batch.key_of([a, b], "2"), a.key]
    assert len({key.digest for key in keys}) == len(keys)
    assert batch.key_of([b, a]).event_id == "a,b"


def test_the_fingerprint_of_a_batch_changes_with_an_item_and_not_with_their_order() -> None:
    a, b = part("a"), part("b")
    assert batch.fingerprint_of([a, b]) == batch.fingerprint_of([b, a])
    others = (part("a", n=n) for n in range(99))
    other = next(one for one in others if one.fingerprint != a.fingerprint)
    assert batch.fingerprint_of([other, b]) != batch.fingerprint_of([a, b])


def test_members_that_change_with_every_attempt_are_no_part_of_an_items_fingerprint() -> None:
    def prints(attempt: int) -> list[int]:
        body = json.dumps([{"id": "a", "attempt": attempt}]).encode()
        found = batch.read(Reading(delivery(body)), policy(), RECIPE, [("attempt",)])
        assert isinstance(found, Batch)
        return [item.part.fingerprint for item in found.items if item.part]

    assert prints(1) == prints(2)


def test_what_was_seen_goes_and_what_has_no_id_stays() -> None:
    came = delivery(b'[ {"id":"a"} , {"n":1.00} , {"id":"b"},{"id":"a"} ]')
    assert left(came, "a").body == b'[ {"id":"a"} , {"n":1.00} ]'
    assert left(came, "b").body == b'[ {"n":1.00} , {"id":"b"} ]'
    assert left(came).body == b'[ {"n":1.00} ]'


def test_a_packed_body_leaves_unpacked_and_without_what_described_its_bytes() -> None:
    lines = (
        (b"Content-Encoding", b"gzip"), (b"Digest", b"x"), (b"Content-MD5", b"y"),
        (b"content-digest", b"z"), (b"X-Signature", b"s"), (b"Content-Type", b"a/b"),
    )  # fmt: skip
    came = delivery(gzip.compress(b'[{"id":"a"},{"id":"b"}]'), *lines)
    narrowed = left(came, "b")
    assert narrowed.body == b'[{"id":"b"}]'
    assert narrowed.headers == lines[-2:]


ITEMS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.text(st.characters(codec="utf-8"), max_size=4)),
    max_size=8,
)


@given(ITEMS, st.sets(st.sampled_from("abcd")))
def test_what_is_left_is_what_a_reader_would_have_left(
    items: list[tuple[str, str]], kept: set[str]
) -> None:
    body: dict[str, Any] = {"n": 1, "events": [{"id": name, "v": text} for name, text in items]}
    by = policy(items=(("events",),))
    came = delivery(json.dumps(body, ensure_ascii=False).encode())
    narrowed = json.loads(left(came, *kept, by=by).body)
    firsts: dict[tuple[str, int], Any] = {}
    for one in body["events"]:
        if one["id"] in kept:
            print_ = fingerprint(json.dumps(one, ensure_ascii=False).encode(), ())
            firsts.setdefault((one["id"], print_), one)
    body["events"] = list(firsts.values())
    assert narrowed == body


def test_the_doubt_about_one_item_is_that_of_the_batch() -> None:
    new = Won(1, False, False, 90.0, 90.0)
    old = Won(3, True, True, 91.0, 10.0)
    assert batch.won_together([new, old]) == Won(3, True, True, 91.0, 10.0)
    assert batch.won_together([new, new]) == new


def test_a_batch_that_was_seen_is_as_old_as_its_youngest_item() -> None:
    old = Seen(10.0, True, 91.0, same_event=False, dead=True)
    told = batch.seen_together([old, Seen(50.0, False, 90.0, stored=True)])
    assert told == Seen(50.0, False, 91.0, same_event=False, stored=True, dead=True)


MESSAGES = policy(items=(("entry", "*", "changes", "*", "value", "messages"),))


@pytest.mark.parametrize(
    "other",
    [
        '{"field":"account_update","value":{"event":"VERIFIED"}}',
        '{"value":{"messages":{"id":"b"}}}',
        '{"value":{"messages":[{"id":"b"}],"messages":[{"id":"c"}]}}',
    ],
)
def test_what_lies_beside_the_lists_is_an_item_without_an_id(other: str) -> None:
    first = '{"value":{"messages":[{"id":"a"}]}}'
    body = f'{{"entry":[{{"changes":[{first}, {other}]}}]}}'
    found = carried(body, MESSAGES)
    assert ids(found) == ["a", None]
    assert left(delivery(body.encode()), by=MESSAGES).body.decode() == body.replace(
        '{"id":"a"}', ""
    )
    apart = f'{{"entry":[{{"changes":[{first}]}},{{"id":"other"}}]}}'
    assert ids(carried(apart, MESSAGES)) == ["a", None]
    assert ids(carried(f'{{"entry":[{{"changes":[{first}]}}]}}', MESSAGES)) == ["a"]


# orjson, by which bodies are read, refuses these.
@pytest.mark.parametrize("odd", [r'"\ud83d"', "NaN", "1e999", "7" * 5000, '"\ud83d"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_odd_values_and_other_encodings_leave_the_items_their_ids(odd: str, encoding: str) -> None:
    text = f'{{"n":{odd},"events":[{{"id":"a","text":{odd}}},{{"id":"b"}}]}}'
    came, by = delivery(text.encode(encoding, "surrogatepass")), policy(items=(("events",),))
    found = batch.read(Reading(came, orjson.loads), by, RECIPE, [("text",)])
    assert isinstance(found, Batch)
    assert ids(found) == ["a", "b"]
    assert [item.part and item.part.fingerprint for item in found.items] == [
        fingerprint(b'{"id":"a"}'), fingerprint(b'{"id":"b"}'),
    ]  # fmt: skip


def test_an_integer_of_any_length_is_an_id() -> None:
    assert ids(carried(f'[{{"id":{"7" * 5000}}}]')) == ["7" * 5000]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_of_a_body_in_another_encoding_nothing_is_left_out(encoding: str) -> None:
    reading = Reading(delivery('[{"id":"a"},{"id":"b"}]'.encode(encoding)))
    found = batch.read(reading, policy(), RECIPE, ())
    assert isinstance(found, Batch)
    assert batch.with_only(reading, found, found.by_key().keys() - {b""}) is None


def test_what_is_left_keeps_half_a_pair_of_surrogates() -> None:
    half = b"\xed\xa0\xbd"
    came = delivery(b'[{"id":"a"},{"id":"b","text":"%b"}]' % half)
    assert left(came, "b").body == b'[{"id":"b","text":"%b"}]' % half


def test_a_body_that_is_no_json_around_its_items_is_no_batch() -> None:
    for body in ('{"events":[{"id":"a"}]} x', '{"events":[{"id":"a"}], 1:2}', '{"events" [1]}'):
        assert read(delivery(body.encode()), policy(items=(("events",),))) is None
