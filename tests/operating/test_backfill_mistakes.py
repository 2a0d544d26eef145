"""Lists that would make marks that no delivery meets: what `backfill` says of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.operating import marking
from gateway.store.operator import Desk
from tests.operating.lines import WHO, run, told
from tests.operating.marked import listed, rewritten, serve
from tests.operating.rows import Rows, key_of, known

pytestmark = pytest.mark.usefixtures("file", "at")
ORDERS = ("backfill", "--route", "orders")
HOUR_AGO = f"{time.time() - 3600:.0f}"
HEADERS = """\
  - name: headers
    path: /hooks/headers
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: header:X-Id
"""
PRESETS = """\
  - name: payments-of-stripe
    path: /hooks/stripe
    upstream: {url: "http://127.0.0.1:3000"}
    provider: stripe
  - name: mails-of-sendgrid
    path: /hooks/sendgrid
    upstream: {url: "http://127.0.0.1:3000"}
    provider: sendgrid
"""


@pytest.fixture(autouse=True)
async def served(file: Path, rows: Rows) -> None:
    """By gateways with this configuration."""
    await serve(file, rows)


async def marked(rows: Rows) -> list[str]:
    found = await rows.sql.fetch("select event_id from dedup.claims where event_id <> 'canary'")
    return [row["event_id"] for row in found]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (" evt_1", "begins or ends with a blank"),
        ("evt_1 ", "begins or ends with a blank"),
        ("evt_1\u00a0", "begins or ends with a blank"),
        ('"evt_1\nevt_2"', "holds a line break: close its quotes"),
        ('"evt_1\n"', "begins or ends with a blank"),
    ],
)
async def test_white_space_about_an_id_of_a_csv_makes_no_mark(
    cell: str, said: str, tmp_path: Path, rows: Rows
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"id,time\n{cell},{HOUR_AGO}\ngood, {HOUR_AGO} \n")
    found = await told(*ORDERS, str(file), *WHO, code=1)
    (unused,) = found["unusable_rows"]
    assert unused["number"] == 2
    assert said in unused["why"]
    assert "or write NDJSON, which is read as it is" in unused["why"]
    assert await marked(rows) == ["good"]


async def test_white_space_about_an_id_of_ndjson_is_of_the_id(tmp_path: Path, at: Desk) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id":" evt\\n1 "}\n')
    assert (await told(*ORDERS, str(file), *WHO))["marked"] == 1
    assert (await known(at, key_of(" evt\n1 "))).claim is not None


async def test_what_a_column_of_fixed_width_is_filled_up_with_makes_no_mark(
    database: str, rows: Rows
) -> None:
    query = ("--query", "select 'evt_1'::char(20) as id", "--dsn", database)
    assert (await told(*ORDERS, *query, *WHO, code=1))["unusable"] == 1
    assert await marked(rows) == []


async def test_blanks_at_the_ends_of_a_header_are_none_of_it_and_line_breaks_are_in_none(
    file: Path, tmp_path: Path, rows: Rows
) -> None:
    rewritten(file, "routes:\n", "routes:\n" + HEADERS)
    (tmp_path / "a.csv").write_text("id\n evt_1\t\n")
    words = ("backfill", "--route", "headers")
    assert (await told(*words, str(tmp_path / "a.csv"), *WHO))["marked"] == 1
    (tmp_path / "a.jsonl").write_text('{"id":"evt_1\\nevt_2"}\n')
    (unused,) = (await told(*words, str(tmp_path / "a.jsonl"), *WHO, code=1))["unusable_rows"]
    assert unused["why"] == "header:X-Id holds a line break, as no header does"
    assert await marked(rows) == ["evt_1"]


async def test_ids_and_times_suffice_for_a_preset_that_reads_an_account_besides(
    file: Path, tmp_path: Path
) -> None:
    rewritten(file, "routes:\n", "routes:\n" + PRESETS)
    source = listed(tmp_path / "a.csv", ["evt_1"])
    ended = await run("backfill", "--route", "payments-of-stripe", source, *WHO)
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.splitlines() == [
        "marked      1 event",
        "assumed     deliveries have no json:/account, as there is no such column: where",
        "            they have it, no delivery meets these keys",
    ]
    said = await told("backfill", "--route", "payments-of-stripe", source, "--dry-run")
    assert said["assumed_absent"] == ["json:/account"]
    assert said["there"] == {"completed": 1}
    said = await told("backfill", "--route", "mails-of-sendgrid", source, *WHO)
    assert (said["marked"], said["assumed_absent"]) == (1, [])


async def test_all_rows_that_cannot_be_used_are_named_to_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "BATCH", 7)
    file = tmp_path / "a.csv"
    file.write_text("id,time\n" + "".join(f"{n % 2 or ''},\n" for n in range(40)))
    said = await told(*ORDERS, str(file), *WHO, code=1)
    assert said["unusable"] == 20
    assert [one["number"] for one in said["unusable_rows"]] == list(range(2, 42, 2))
    monkeypatch.setattr(marking, "MOST_NAMED", 11)
    said = await told(*ORDERS, str(file), *WHO, code=1)
    assert (said["unusable"], len(said["unusable_rows"])) == (20, 11)


async def test_rows_that_are_all_too_old_are_no_success(tmp_path: Path, rows: Rows) -> None:
    source = listed(tmp_path / "a.csv", ["evt_1", "evt_2"], ago=61 * 86400)
    for words in (("--dry-run",), WHO):
        ended = await run(*ORDERS, source, *words)
        assert ended.exit_code == 1
        assert "too old     all of them, 2 rows: claims are kept for 60d" in ended.stdout
    with (tmp_path / "a.csv").open("a") as file:
        file.write(f"young,{HOUR_AGO}\n")
    ended = await run(*ORDERS, source, *WHO)
    assert (ended.exit_code, await marked(rows)) == (0, ["young"])
    assert "too old     2 rows" in ended.stdout
