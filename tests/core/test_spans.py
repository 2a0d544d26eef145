"""Leaving out values of a JSON text: what stays is what came, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fingerprint import lasting
from gateway.core.spans import (
    MOST_STEPS,
    Pointer,
    Steps,
    TooMany,
    Unreadable,
    lacking,
    series,
    values,
    with_only,
)

BLANKS = st.text(" \t\r\n", max_size=3)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(["1.0", "-0", "1E400", "0.1e-7"]).map(lambda text: ("number", text)),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('abc,]}"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def written(value: Any, blank: str) -> str:
    """JSON with white space wherever it may be, and numbers as they are spelled."""
    match value:
        case ("number", str(text)):
            return text
        case list():
            inner = f"{blank},{blank}".join(written(one, blank) for one in value)
            return f"[{blank}{inner}{blank}]"
        case dict():
            members = (
                f"{json.dumps(name)}{blank}:{blank}{written(one, blank)}"
                for name, one in value.items()
            )
            return "{" + blank + f"{blank},{blank}".join(members) + blank + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def texts(text: str, pointer: Pointer) -> list[str]:
    return [text[span.start : span.end] for one in series(text, pointer) for span in one.elements]


@given(st.lists(VALUES, max_size=6), st.data(), BLANKS)
def test_what_stays_keeps_its_bytes_and_its_order(
    items: list[Any], data: st.DataObject, blank: str
) -> None:
    text = f'{blank}{{"a":{written(items, blank)}{blank},"b":[1.00]}}{blank}'
    (found,) = series(text, ("a",))
    kept = data.draw(st.sets(st.sampled_from(found.elements))) if items else set()
    left = with_only(text, [found], kept)
    assert texts(left, ("a",)) == [
        text[span.start : span.end] for span in found.elements if span in kept
    ]
    assert left[: found.inside.start] == text[: found.inside.start]
    assert left.endswith(text[found.inside.end :])


@given(st.lists(VALUES, max_size=6), BLANKS)
def test_a_text_of_which_everything_stays_is_the_same_text(items: list[Any], blank: str) -> None:
    text = written(items, blank)
    found = series(text, ())
    assert with_only(text, found, {span for one in found for span in one.elements}) == text


@given(st.lists(st.lists(VALUES, max_size=3), max_size=4), st.data(), BLANKS)
def test_elements_of_several_lists_are_left_out_each_in_its_own(
    lists: list[list[Any]], data: st.DataObject, blank: str
) -> None:
    text = written([{"v": {"m": one}} for one in lists], blank)
    found = series(text, ("*", "v", "m"))
    spans = [span for one in found for span in one.elements]
    kept = data.draw(st.sets(st.sampled_from(spans))) if spans else set()
    left = with_only(text, found, kept)
    assert texts(left, ("*", "v", "m")) == [text[s.start : s.end] for s in spans if s in kept]
    assert len(series(left, ("*", "v", "m"))) == len(lists)


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ((), "[  ]"),
        ((0,), "[ 1 ]"),
        ((1,), "[ 2 ]"),
        ((0, 2), "[ 1 ,\n3 ]"),
        ((1, 2), "[ 2 ,\n3 ]"),
        ((0, 1, 2), "[ 1 , 2 ,\n3 ]"),
    ],
)
def test_an_element_goes_with_the_separator_before_it(kept: tuple[int, ...], left: str) -> None:
    text = "[ 1 , 2 ,\n3 ]"
    (found,) = series(text, ())
    assert with_only(text, [found], {found.elements[n] for n in kept}) == left


@pytest.mark.parametrize(
    ("text", "pointer", "found"),
    [
        ('{"a":[1,2]}', ("a",), ["1", "2"]),
        ('{"a":{"b":[1]},"c":[2]}', ("a", "b"), ["1"]),
        ('[{"m":[1]},{"n":[9]},{"m":[2,3]}]', ("*", "m"), ["1", "2", "3"]),
        ('[{"m":[1]},{"m":[2]}]', ("1", "m"), ["2"]),
        ('{"a":5}', ("a",), []),
        ('{"b":[1]}', ("a",), []),
        ('{"a":[1],"a":[2]}', ("a",), []),
        ('{"*":[7]}', ("*",), ["7"]),
        ('{"a":[]}', ("a",), []),
    ],
)
def test_a_pointer_finds_lists_and_nothing_on_which_readers_may_differ(
    text: str, pointer: Pointer, found: list[str]
) -> None:
    assert texts(text, pointer) == found


@pytest.mark.parametrize("text", ["", "[", "[1", "[1,]", "[1 2]", '{"a":[1,', '{"a" [1]}', "{1:2}"])
def test_what_is_no_json_is_unreadable_or_has_no_list(text: str) -> None:
    try:
        found = series(text, ("a",)) or series(text, ())
    except Unreadable:
        return
    assert not found


def test_depth_is_unreadable_and_does_not_end_the_process() -> None:
    with pytest.raises(Unreadable):
        series("[" * 100_000, ())


def test_members_are_left_out_wherever_they_are() -> None:
    text = '{"at":1,"x":{"at":2,"n":[{"at":3},{"b": 0, "at":4 , "c":[]}]}}'
    assert [text[a:b] for a, b in values(text, ("x", "n", "*", "at"))] == ["3", "4"]
    assert lacking(text, [("at",), ("x", "n", "*", "at")]) == (
        '{"x":{"at":2,"n":[{},{"b": 0 , "c":[]}]}}'
    )
    assert lacking(text, [("x",), ("x", "at")]) == '{"at":1}'
    assert lacking('{"n":[1, 2]}', [("n", "0")]) == '{"n":[, 2]}'
    assert lacking('{"at":1,"at":2}', [("at",)]) == '{"at":1,"at":2}'


@given(
    members=st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.text(max_size=2))),
    place=st.integers(0, 9),
    indent=st.none() | st.just(1),
    value=st.integers() | st.just({"at": 1}),
)
def test_a_member_that_only_some_attempts_have_leaves_no_trace(
    members: dict[str, object], place: int, indent: int | None, value: object
) -> None:
    members.pop("at", None)
    pairs = list(members.items())
    pairs.insert(place, ("at", value))
    without, with_it = ({"in": [dict(one)]} for one in (members, pairs))
    cut = lacking(json.dumps(with_it, indent=indent), [("in", "*", "at")])
    assert json.loads(cut) == without
    if members:  # an empty object is written apart from others
        assert cut == json.dumps(without, indent=indent)


LONG_LIST = "[" + "1," * MOST_STEPS + "1]"
LONG_OBJECT = "{" + '"":1,' * MOST_STEPS + '"a":[]}'


def test_a_body_of_a_million_values_is_not_stepped_over_to_its_end() -> None:
    """Everybody else's deliveries would wait for it, for seconds."""
    for text, pointer in ((LONG_LIST, ()), (LONG_LIST, ("*",)), (LONG_OBJECT, ("a",))):
        with pytest.raises(TooMany):
            series(text, pointer)
    with pytest.raises(TooMany):
        values(LONG_OBJECT, ("a",))
    with pytest.raises(TooMany):
        lacking(LONG_OBJECT, [("a",)])


def test_several_looks_share_their_steps() -> None:
    steps = Steps(5)
    assert len(series("[1,2,3]", (), steps)) == 1
    with pytest.raises(TooMany):
        series("[1,2,3]", (), steps)


def test_the_fingerprint_of_a_body_with_too_many_members_is_that_of_all_of_it() -> None:
    body = LONG_OBJECT.encode()
    assert lasting(body, [("a",)]) == body
    few = b'{"b":1,"a":2}'
    assert lasting(few, [("a",)], Steps(2)) == b'{"b":1}'
    assert lasting(few, [("a",)], Steps(1)) == few
