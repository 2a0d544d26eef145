"""How people write spans of time and amounts of data."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.durations import format_duration, format_size, parse_duration, parse_size

DURATIONS = [
    ("0", timedelta(0)),
    ("0s", timedelta(0)),
    ("250ms", timedelta(milliseconds=250)),
    ("8s", timedelta(seconds=8)),
    ("1.5s", timedelta(seconds=1.5)),
    ("5m", timedelta(minutes=5)),
    ("72h", timedelta(days=3)),
    ("1h30m", timedelta(minutes=90)),
    ("45d", timedelta(days=45)),
    ("2w", timedelta(days=14)),
]


@pytest.mark.parametrize(("text", "span"), DURATIONS)
def test_a_duration_is_a_number_with_a_unit(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    "text", ["", "8", "8 s", " 8s", "8s ", "-8s", "s", "8S", "8sec", "1:30", "1e3s", "٣s", "0x8s"]
)
def test_anything_else_is_no_duration_and_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write a number with a unit"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9" * 400 + "d", "99999999999w", "9999999d", "365000d1ms"])
def test_a_duration_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is too long; write at most 365000d"):
        parse_duration(text)
    assert parse_duration("365000d").days == 365_000


SHOWN = [
    (timedelta(0), "0s"),
    (timedelta(days=41, hours=6), "41d6h"),
    (timedelta(seconds=90.25), "1m30s250ms"),
    (timedelta(days=14), "14d"),
]


@pytest.mark.parametrize(("span", "text"), SHOWN)
def test_a_span_is_shown_in_its_largest_units(span: timedelta, text: str) -> None:
    assert format_duration(span) == text


@given(st.integers(min_value=0, max_value=10**13))
def test_every_span_of_whole_milliseconds_is_read_back_as_itself(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(span)) == span


SIZES = [("0B", 0), ("512B", 512), ("64KiB", 65536), ("25MiB", 26214400), ("1GiB", 2**30)]


@pytest.mark.parametrize(("text", "count"), SIZES)
def test_a_size_is_a_whole_number_with_a_binary_unit(text: str, count: int) -> None:
    assert parse_size(text) == count
    assert format_size(count) == text


@pytest.mark.parametrize(
    "text", ["", "25", "25MB", "25 MiB", "2.5MiB", "-1B", "25mib", "٣B", "9" * 5000 + "B"]
)
def test_anything_else_is_no_size_and_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write a whole number with a unit"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=10**14))
def test_every_size_is_read_back_as_itself(count: int) -> None:
    assert parse_size(format_size(count)) == count
