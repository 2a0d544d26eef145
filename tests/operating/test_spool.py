"""Rows that wait on the disk."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.operating.spool import Spool
from gateway.sources import Unusable


class Line(NamedTuple):
    key: bytes
    text: str | None
    at: float | None
    number: int


LINES = [
    Line(bytes(range(16)), "evt_1", 1.5, 1),
    Line(b"", None, None, 2**62),
    Line(b"\n", "nul\x00, lone \udc80, \n", 0.1, -1),
]


def test_rows_come_back_as_they_were_as_often_as_one_likes() -> None:
    with Spool(Line) as spool:
        for line in LINES:
            spool.append(line)
        assert list(spool) == LINES
        assert list(spool) == LINES
        assert all(isinstance(line, Line) for line in spool)


def test_rows_are_read_after_more_were_written() -> None:
    with Spool(Line) as spool:
        spool.append(LINES[0])
        assert list(spool) == LINES[:1]
        spool.append(LINES[1])
        assert list(spool) == LINES[:2]


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Spool(Line) as spool:
        spool.append(LINES[0])
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(Unusable, match=r"in TMPDIR: /nowhere/at/all.*no such file"):
        Spool(Line)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of more than a few kilobytes are refused, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("number", [600, 100_000])
def test_a_disk_that_is_full_is_told_as_such(number: int) -> None:
    def fill() -> None:
        with Spool(Line) as spool:
            for _ in range(number):
                spool.append(LINES[0])
            assert len(list(spool)) == number

    with pytest.raises(Unusable, match="in TMPDIR: File too large"):
        fill()
