"""An audit of many rows: what it finds, and how much memory that takes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.keying import digest
from tests.operating.audited import DAY, Audited
from tests.operating.measured import measured
from tests.operating.rows import Rows

MANY, MILLION = 20_000, 1_000_000
# MiB: of a command that reads nothing it is some 75.
MOST_MEMORY = 120
# Of each thousand events one was lost, one was done twice, and one was done without a claim.
LOST, TWICE, LEAKED = 7, 8, 9


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    await made.begin()
    return made


def moment(audited: Audited, number: int, count: int) -> float:
    """Spread over twenty days; all long enough ago."""
    return audited.now - 30 * DAY + 20 * DAY * number / count


async def fill(audited: Audited, count: int) -> str:
    """The claims, and a file of effects."""
    names = [f"evt_{number:024}" for number in range(count)]

    def claims() -> Iterator[tuple[Any, ...]]:
        for number, name in enumerate(names):
            if number % 1000 != LEAKED:
                at = int(moment(audited, number, count))
                yield UUID(digest(["orders"], [name])), at, 1, b"d", b"\x07", name

    columns = ["key", "first_seen", "route", "state", "fingerprint", "event_id"]
    await audited.sql.copy_records_to_table(
        "claims", schema_name="dedup", records=claims(), columns=columns
    )
    return await asyncio.to_thread(_write, audited, names)


def _write(audited: Audited, names: list[str]) -> str:
    path = Path("effects.csv").absolute()
    with path.open("w") as file:
        file.write("id,time\n")
        for number, name in enumerate(names):
            if number % 1000 == LOST:
                continue
            row = f"{name},{moment(audited, number, len(names)) + 1:.3f}\n"
            file.write(row * (2 if number % 1000 == TWICE else 1))
    return str(path)


def audit(*words: str) -> tuple[str, int]:
    """What it prints, and the most memory that it had."""
    window = ("--since", "35d", "--until", "5d")
    return measured("audit", "--route", "orders", *window, *words, code=1)


async def audit_many(audited: Audited, count: int) -> None:
    effects = await fill(audited, count)
    each = count // 1000
    found = {"leak": each, "loss": each, "marked": 0, "double": each}
    text, memory = await asyncio.to_thread(audit, "--effects", effects, "--json", "--sample", "3")
    said = json.loads(text)
    assert said["found"] == found
    assert said["list"] == {"matched": count - 2 * each}
    assert (said["rows"], said["claims"]) == (count, count - each)
    assert len(said["findings"]) == 3 * 3
    assert memory < MOST_MEMORY
    # As with ids of another kind all is wrong, and all of it is written.
    await audited.sql.execute("update dedup.claims set key = gen_random_uuid()")
    text, memory = await asyncio.to_thread(audit, "--effects", effects, "--csv")
    kinds = Counter(line.partition(",")[0] for line in text.splitlines()[1:])
    assert kinds == {"leak": count - each, "loss": count - each, "double": each}
    assert memory < MOST_MEMORY


async def test_an_audit_of_many_rows_finds_the_few_that_are_wrong(audited: Audited) -> None:
    await audit_many(audited, MANY)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_an_audit_of_a_million_rows_finds_the_few_that_are_wrong(audited: Audited) -> None:
    await audit_many(audited, MILLION)
