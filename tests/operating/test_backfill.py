"""`backfill`: rows become claims, once, and what they cannot become is said."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.operating import marking
from gateway.store.operator import Desk
from tests.operating.lines import WHO, refused, run, told
from tests.operating.marked import listed, rewritten, serve
from tests.operating.rows import Rows, key_of, known

pytestmark = pytest.mark.usefixtures("file", "at")
ORDERS = ("backfill", "--route", "orders")


@pytest.fixture(autouse=True)
async def served(file: Path, rows: Rows) -> None:
    """By gateways with this configuration."""
    await serve(file, rows)


@pytest.fixture
def ten(tmp_path: Path) -> str:
    """evt_0 to evt_9, processed an hour ago."""
    return listed(tmp_path / "ten.csv", (f"evt_{n}" for n in range(10)))


async def count(rows: Rows) -> int:
    found = await rows.sql.fetchval("select count(*) from dedup.claims")
    assert isinstance(found, int)
    return found


async def test_rows_of_a_file_become_claims_with_their_times(
    ten: str, at: Desk, rows: Rows
) -> None:
    ended = await run(*ORDERS, ten, *WHO)
    assert (ended.exit_code, ended.stdout) == (0, "marked      10 events\n")
    found = await known(at, key_of("evt_3"))
    assert found.claim is not None
    assert found.event_id == "evt_3"
    assert found.claim.state == "completed"
    assert found.now - found.claim.first_seen == pytest.approx(3600, abs=60)
    assert await count(rows) == 10


async def test_who_did_it_and_why_is_recorded(ten: str, rows: Rows) -> None:
    await run(*ORDERS, ten, *WHO)
    (record,) = await rows.sql.fetch("select * from dedup.backfills")
    assert (record["who"], record["why"]) == ("alice", "the consumer is back")
    assert (record["rows"], record["marked"]) == (10, 10)
    assert record["ended"] is not None
    said = await refused(*ORDERS, ten, "--from-start", code=2)
    assert "--by NAME" in said


async def test_what_has_a_claim_is_told_by_its_state(ten: str, rows: Rows) -> None:
    await rows.claim("evt_1", state="c")
    await rows.claim("evt_2", state="R")
    await rows.claim("evt_3", state="d")
    await rows.claim("evt_4", state="D")
    before = await rows.sql.fetch("select * from dedup.claims order by key")
    said = await told(*ORDERS, ten, *WHO)
    assert said["marked"] == 6
    assert said["there"] == {"claimed": 1, "released": 1, "completed": 2}
    keys = [row["key"] for row in before]
    after = "select * from dedup.claims where key = any ($1) order by key"
    assert await rows.sql.fetch(after, keys) == before


async def test_a_dry_run_counts_the_same_and_writes_nothing(ten: str, rows: Rows) -> None:
    await rows.claim("evt_1", state="s")
    counted = await told(*ORDERS, ten, "--dry-run")
    assert await count(rows) == 1
    assert not await rows.sql.fetchval("select count(*) from dedup.backfills")
    done = await told(*ORDERS, ten, *WHO)
    assert {**done, "dry_run": True} == counted


async def test_a_dry_run_of_a_route_that_nobody_served_registers_nothing(
    tmp_path: Path, rows: Rows
) -> None:
    file = listed(tmp_path / "a.csv", [1])
    said = await told("backfill", "--route", "mails", file, "--dry-run")
    assert said["marked"] == 1
    assert await rows.sql.fetchval("select count(*) from dedup.routes") == 2


@pytest.mark.parametrize("batch", [1, 3, 2000])
async def test_an_event_that_comes_again_counts_once_wherever_it_is(
    batch: int, tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "BATCH", batch)
    await rows.claim("there", state="d")
    file = listed(tmp_path / "a.csv", ["new", "there", "new", "other", "there", "new"])
    for words in (("--dry-run",), WHO):
        said = await told(*ORDERS, file, *words)
        assert (said["marked"], said["there"], said["repeated"]) == (2, {"completed": 1}, 3)


async def test_of_an_event_that_comes_again_the_first_time_counts(tmp_path: Path, at: Desk) -> None:
    now = int(time.time())
    file = tmp_path / "a.jsonl"
    times = [now - 50, now - 90, now - 70]
    file.write_text("".join(json.dumps({"id": "evt", "time": one}) + "\n" for one in times))
    await run(*ORDERS, str(file), *WHO)
    claim = (await known(at, key_of("evt"))).claim
    assert claim is not None
    assert claim.first_seen == now - 90


async def test_rows_that_cannot_be_used_are_named_and_the_others_are_marked(
    tmp_path: Path, rows: Rows
) -> None:
    file = tmp_path / "a.csv"
    old = datetime.fromtimestamp(time.time() - 61 * 86400, UTC).isoformat()
    late = datetime.fromtimestamp(time.time() + 3600, UTC).isoformat()
    lines = ["id,time", "good,", f"old,{old}", f"late,{late}", "naive,2026-08-25 09:30", ",", "x"]
    file.write_text("\n".join(lines))
    ended = await run(*ORDERS, str(file), *WHO)
    assert ended.exit_code == 1
    assert ended.stdout.splitlines() == [
        "marked      1 event",
        "no time     1 row, kept from now on",
        "too old     1 row: claims are kept for 60d",
        "unusable    4 rows",
        "            line 4: its time is in the future",
        "            line 5: time '2026-08-25 09:30' is no certain time; write it as",
        "            2026-08-25T09:30:00Z, with an offset, or as epoch seconds",
        "            line 6: json:/event_id has no value that is an id",
        "            and 1 more; --json names the first 1,000",
    ]
    assert await count(rows) == 1


async def test_a_clock_that_is_ahead_by_seconds_is_no_future(tmp_path: Path, at: Desk) -> None:
    await run(*ORDERS, listed(tmp_path / "a.csv", ["evt"], ago=-30), *WHO)
    found = await known(at, key_of("evt"))
    assert found.claim is not None
    assert found.claim.first_seen <= found.now


async def test_a_file_without_the_column_is_a_mistake_and_nothing_is_done(
    tmp_path: Path, rows: Rows
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("event_id,time\nevt,\n")
    said = await refused(*ORDERS, str(file), *WHO, code=2)
    assert said == (
        "line 2: json:/event_id is in no column; write a column 'json:/event_id' or 'id'\n"
    )
    assert await count(rows) == 0


async def test_a_file_goes_to_standard_input_too(rows: Rows) -> None:
    ended = await run(*ORDERS, "-", *WHO, stdin=b'{"id":"evt_1"}\n{"id":2}\n')
    assert ended.exit_code == 0, ended.output
    keys = [UUID(key_of("evt_1")), UUID(key_of("2"))]
    asked = "select count(*) from dedup.claims where key = any ($1)"
    assert await rows.sql.fetchval(asked, keys) == 2


async def test_a_query_asks_the_consumers_own_database(database: str, rows: Rows) -> None:
    await rows.sql.execute("create table public.shipped (no int8, at timestamptz)")
    await rows.sql.execute(
        "insert into public.shipped"
        " select n, now() - n * interval '1 minute' from generate_series(1, 5000) n"
    )
    query = ("--query", "select no as id, at as time from public.shipped", "--dsn", database)
    assert (await told(*ORDERS, *query, "--dry-run"))["marked"] == 5000
    assert (await told(*ORDERS, *query, *WHO))["marked"] == 5000
    again = await told(*ORDERS, *query, *WHO)
    assert (again["marked"], again["there"], again["rows"]) == (0, {"completed": 5000}, 5000)
    age = await rows.sql.fetchval(
        "select extract(epoch from now())::int4 - first_seen from dedup.claims where key = $1",
        UUID(key_of("60")),
    )
    assert age == pytest.approx(3600, abs=60)


async def test_a_database_that_is_not_there_is_away(rows: Rows) -> None:
    query = ("--query", "select 1 as id", "--dsn", "postgresql://nobody@127.0.0.1:1/nothing")
    said = await refused(*ORDERS, *query, *WHO, code=3)
    assert "the database of --dsn cannot be asked" in said


async def test_keys_are_made_as_each_route_makes_them(tmp_path: Path, at: Desk) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"form:txn_id":"t1","form:status":"paid"}\n{"form:txn_id":7,"form:status":"paid"}\n'
    )
    assert (await told("backfill", "--route", "payments", str(file), *WHO))["marked"] == 2
    shown = await told("claims", "show", "t1,v1,paid", "--route", "payments")
    assert shown["claim"]["state"] == "completed"
    assert shown["event_id"] == "t1,v1,paid"


async def test_the_story_of_an_event_says_that_it_was_marked(ten: str) -> None:
    await run(*ORDERS, ten, *WHO)
    shown = (await run("claims", "show", "evt_1", "--route", "orders")).stdout
    assert "marked as processed by a backfill: duplicates get 200" in shown
    assert "attempt" not in shown
    assert (await told("claims", "show", "evt_1", "--route", "orders"))["claim"]["backfilled"]


async def test_the_story_says_which_backfill_it_was_by_whom_and_why(
    ten: str, tmp_path: Path, rows: Rows
) -> None:
    await rows.sql.execute("alter table dedup.backfills alter id restart with 254")
    for number in range(4):
        one = listed(tmp_path / f"{number}.csv", [f"evt_{number}"])
        await run(*ORDERS, one, "--by", f"bob {number}", "--reason", f"list {number}")
    await run(*ORDERS, ten, *WHO)
    by = [f"bob {number}" for number in range(4)] + ["alice"] * 6
    for number, who in enumerate(by):
        shown = await told("claims", "show", f"evt_{number}", "--route", "orders")
        (action,) = shown["actions"]
        assert (action["who"], action["action"], action["attempt"]) == (who, "backfill", None)
        assert action["why"] == (f"list {number}" if number < 4 else "the consumer is back")
    text = (await run("claims", "show", "evt_2", "--route", "orders")).stdout
    assert " bob 2: backfill (list 2)\n" in text


async def test_the_story_of_an_event_that_came_first_has_no_backfill(ten: str, rows: Rows) -> None:
    await rows.claim("evt_1", state="d")
    await rows.claim("evt_2", state="R")
    await run(*ORDERS, ten, *WHO)
    for one in ("evt_1", "evt_2"):
        assert (await told("claims", "show", one, "--route", "orders"))["actions"] == []


async def test_a_marked_event_is_let_through_like_any_other_that_is_completed(ten: str) -> None:
    await run(*ORDERS, ten, *WHO)
    await run("claims", "release", "evt_1", "--route", "orders", *WHO, "--yes")
    shown = (await told("claims", "show", "evt_1", "--route", "orders"))["claim"]
    assert (shown["state"], shown["doubtful"], shown["backfilled"]) == ("released", True, False)


async def test_what_came_out_of_a_variable_is_not_shown(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT", "sesame")
    rewritten(file, "event_id: json:/event_id", 'event_id: "json:/${SALT}/id"')
    source = tmp_path / "a.jsonl"
    for lines in ('{"x":1}\n', '{"id":7}\n{"x":1}\n', '{"id":""}\n'):
        rewritten(source, None, lines)
        ended = await run(*ORDERS, str(source), *WHO)
        assert ended.exit_code in (1, 2)
        assert "json:/${SALT}/id" in ended.output
        assert "sesame" not in ended.output


async def test_a_route_that_is_not_there_is_told() -> None:
    assert "no route is called 'nope'" in await refused("backfill", "--route", "nope", "-", code=2)


async def test_another_recipe_than_the_store_knows_is_told(ten: str, rows: Rows) -> None:
    await rows.sql.execute("update dedup.routes set recipe = ''")
    ended = await run(*ORDERS, ten, *WHO)
    assert "made its keys in another way when it was served last" in ended.stderr
