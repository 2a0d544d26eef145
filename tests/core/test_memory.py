"""What strangers send is not remembered by the process."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from gateway.core import keying
from gateway.core.event import Delivery
from gateway.core.keying import Json, Literal, Reading, Recipe

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
