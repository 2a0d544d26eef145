"""How long is long enough, how old is old."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gateway.core.retention import (
    Promise,
    Shape,
    default_retention,
    floor,
    is_stale,
    parse_event_time,
    shape_of,
    shortfall,
)

DAY = timedelta(days=1)


def promise(horizon: timedelta = 3 * DAY, window: timedelta = 30 * DAY) -> Promise:
    return Promise(None, horizon, window, "test", None)


def test_the_paths_on_which_an_event_returns_add_up() -> None:
    assert floor(promise(), 2 * DAY) == 35 * DAY
    assert floor(None, 2 * DAY) is None


def test_the_default_is_a_quarter_above_the_floor() -> None:
    assert default_retention(promise(), timedelta(0)) == timedelta(days=41, hours=6)
    assert default_retention(None, 5 * DAY) == 60 * DAY


@pytest.mark.parametrize(
    ("kept", "needed", "short"),
    [
        (33 * DAY, 33 * DAY, timedelta(0)),
        (34 * DAY, 33 * DAY, timedelta(0)),
        (32 * DAY, 33 * DAY, DAY),
        (DAY, None, timedelta(0)),
    ],
)
def test_a_shortfall_is_what_the_retention_lacks(
    kept: timedelta, needed: timedelta | None, short: timedelta
) -> None:
    assert shortfall(kept, needed) == short


def test_a_duplicate_within_the_horizon_is_a_retry_and_a_later_one_a_redrive() -> None:
    horizon = (3 * DAY).total_seconds()
    assert shape_of(horizon, promise()) is Shape.RETRY
    assert shape_of(horizon + 1, promise()) is Shape.REDRIVE
    week = (7 * DAY).total_seconds()
    assert shape_of(week, None) is Shape.RETRY
    assert shape_of(week + 1, None) is Shape.REDRIVE


def test_an_event_is_stale_once_it_is_older_than_the_memory() -> None:
    assert not is_stale(1000.0, timedelta(seconds=10), now=1010.0)
    assert is_stale(1000.0, timedelta(seconds=10), now=1010.1)
    assert not is_stale(2000.0, timedelta(seconds=10), now=1010.0)


TIMES = [
    ("2026-08-25T12:00:00Z", 1787659200.0),
    ("2026-08-25T14:00:00+02:00", 1787659200.0),
    ("2026-08-25 12:00:00.250+00:00", 1787659200.25),
    ("1787659200", 1787659200.0),
    ("1787659200.5", 1787659200.5),
    ("1787659200250", 1787659200.25),
    ("0", 0.0),
    ("0001-01-01T00:00:00+01:00", -62135600400.0),
    ("9999-12-31T23:59:59-01:00", 253402304399.0),
]


@pytest.mark.parametrize(("text", "seconds"), TIMES)
def test_a_time_with_an_offset_and_an_epoch_are_used(text: str, seconds: float) -> None:
    assert parse_event_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "2026-08-25T12:00:00", "2026-08-25", "yesterday", "1e9", "-5", ".5", "٣", "1" * 40, "NaN"],
)
def test_a_time_that_leaves_room_for_doubt_is_not_used(text: str) -> None:
    assert parse_event_time(text) is None
