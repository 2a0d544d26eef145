"""Upkeep of the inbox: what is known of it between two looks, and what is deleted in time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.claim import StoreAway
from gateway.core.inbox import EntryState, Waiting
from gateway.flow import upkeep
from gateway.flow.upkeep import FORGET_BATCH, Upkeep
from tests import routes

ROUTE = replace(routes.ROUTE, high_water=3, keep_payload=timedelta(days=7))
OTHER = replace(ROUTE, name="invoices")


class Kept:
    """An inbox that says what it is told to, and can be away or take its time."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, EntryState], Waiting] = {}
        self.over: Counter[str] = Counter()
        """Entries of each route that have been kept for long enough."""
        self.asked: list[tuple[str, float]] = []
        """Routes and the seconds that they keep."""
        self.away = False
        self.looks = 0
        self.looking = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def holds(self, state: EntryState, entries: int, oldest: float = 1.0) -> None:
        self.entries["orders", state] = Waiting(entries, oldest)

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        self.looks += 1
        found = dict(self.entries)
        self.looking.set()
        await self.go_on.wait()
        if self.away:
            raise StoreAway("away")
        return found

    async def forget(self, route: str, kept: float, most: int) -> int:
        self.asked.append((route, kept))
        if self.away:
            raise StoreAway("away")
        gone = min(self.over[route], most)
        self.over[route] -= gone
        return gone


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def keeping(kept: Kept) -> Upkeep:
    return Upkeep(kept, clock=time.monotonic, jitter=lambda: 0.5)


@asynccontextmanager
async def running(work: object) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_waits_is_unknown_until_it_was_seen_and_again_while_the_store_is_away(
    kept: Kept, keeping: Upkeep
) -> None:
    assert keeping.waiting is None
    kept.holds(EntryState.DEAD, 2, oldest=60.0)
    assert await keeping.look_once()
    assert keeping.waiting == {("orders", EntryState.DEAD): Waiting(2, 60.0)}
    kept.away = True
    assert not await keeping.look_once()
    assert keeping.waiting is None


async def test_there_is_room_below_the_high_water_mark_and_none_at_it(
    kept: Kept, keeping: Upkeep
) -> None:
    kept.holds(EntryState.PENDING, 1)
    kept.holds(EntryState.LEASED, 1)
    await keeping.look_once()
    assert keeping.has_room(ROUTE)
    kept.holds(EntryState.PENDING, 2)
    await keeping.look_once()
    assert not keeping.has_room(ROUTE)
    assert keeping.has_room(OTHER)


@pytest.mark.parametrize("state", [EntryState.DEAD, EntryState.HELD])
async def test_what_waits_for_a_person_takes_no_room(
    kept: Kept, keeping: Upkeep, state: EntryState
) -> None:
    kept.holds(state, 100)
    await keeping.look_once()
    assert keeping.has_room(ROUTE)


async def test_room_is_presumed_while_nobody_knows(kept: Kept, keeping: Upkeep) -> None:
    kept.holds(EntryState.PENDING, 5)
    assert keeping.has_room(ROUTE)
    await keeping.look_once()
    assert not keeping.has_room(ROUTE)
    kept.away = True
    await keeping.look_once()
    assert keeping.has_room(ROUTE)


async def test_what_was_stored_and_ended_since_the_last_look_counts(
    kept: Kept, keeping: Upkeep
) -> None:
    kept.holds(EntryState.PENDING, 1)
    await keeping.look_once()
    keeping.accepted("invoices")
    keeping.accepted("orders")
    assert keeping.has_room(ROUTE)
    keeping.accepted("orders")
    assert not keeping.has_room(ROUTE)
    keeping.ended("orders")
    assert keeping.has_room(ROUTE)


async def test_a_look_takes_the_place_of_what_was_counted_before_it(
    kept: Kept, keeping: Upkeep
) -> None:
    for _ in range(2):
        await keeping.look_once()
        for _ in range(3):
            keeping.accepted("orders")
        assert not keeping.has_room(ROUTE)
    await keeping.look_once()  # all six are delivered by others
    assert keeping.has_room(ROUTE)


async def test_what_is_stored_while_a_look_is_under_way_is_not_forgotten(
    kept: Kept, keeping: Upkeep
) -> None:
    await keeping.look_once()
    kept.looking.clear()
    kept.go_on.clear()
    look = asyncio.ensure_future(keeping.look_once())
    await kept.looking.wait()
    for _ in range(3):
        keeping.accepted("orders")
    kept.go_on.set()
    await look
    assert not keeping.has_room(ROUTE)


async def test_an_outage_between_two_looks_leaves_no_wrong_count_behind(
    kept: Kept, keeping: Upkeep
) -> None:
    await keeping.look_once()
    for _ in range(3):
        keeping.accepted("orders")
    kept.away = True
    await keeping.look_once()
    kept.away = False
    kept.holds(EntryState.PENDING, 2)
    await keeping.look_once()
    assert keeping.has_room(ROUTE)
    keeping.accepted("orders")
    assert not keeping.has_room(ROUTE)


@pytest.mark.parametrize("over", [0, 1, FORGET_BATCH, FORGET_BATCH + 1, 3 * FORGET_BATCH])
async def test_all_that_was_kept_long_enough_is_deleted_in_batches(
    kept: Kept, keeping: Upkeep, over: int
) -> None:
    kept.over["orders"] = over
    assert await keeping.forget_once(ROUTE) == over
    assert kept.over["orders"] == 0
    assert kept.asked == [("orders", 7 * 86400.0)] * (over // FORGET_BATCH + 1)


async def test_a_store_that_goes_away_ends_the_deleting_and_nothing_else(
    kept: Kept, keeping: Upkeep
) -> None:
    kept.over["orders"] = 5
    kept.away = True
    assert await keeping.forget_once(ROUTE) == 0
    kept.away = False
    assert await keeping.forget_once(ROUTE) == 5


async def test_looking_goes_on_through_an_outage(
    kept: Kept, keeping: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LOOK_EVERY", 0.001)
    kept.away = True
    async with asyncio.timeout(5), running(keeping.look()):
        while kept.looks < 3:
            await asyncio.sleep(0)
        kept.away = False
        while keeping.waiting is None:
            await asyncio.sleep(0)


def test_a_look_that_takes_long_is_followed_by_a_pause_that_is_longer() -> None:
    assert [upkeep.pause_after(took) for took in (0.01, 0.1, 1.0)] == [2.0, 2.0, 20.0]


async def test_the_routes_in_force_are_the_ones_that_forget(
    kept: Kept, keeping: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "FORGET_EVERY", 0.001)
    keeping.use([ROUTE, OTHER])
    async with asyncio.timeout(5), running(keeping.forget()):
        while len(kept.asked) < 4:
            await asyncio.sleep(0)
        keeping.use([OTHER])
        kept.asked.clear()
        while len(kept.asked) < 4:
            await asyncio.sleep(0)
    assert {route for route, _ in kept.asked[2:]} == {"invoices"}
