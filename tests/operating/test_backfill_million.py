"""Many rows at once: all of them marked, in memory that does not grow with them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.operating.lines import WHO, told
from tests.operating.marked import serve
from tests.operating.measured import measured
from tests.operating.rows import Rows

pytestmark = pytest.mark.usefixtures("file", "at")
# MiB: the interpreter and its libraries take 80; a million rows as Python has them, 300 more.
MOST_MEMORY = 130


def written(path: Path, count: int) -> str:
    """One in a thousand comes again, far from its first row."""
    now = time.time()
    with path.open("w") as file:
        for number in range(count):
            one = number if number % 1000 else 0
            file.write(f'{{"json:/event_id":"evt_{one:024}","time":{now - number}}}\n')
    return str(path)


async def mark(count: int, file: Path, rows: Rows) -> None:
    await serve(file, rows)
    source = written(file.parent / "many.jsonl", count)
    repeated = count // 1000 - 1
    words = ("backfill", "--route", "orders", source)
    counted = await told(*words, "--dry-run")
    assert (counted["marked"], counted["repeated"]) == (count - repeated, repeated)
    began = time.monotonic()
    _, memory = await asyncio.to_thread(measured, *words, *WHO)
    print(f"{count:,} rows in {time.monotonic() - began:.1f} s, {memory} MiB")
    assert memory < MOST_MEMORY
    asked = "select count(*), count(distinct first_seen) from dedup.claims where state = 'd'"
    assert tuple(await rows.sql.fetchrow(asked)) == (count - repeated, count - repeated)
    again = await told(*words, *WHO, "--from-start")
    assert (again["marked"], again["repeated"]) == (0, repeated)
    assert again["there"] == {"completed": count - repeated}


async def test_many_rows_are_marked_in_little_memory(file: Path, rows: Rows) -> None:
    await mark(20_000, file, rows)


@pytest.mark.soak
async def test_a_million_rows_are_marked_in_little_memory(file: Path, rows: Rows) -> None:
    await mark(1_000_000, file, rows)
