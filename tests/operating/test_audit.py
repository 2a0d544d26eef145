"""`audit` on the command line, against the consumer's effects."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from tests.operating.audited import DAY, Audited
from tests.operating.lines import run
from tests.operating.rows import Rows

TIMES = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    await made.begin()
    return made


@pytest.fixture
async def effects(audited: Audited) -> str:
    """With one of all that can be wrong, and of what is left aside."""
    await audited.claim("evt_1", "evt_2", "evt_lost")
    await audited.claim("evt_3", state="D", attempt=2, ago=2 * DAY)
    await audited.claim("evt_lost_in_doubt", state="D", attempt=3, ago=2 * DAY)
    await audited.claim("evt_open", state="R", ago=2 * DAY)
    await audited.claim("evt_owed", state="s", ago=2 * DAY)
    await audited.claim("evt_young", ago=100)
    await audited.claim("evt_dropped", ago=2 * DAY)
    await audited.act("evt_dropped", "drop")
    return audited.csv(
        ("evt_old", 50 * DAY),
        ("evt_leak", 3 * DAY),
        ("evt_1", DAY),
        ("evt_1", DAY - 3),
        ("evt_3", 2 * DAY),
        ("evt_3", 2 * DAY - 3700),
        ("e\x1bvt_leak", 1.5 * DAY),
        ("evt_owed", 1.5 * DAY),
        ("evt_2", 0.5 * DAY),
        ("", 0.5 * DAY),
    )


SAID = """\
leak: an effect without a claim
  THEN                  line 3                   evt_leak
  THEN                  line 8                   e\\x1bvt_leak

loss: a completed claim without an effect
  THEN                  attempt 3, doubtful      evt_lost_in_doubt
  THEN                  attempt 1                evt_lost

double: an event with two effects
  THEN                  2 in 1h 1m, announced    evt_3
  THEN                  2 in 3s                  evt_1

route       orders, against the effects in effects.csv
window      THEN to THEN, 39d 12h: as far as
            both sides go
list        9 rows of 7 events
            from THEN to THEN
            1 more row cannot be used: line 11: json:/event_id has no value that
            is an id
claims      8 that orders took within the window

leak        2 events have an effect and no claim
loss        2 completed claims have no effect
marked      none
double      2 events have two effects or more, 1 of them announced

aside       1 event without a claim, older than the memory, which begins
            THEN
            1 event with an effect, and a claim that is not completed: it is
            forwarded once more
            1 claim undecided: open, or owed by the inbox
            1 claim of events that an operator dropped
            1 claim made after the window: write --until if the list goes
            further than its last row

so          leak: these events reached the consumer on another way, or as
            deliveries without a claim: unkeyed, bypassed, or refused by the
            consumer and done all the same. Or the memory has lost them.
            loss: the consumer said success and has no effect. dedup-gateway
            claims show tells of each; claims release lets the provider send it
            again. Where the consumer does nothing about some kinds of events,
            these are among them: --partial leaves them out.
            double: forwards of the announced ones were marked, since an earlier
            attempt may have had its effect. Of the others no claim says why:
            the gateway forwarded every copy while the route was in observe, or
            a batch was sent whole once more, marked; or they came on another
            way, or the list has two rows for one effect.
"""


async def test_what_is_wrong_is_told_by_kind_and_what_is_left_aside_is_counted(
    audited: Audited, effects: str
) -> None:
    ended = await run("audit", "--route", "orders", "--effects", Path(effects).name)
    assert ended.exit_code == 1
    assert TIMES.sub("THEN", ended.stdout).replace("THEN  ", f"{'THEN':<20}  ") == SAID
    assert all(len(line) <= 80 for line in ended.stdout.splitlines())


async def test_json_has_each_finding_with_id_key_times_and_claim(
    audited: Audited, effects: str
) -> None:
    said = await audited.audit("--effects", effects)
    assert said["found"] == {"leak": 2, "loss": 2, "marked": 0, "double": 2}
    assert said["announced"] == 1
    assert said["list"] == {"forgotten": 1, "matched": 3, "unfinished": 1}
    assert said["claims_not_listed"] == {"after": 1, "before": 0, "dropped": 1, "undecided": 1}
    assert (said["rows"], said["unusable"], said["claims"]) == (10, 1, 8)
    assert (said["since"], said["until"]) == (said["memory_begins"], audited.at(0.5 * DAY))
    double = next(one for one in said["findings"] if one["event_id"] == "evt_3")
    assert double == {
        "kind": "double",
        "event_id": "evt_3",
        "key": double["key"],
        "first": audited.at(2 * DAY),
        "last": audited.at(2 * DAY - 3700),
        "number": 2,
        "line": 6,
        "claim": "completed",
        "doubtful": True,
        "attempt": 2,
        "action": None,
        "route": "orders",
    }


async def test_csv_is_of_the_findings_alone_and_the_summary_goes_elsewhere(
    audited: Audited, effects: str
) -> None:
    ended = await run("audit", "--route", "orders", "--effects", effects, "--csv")
    assert ended.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(ended.stdout)))
    assert [(row["kind"], row["event_id"], row["line"], row["doubtful"]) for row in rows] == [
        ("leak", "evt_leak", "3", ""),
        ("leak", "e\\x1bvt_leak", "8", ""),
        ("loss", "evt_lost_in_doubt", "", "true"),
        ("loss", "evt_lost", "", "false"),
        ("double", "evt_3", "6", "true"),
        ("double", "evt_1", "4", "false"),
    ]
    assert "2 events have an effect and no claim" in ended.stderr


async def test_of_doubles_that_no_claim_is_doubtful_of_nobody_knows_whether_they_were_announced(
    audited: Audited,
) -> None:
    await audited.claim("evt_1", ago=2 * DAY)
    effects = audited.csv(("evt_1", 2 * DAY), ("evt_1", DAY))
    ended = await run("audit", "--route", "orders", "--effects", effects)
    assert "double      1 event has two effects or more\n" in ended.stdout
    assert "a batch was sent whole once more, marked" in " ".join(ended.stdout.split())


async def test_where_both_sides_agree_the_exit_code_is_zero(audited: Audited) -> None:
    await audited.claim("evt_1", "evt_2")
    effects = audited.csv(("evt_0", 50 * DAY), ("evt_1", DAY), ("evt_2", DAY))
    said = await audited.audit("--effects", effects, code=0)
    assert said["findings"] == []
    ended = await run("audit", "--route", "orders", "--effects", effects)
    assert ended.exit_code == 0
    assert "Effects and claims agree, as far as they can be compared." in ended.stdout


async def test_a_sample_is_the_same_for_one_seed_and_another_one_for_another(
    audited: Audited,
) -> None:
    await audited.claim(*(f"evt_{number}" for number in range(40)))
    leaks = ((f"leak_{number}", DAY) for number in range(60))
    effects = audited.csv(("first", 3 * DAY), *leaks, ("last", 0.5 * DAY))
    whole = await audited.audit("--effects", effects)
    drawn = await audited.audit("--effects", effects, "--sample", "5")
    seed = str(drawn["seed"])
    again = await audited.audit("--effects", effects, "--sample", "5", "--seed", seed)
    assert again["findings"] == drawn["findings"]
    assert drawn["found"] == whole["found"] == {"leak": 62, "loss": 40, "marked": 0, "double": 0}
    assert {kind: len(ids) for kind, ids in drawn["by_kind"].items()} == {"leak": 5, "loss": 5}
    assert all(one in whole["findings"] for one in drawn["findings"])
    others = [
        (await audited.audit("--effects", effects, "--sample", "5", "--seed", other))["by_kind"]
        for other in ("1", "2", "3")
    ]
    assert any(other != drawn["by_kind"] for other in others)
    said = await run("audit", "--route", "orders", "--effects", effects, "--sample", "5")
    assert "40 completed claims have no effect; 5 shown" in said.stdout
    assert re.search(r"--sample 5 --seed \d+ shows the same ones again", said.stdout)


async def test_a_partial_list_says_nothing_of_claims_that_it_lacks(audited: Audited) -> None:
    await audited.claim("evt_1", "evt_of_another_kind")
    effects = audited.csv(("evt_1", 2 * DAY), ("evt_1", DAY), ("evt_2", 0.5 * DAY))
    said = await audited.audit("--effects", effects, "--partial")
    assert said["by_kind"] == {"leak": ["evt_2"], "double": ["evt_1"]}
    ended = await run("audit", "--route", "orders", "--effects", effects, "--partial")
    assert "loss        not looked for: the list is partial" in ended.stdout


async def test_an_audit_changes_nothing(audited: Audited, effects: str) -> None:
    async def everything() -> list[object]:
        tables = ("claims", "entries", "actions", "routes", "canaries", "purges")
        return [
            await audited.sql.fetch(f"select t.*, xmin from dedup.{one} t order by 1, 2")
            for one in tables
        ]

    before = await everything()
    await audited.audit("--effects", effects)
    assert await everything() == before
    left = "select count(*) from pg_class where relname like 'audit%'"
    assert await audited.sql.fetchval(left) == 0
