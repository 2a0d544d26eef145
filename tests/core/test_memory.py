"""What strangers send is not remembered by the process."""

from __future__ import annotations

import json
import tracemalloc

import orjson
import pytest

from gateway.core import keying
from gateway.core.document import Document
from gateway.core.event import Delivery
from gateway.core.keying import Reading, Recipe
from gateway.core.location import Json, Literal

BY_ACCOUNT = Recipe(scope=(Literal("orders"), Json(("account",))), parts=(Json(("id",)),))


def test_a_scope_out_of_a_body_is_forgotten_with_it() -> None:
    def identify(account: str) -> object:
        body = json.dumps({"account": account, "id": "evt_1"}).encode()
        delivery = Delivery("POST", "/h", (), body, "192.0.2.1", "http")
        return Reading(delivery).identify(BY_ACCOUNT)

    tracemalloc.start()
    try:
        for n in range(40):
            identify(f"{n:04}" * 2**16)
        assert tracemalloc.get_traced_memory()[0] < 2**21
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 5000])
def test_a_scope_gives_the_same_key_whether_its_beginning_is_remembered_or_not(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = keying.digest(["s" * length, "t"], ["evt_1"])
    for most in (0, 10_000):
        monkeypatch.setattr(keying, "LONGEST_REMEMBERED", most)
        assert keying.digest(["s" * length, "t"], ["evt_1"]) == usual


@pytest.mark.parametrize("item", [b'{"":0},', b"[],", b'"ab",', b"1234,"])
@pytest.mark.parametrize("name", [b"id", b"\\u0069d"])
def test_a_body_that_would_fill_the_memory_once_parsed_says_nothing(
    name: bytes, item: bytes
) -> None:
    body = b'{"%b": "evt_1", "all": [' % name + item * (25 * 2**20 // len(item)) + b"0]}"
    tracemalloc.start()
    try:
        assert Document(body, orjson.loads).text(("id",), fractions=False) is None
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_large_body_as_large_bodies_are_is_read() -> None:
    commit = {
        "id": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        "message": "Fix all the bugs, and some more",
        "author": {"name": "Ada", "email": "ada@example.com"},
        "added": ["a/b/c.py", "d.py"],
        "removed": [],
        "modified": ["x"],
    }
    one = json.dumps(commit).encode() + b","
    body = b'{"commits": [' + one * (25 * 2**20 // len(one)) + b'0], "id": "evt_1"}'
    assert Document(body, orjson.loads).text(("id",), fractions=False) == "evt_1"
