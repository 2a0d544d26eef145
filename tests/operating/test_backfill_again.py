"""A backfill that is run again: it goes on where it stopped, or changes nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.operating import marking
from tests.operating.lines import WHO, run, told
from tests.operating.marked import listed, rewritten, serve
from tests.operating.rows import Rows, key_of
from tests.rig.deadline import eventually

pytestmark = pytest.mark.usefixtures("file", "at")
ORDERS = ("backfill", "--route", "orders")
IDS = [f"evt_{n}" for n in range(10)]


@pytest.fixture(autouse=True)
async def served(file: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """By gateways with this configuration; and small batches."""
    monkeypatch.setattr(marking, "BATCH", 3)
    await serve(file, rows)


async def marked(rows: Rows) -> set[str]:
    found = await rows.sql.fetch("select event_id from dedup.claims where state = 'd'")
    return {row["event_id"] for row in found}


async def broken_off(rows: Rows, source: str) -> None:
    """By somebody who has evt_7 in hand, which is in the third batch."""
    held = rows.sql.transaction()
    await held.start()
    await rows.claim("evt_7", state="d")
    ended = await run(*ORDERS, source, *WHO)
    await held.rollback()
    assert ended.exit_code == 1, ended.output
    assert ended.stdout.splitlines() == [
        "marked      6 events",
        "broken off  the same command does the rest",
    ]
    assert "others hold some of these events" in ended.stderr


async def test_what_broke_off_goes_on_where_it_stopped(rows: Rows, tmp_path: Path) -> None:
    source = listed(tmp_path / "a.csv", IDS)
    await broken_off(rows, source)
    assert await marked(rows) == set(IDS[:6])
    await rows.sql.execute("delete from dedup.claims where key = $1", UUID(key_of("evt_2")))
    ended = await run(*ORDERS, source, *WHO)
    assert ended.stdout.splitlines() == [
        "marked      4 events",
        "before      6 rows, by an earlier run; --from-start reads them again",
    ]
    assert await marked(rows) == {*IDS} - {"evt_2"}  # what was done is not looked at again
    runs = await rows.sql.fetch("select rows, marked, ended from dedup.backfills order by id")
    assert [(one["rows"], one["marked"], one["ended"] is None) for one in runs] == [
        (6, 6, True),
        (10, 4, False),
    ]


async def test_whoever_wants_it_begins_at_the_start(rows: Rows, tmp_path: Path) -> None:
    source = listed(tmp_path / "a.csv", IDS)
    await broken_off(rows, source)
    await rows.sql.execute("delete from dedup.claims where key = $1", UUID(key_of("evt_2")))
    said = await told(*ORDERS, source, *WHO, "--from-start")
    assert (said["marked"], said["there"], said["rows_before"]) == (5, {"completed": 5}, 0)


async def test_after_the_end_a_run_of_the_same_file_reads_it_anew_and_changes_nothing(
    rows: Rows, tmp_path: Path
) -> None:
    await run(*ORDERS, listed(tmp_path / "a.csv", IDS), *WHO)
    before = await rows.sql.fetch("select *, xmin from dedup.claims order by key")
    for _ in range(2):
        said = await told(*ORDERS, str(tmp_path / "a.csv"), *WHO)
        assert (said["rows"], said["rows_before"], said["marked"]) == (10, 0, 0)
        assert said["there"] == {"completed": 10}
        assert await rows.sql.fetch("select *, xmin from dedup.claims order by key") == before


async def test_marks_that_were_lost_come_back_by_the_same_command(
    rows: Rows, tmp_path: Path
) -> None:
    source = listed(tmp_path / "a.csv", IDS)
    await run(*ORDERS, source, *WHO)
    await rows.sql.execute("truncate dedup.claims")
    assert (await told(*ORDERS, source, *WHO))["marked"] == 10
    assert await marked(rows) == set(IDS)


async def test_rows_that_cannot_be_used_are_as_wrong_each_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,time\nevt_1,\n,\n")
    for _ in range(2):
        said = await told(*ORDERS, str(tmp_path / "a.csv"), *WHO, code=1)
        assert (said["rows"], said["unusable"]) == (2, 1)


async def test_what_was_too_old_is_marked_once_claims_are_kept_for_longer(
    file: Path, tmp_path: Path
) -> None:
    source = listed(tmp_path / "a.csv", IDS, ago=70 * 86400)
    assert (await told(*ORDERS, source, *WHO, code=1))["too_old"] == 10
    rewritten(file, "event_id: json:/event_id", "event_id: json:/event_id\n    retention: 90d")
    assert (await told(*ORDERS, source, *WHO))["marked"] == 10


async def test_a_file_that_broke_off_is_known_whatever_its_name(rows: Rows, tmp_path: Path) -> None:
    await broken_off(rows, listed(tmp_path / "a.csv", IDS))
    (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    said = await told(*ORDERS, str(tmp_path / "b.csv"), *WHO)
    assert (said["rows_before"], said["marked"]) == (6, 4)


async def test_a_file_with_other_rows_is_another_one(rows: Rows, tmp_path: Path) -> None:
    await run(*ORDERS, listed(tmp_path / "a.csv", IDS), *WHO)
    said = await told(*ORDERS, listed(tmp_path / "a.csv", ["new", *IDS]), *WHO)
    assert (said["marked"], said["there"]) == (1, {"completed": 10})


async def test_a_file_is_another_one_for_another_route_or_another_key(
    file: Path, rows: Rows, tmp_path: Path
) -> None:
    source = listed(tmp_path / "a.csv", IDS)
    await broken_off(rows, source)
    assert (await told("backfill", "--route", "mails", source, *WHO))["marked"] == 10
    id_ = "event_id: json:/event_id"
    rewritten(file, id_, f"{id_}\n    scope: x")
    assert (await told(*ORDERS, source, *WHO))["marked"] == 10


async def test_what_is_piped_or_asked_for_is_read_from_the_start_each_time(
    rows: Rows, database: str
) -> None:
    query = "select 'evt_' || n as id from generate_series(0, 9) n order by random()"
    for _ in range(2):
        ended = await run(*ORDERS, "-", *WHO, "--json", stdin=("id\n" + "\n".join(IDS)).encode())
        assert ended.exit_code == 0
        said = await told(*ORDERS, "--query", query, "--dsn", database, *WHO)
        assert said["there"] == {"completed": 10}
        assert said["rows_before"] == 0
    assert await marked(rows) == set(IDS)


async def test_a_killed_one_goes_on_and_marks_each_event_once(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "BATCH", 1000)
    ids = [f"evt_{n}" for n in range(40_000)]
    source = listed(tmp_path / "a.csv", ids)
    command = (sys.executable, "-m", "gateway", *ORDERS, source, *WHO)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = await asyncio.create_subprocess_exec(*command, env=env)

    async def some() -> bool:
        return bool(await rows.sql.fetchval("select sum(rows) > 0 from dedup.backfills"))

    await eventually(some, within=60, what="a batch")
    process.kill()
    await process.wait()
    done = await rows.sql.fetchval("select rows from dedup.backfills")
    assert 0 < done < 40_000
    assert await rows.sql.fetchval("select count(*) from dedup.claims") == done
    said = await told(*ORDERS, source, *WHO)
    assert (said["rows_before"], said["marked"]) == (done, 40_000 - done)
    assert await rows.sql.fetchval("select count(*) from dedup.claims") == 40_000
    assert await rows.sql.fetchval("select sum(marked) from dedup.backfills") == 40_000


async def test_a_store_that_goes_away_meanwhile_is_told_and_the_rest_is_done_later(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "BATCH", 100)
    source = listed(tmp_path / "a.csv", (f"evt_{n}" for n in range(20_000)))
    going = asyncio.ensure_future(run(*ORDERS, source, *WHO))

    async def some() -> bool:
        return bool(await rows.sql.fetchval("select sum(rows) > 0 from dedup.backfills"))

    await eventually(some, within=60, what="a batch")
    await rows.sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    ended = await going
    assert ended.exit_code == 3, ended.output
    assert "broken off" in ended.stdout
    monkeypatch.setattr(marking, "BATCH", 5000)
    assert (await run(*ORDERS, source, *WHO)).exit_code == 0
    assert len(await marked(rows)) == 20_000
