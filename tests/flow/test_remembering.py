"""What a process knows of its memory, and what it does about a store that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.core.canary import Memory, Remembered
from gateway.core.claim import StoreAway
from gateway.core.retention import Changed, OnRecord, Promise, Told
from gateway.core.route import Route
from gateway.flow.remembering import LOOK_EVERY, Kept, Remembering, pause_after
from tests import routes

DAY = timedelta(days=1)
ROUTE = replace(
    routes.ROUTE, promise=Promise(None, 3 * DAY, 7 * DAY, "docs", None), retention=13 * DAY
)
DAYS = 86400.0


class Book:
    """Records that say what they are told to, and can be away."""

    def __init__(self) -> None:
        self.away = False
        self.registered: list[str] = []
        self.planted: list[str] = []
        self.found: dict[str, Memory] = {"orders": Memory(5 * DAYS, 5 * DAYS, int(13 * DAYS))}
        self.purged: float | None = 99.0
        self.registering = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def _answer(self) -> None:
        if self.away:
            raise StoreAway("away")

    async def on_record(self, names: Iterable[str], places: Iterable[str]) -> list[OnRecord]:
        self._answer()
        return []

    async def remembering(self, names: Iterable[str]) -> set[str]:
        return set()

    async def register(self, told: Sequence[Told], who: str) -> list[Changed]:
        self.registering.set()
        await self.go_on.wait()
        self._answer()
        self.registered += [one.route for one in told]
        return []

    async def renew(self, recipes: Mapping[str, bytes]) -> list[str]:
        return []

    async def leave(self, names: Iterable[str]) -> None:
        pass

    async def plant(self, names: Iterable[str]) -> None:
        self._answer()
        self.planted += names

    async def memories(self, names: Iterable[str]) -> dict[str, Memory]:
        self._answer()
        return {name: self.found[name] for name in names if name in self.found}

    async def last_purge(self) -> float | None:
        self._answer()
        return self.purged


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def remembering(book: Book, clock: Clock) -> Remembering:
    made = Remembering(book, "host:1", clock, lambda: 0.5)
    made.use([kept()])
    return made


def kept(name: str = "orders", *, short: bool = False) -> Kept:
    return Kept(replace(ROUTE, name=name), short, False, ROUTE.retention.total_seconds())


async def test_nothing_is_said_of_a_memory_while_the_store_is_away(
    book: Book, remembering: Remembering
) -> None:
    assert remembering.memories is None
    assert await remembering.look_once()
    assert remembering.memories == {"orders": Remembered(13 * DAYS, 5 * DAYS, 5 * DAYS)}
    assert remembering.last_purge == 99.0
    book.away = True
    assert not await remembering.look_once()
    assert remembering.memories is None
    assert remembering.last_purge is None
    book.away = False
    assert await remembering.look_once()
    assert remembering.memories


async def test_retentions_are_registered_once_and_as_soon_as_the_store_is_there(
    book: Book, remembering: Remembering
) -> None:
    book.away = True
    for _ in range(3):
        await remembering.look_once()
    assert not book.registered
    book.away = False
    for _ in range(3):
        await remembering.look_once()
    assert book.registered == ["orders"]
    assert book.planted == ["orders"] * 3


async def test_a_reload_while_retentions_are_registered_has_its_own_registered_too(
    book: Book, remembering: Remembering
) -> None:
    book.go_on.clear()
    look = asyncio.ensure_future(remembering.look_once())
    await book.registering.wait()
    remembering.use([kept("bills")])
    book.go_on.set()
    await look
    await remembering.look_once()
    assert book.registered == ["orders", "bills"]
    assert remembering.memories == {}


async def test_a_configuration_that_is_put_in_force_is_looked_after_at_once(
    book: Book, remembering: Remembering
) -> None:
    watch = asyncio.ensure_future(remembering.watch())
    async with asyncio.timeout(5):
        while book.registered != ["orders"]:
            await asyncio.sleep(0)
        remembering.use([kept("bills")])
        while book.registered != ["orders", "bills"]:
            await asyncio.sleep(0)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


def test_a_look_that_takes_long_comes_less_often_and_still_within_a_minute() -> None:
    assert pause_after(0.01) == LOOK_EVERY
    assert pause_after(0.5) == 25.0
    assert pause_after(9.0) + 9.0 < 60


async def test_a_memory_has_to_reach_as_far_as_this_process_has_seen_it_reach(
    book: Book, remembering: Remembering, clock: Clock
) -> None:
    """Whoever wipes the record of a route's age with its claims is found out all the same."""
    await remembering.look_once()
    book.found["orders"] = Memory(0.0, 0.0, int(13 * DAYS))
    clock.now += DAYS
    await remembering.look_once()
    assert remembering.memories == {"orders": Remembered(13 * DAYS, 0.0, 6 * DAYS)}
    clock.now += 30 * DAYS
    await remembering.look_once()
    assert remembering.memories["orders"].expected == 10 * DAYS


WITHOUT_PROMISE = replace(ROUTE, promise=None, retention=60 * DAY)


@pytest.mark.parametrize(
    ("route", "short", "grown", "needed"),
    [
        (ROUTE, False, None, 10),
        (ROUTE, False, 4, 10),
        (ROUTE, True, None, 13),
        (ROUTE, True, 4, 4),
        (WITHOUT_PROMISE, False, None, 60),
        (WITHOUT_PROMISE, False, 45, 45),
        (WITHOUT_PROMISE, False, 70, 60),
    ],
)
def test_what_is_expected_is_the_floor_or_else_what_is_kept_as_soon_as_that_is_possible(
    route: Route, short: bool, grown: int | None, needed: int
) -> None:
    memory = Memory(0.0, 0.0, None, None if grown is None else grown * DAYS)
    assert Kept(route, short, False, 1.0).expected(memory, 99 * DAYS) == needed * DAYS
    assert Kept(route, short, False, 1.0).expected(memory, 3 * DAYS) == 3 * DAYS


async def test_a_retention_is_the_shorter_one_of_the_file_and_the_record(
    book: Book, remembering: Remembering
) -> None:
    for on_record, shown in ((2, 2), (40, 13), (None, 13)):
        seconds = None if on_record is None else int(on_record * DAYS)
        book.found["orders"] = Memory(5 * DAYS, 5 * DAYS, seconds)
        await remembering.look_once()
        assert remembering.memories
        assert remembering.memories["orders"].retention == shown * DAYS
