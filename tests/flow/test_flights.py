"""Flights by themselves: who waits, how many may, and what is left of them."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Busy
from gateway.core.event import EventKey
from gateway.flow import flights as module
from gateway.flow.flights import Flights, Told

ONE, TWO = EventKey(b"k" * 16, "evt_1"), EventKey(b"o" * 16, "evt_2")
KEY, OTHER = ONE.digest, TWO.digest
TOLD = Told(Busy(5), durable=False)


async def test_waiters_are_bounded_over_all_keys_and_their_places_come_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITERS_IN_ALL", 2)
    flights = Flights()
    first, second = flights.open(ONE, 0), flights.open(TWO, 0)
    waiting = [asyncio.create_task(flights.wait(flight, 5)) for flight in (first, second)]
    await asyncio.sleep(0)
    assert await flights.wait(first, 5) == (False, None)
    flights.close(KEY, first, TOLD)
    assert await waiting[0] == (True, TOLD)
    third = asyncio.create_task(flights.wait(second, 5))
    await asyncio.sleep(0)
    flights.close(OTHER, second, None)
    assert [await waiting[1], await third] == [(True, None)] * 2


async def test_a_waiter_that_gives_up_leaves_its_place_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITERS_PER_KEY", 1)
    flights = Flights()
    flight = flights.open(ONE, 0)
    assert await flights.wait(flight, 0.01) == (False, None)
    gone = asyncio.create_task(flights.wait(flight, 5))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    waiting = asyncio.create_task(flights.wait(flight, 5))
    await asyncio.sleep(0)
    flights.close(KEY, flight, TOLD)
    assert await waiting == (True, TOLD)


async def test_an_end_that_comes_late_touches_neither_what_was_told_nor_the_next_flight() -> None:
    flights = Flights()
    old = flights.open(ONE, 0)
    flights.close(KEY, old, TOLD)
    new = flights.open(ONE, 0)
    flights.close(KEY, old, None)
    assert flights.find(KEY) is new
    assert await flights.wait(old, 1) == (True, TOLD)


async def test_a_result_that_is_there_already_needs_no_place_and_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITERS_PER_KEY", 0)
    flights = Flights()
    rest = flights.pend(KEY, flights.open(ONE, 0), None, TOLD)
    assert await flights.wait(rest, 0) == (True, TOLD)
