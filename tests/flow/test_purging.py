"""The purger beside deliveries: how it paces itself, and what it says."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter

import pytest

from gateway.core.claim import StoreAway
from gateway.flow.purging import LEASE, LONGEST_REST, LOOK_EVERY, REST, RUN_EVERY, STEP, Purger

Found = dict[str, tuple[int, int]]


class Table:
    """Pages with claims that are over; each step takes its time on a clock of the test's own."""

    def __init__(self, pages: int = 0) -> None:
        self.now = 0.0
        self.length = pages
        self.over: dict[int, Found] = {}
        """By the first page of a step."""
        self.takes = 0.01
        self.is_due = True
        self.away = False
        self.lost = False
        self.walked: list[tuple[int, int]] = []
        self.kept: list[float] = []
        self.taken = 0
        self.ended: list[float] = []
        self.rested: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.rested.append(seconds)
        self.now += seconds

    async def take_purge(self, token: int, lease: float, who: str) -> int | None:
        self.taken += 1
        assert (token, lease, who) == (7, LEASE, "host:1")
        if self.away:
            raise StoreAway("away")
        return 5 if self.is_due else None

    async def keep_purge(self, token: int, lease: float) -> bool:
        assert (token, lease) == (7, LEASE)
        self.kept.append(self.now)
        return not self.lost

    async def pages(self) -> int:
        return self.length

    async def purge(self, run: int, first: int, end: int) -> Found:
        assert run == 5
        if self.away:
            raise StoreAway("away")
        self.walked.append((first, end))
        self.now += self.takes
        return self.over.get(first, {})

    async def end_purge(self, token: int, again: float, run: int) -> bool:
        assert (token, run) == (7, 5)
        self.ended.append(again)
        return not self.lost


class Counts(Counter[tuple[str, str]]):
    """What the metrics would count."""

    def purged(self, route: str, claims: int, unresolved: int) -> None:
        self[route, "all"] += claims
        self[route, "unresolved"] += unresolved


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table(pages=3 * STEP - 1)
    monkeypatch.setattr(asyncio, "sleep", made.sleep)
    return made


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def purger(table: Table, counts: Counts) -> Purger:
    return Purger(table, counts, "host:1", table.clock, lambda: 7, lambda: 0.0)


async def test_a_run_walks_every_page_once_and_counts_what_goes(
    table: Table, counts: Counts, purger: Purger
) -> None:
    table.over = {0: {"orders": (5, 0), "bills": (1, 1)}, STEP: {"orders": (2, 1)}}
    assert await purger.run_once() == {"orders": 7, "bills": 1}
    assert table.walked == [(0, STEP), (STEP, 2 * STEP), (2 * STEP, 3 * STEP)]
    assert counts == {
        ("orders", "all"): 7,
        ("orders", "unresolved"): 1,
        ("bills", "all"): 1,
        ("bills", "unresolved"): 1,
    }
    assert table.ended == [RUN_EVERY]


async def test_a_run_that_is_not_due_or_somebody_elses_does_nothing(
    table: Table, purger: Purger
) -> None:
    table.is_due = False
    assert await purger.run_once() is None
    assert not table.walked


async def test_a_purger_rests_for_four_times_as_long_as_it_works(
    table: Table, purger: Purger
) -> None:
    await purger.run_once()
    assert table.rested == pytest.approx([REST * 0.01] * 3)
    assert REST / (REST + 1) == 0.8


@pytest.mark.parametrize("takes", [0.01, 1.0, 10.0])
async def test_however_slow_the_steps_are_the_job_is_kept_long_before_its_lease_is_over(
    takes: float, table: Table, purger: Purger
) -> None:
    table.takes, table.length = takes, 200 * STEP
    await purger.run_once()
    kept = [0.0, *table.kept, table.now]
    assert max(later - earlier for earlier, later in itertools.pairwise(kept)) < LEASE * 0.8
    assert max(table.rested) <= LONGEST_REST


async def test_a_job_that_is_lost_is_left_at_once_and_its_run_is_not_ended(
    table: Table, purger: Purger
) -> None:
    table.takes, table.lost, table.length = 10.0, True, 50 * STEP
    assert await purger.run_once() is None
    assert len(table.walked) == 1
    assert not table.ended


async def test_a_job_that_is_lost_at_the_very_end_was_somebody_elses_run(
    table: Table, purger: Purger, caplog: pytest.LogCaptureFixture
) -> None:
    table.over, table.lost = {0: {"orders": (5, 0)}}, True
    caplog.set_level(logging.INFO)
    assert await purger.run_once() is None
    assert not caplog.records


async def test_a_run_says_what_it_purged_and_what_nobody_knew_the_end_of(
    table: Table, purger: Purger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await purger.run_once()
    assert not caplog.records
    table.over = {0: {"orders": (5, 2), "bills": (1, 0)}}
    await purger.run_once()
    said = [(line.levelname, line.message, line.__dict__["claims"]) for line in caplog.records]
    assert said == [("INFO", "purged", 6), ("WARNING", "purged_unresolved", 2)]
    assert caplog.records[1].__dict__["route"] == "orders"
    assert caplog.records[0].__dict__["seconds"] >= 0


async def test_a_store_that_is_away_is_said_once_and_looked_for_until_it_is_back(
    table: Table,
    purger: Purger,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Enough(Exception):
        """The test has seen what it wants."""

    async def sleep(seconds: float) -> None:
        await Table.sleep(table, seconds)
        if len(table.rested) == 4:
            table.away, table.length = False, 0
        if len(table.rested) == 6:
            table.away = True
        if len(table.rested) == 8:
            raise Enough

    monkeypatch.setattr(asyncio, "sleep", sleep)
    table.away = True
    with pytest.raises(Enough):
        await purger.purge()
    assert table.taken == 7
    assert table.rested == [LOOK_EVERY] * 8
    assert [line.message for line in caplog.records] == ["purge_postponed"] * 2
