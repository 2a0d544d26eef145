"""JSON read for single members: the quick way never differs from the careful one."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core import document
from gateway.core.document import Document

# Few names, so that pointers hit and members repeat; some spell one another.
NAMES = st.sampled_from(
    ["id", "a", "0", "i-d", "\\u0069d", 'i\\"d', "i/d", "é", "", "x\\\\", '\\"id\\"']
)
SCALARS = st.sampled_from(
    ['"evt"', '"id"', '"7"', "7", "-0", "0", "7.0", "1e2", "NaN", "null", "true", '" "', '""',
     '"\\u0061"', '"\\ud800"', '"\\"id\\""', "9007199254740993", "1" * 5000,
     "18446744073709551616", "-9223372036854775809"]
)  # fmt: skip


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(NAMES, values).map(lambda pair: f'"{pair[0]}": {pair[1]}')
    return st.lists(members, max_size=4).map(lambda some: "{" + ", ".join(some) + "}")


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda some: "[" + ",".join(some) + "]")


DOCUMENTS = st.recursive(SCALARS, lambda inner: objects(inner) | lists(inner), max_leaves=12)
STEPS = st.sampled_from(["id", "a", "0", "1", "00", "i-d", 'i"d', "i/d", "é", "", '"id"', "x\\"])
TAILS = st.sampled_from(["", "", " \n", "\x0b", "\u00a0", "}", " {}"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"])


class Careful(Document):
    """Only ever the careful way."""

    def _quickly(self, pointer: tuple[str, ...]) -> object:
        return document._CANNOT_SAY


@given(
    DOCUMENTS, TAILS, st.lists(STEPS, min_size=1, max_size=3).map(tuple), ENCODINGS, st.booleans()
)
@example('{"id": "a", "id": "b"}', "", ("id",), "utf-8", False)
@example('{"id": "a", "\\u0069d": "b"}', "", ("id",), "utf-8", False)
@example('{"a": {"id": 1}, "a": {"id": 2}}', "", ("a", "id"), "utf-8", False)
@example('{"i/d": "a", "i\\/d": "b"}', "", ("i/d",), "utf-8", False)
@example('{"id": 7.0}', "", ("id",), "utf-8", True)
@example('{"id": "a"}', "{}", ("id",), "utf-8", False)
@example('{"id": "a"}', "\x0b", ("id",), "utf-8", False)
@pytest.mark.parametrize("parse", [document.parse_plainly, orjson.loads])
def test_the_quick_way_never_differs_from_the_careful_one(
    parse: document.Parse,
    text: str,
    tail: str,
    pointer: tuple[str, ...],
    encoding: str,
    fractions: bool,
) -> None:
    body = (text + tail).encode(encoding)
    quick = Document(body, parse).text(pointer, fractions=fractions)
    assert quick == Careful(body).text(pointer, fractions=fractions)


@pytest.mark.parametrize("cut", range(22))
def test_a_body_that_breaks_off_says_nothing(cut: int) -> None:
    assert Document(b'{"event_id": "evt_12"}'[:cut]).text(("event_id",), fractions=False) is None


@pytest.mark.parametrize(
    ("body", "pointer", "text"),
    [
        (b'{"event_id": "evt_1", "data": {"id": 7}}', ("data", "id"), "7"),
        (b'[{"event_id": "evt_1"}]', ("0", "event_id"), "evt_1"),
        (b'{"data": {"id": 7}}', ("event_id",), None),
    ],
)
def test_usual_bodies_go_the_quick_way(
    body: bytes, pointer: tuple[str, ...], text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(document, "_read_carefully")
    assert Document(body).text(pointer, fractions=False) == text
