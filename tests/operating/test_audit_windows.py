"""Which events and claims an audit judges, and which it leaves aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operating.audited import DAY, Audited
from tests.operating.lines import WHO, refused, run
from tests.operating.rows import Rows

MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    await made.begin()
    return made


async def test_a_consumer_that_stopped_working_is_seen_once_somebody_says_how_far_its_list_goes(
    audited: Audited,
) -> None:
    await audited.claim("evt_1", ago=3 * DAY)
    await audited.claim("evt_2", "evt_3", ago=DAY)
    effects = audited.csv(("evt_0", 5 * DAY), ("evt_1", 3 * DAY - 1))
    by_itself = await audited.audit("--effects", effects)
    assert by_itself["by_kind"] == {"leak": ["evt_0"]}
    assert by_itself["claims_not_listed"] == {"after": 2, "before": 0}
    said = await run("audit", "--route", "orders", "--effects", effects)
    assert "2 claims made after the window: write --until if the list goes" in said.stdout
    for until in ("1h", audited.at(HOUR), str(audited.now - HOUR)):
        told = await audited.audit("--effects", effects, "--until", until)
        assert told["by_kind"]["loss"] == ["evt_2", "evt_3"]


async def test_a_query_goes_up_to_now_and_leaves_the_last_minutes_undecided(
    audited: Audited, database: str
) -> None:
    await audited.claim("evt_lost", ago=10 * MINUTE)
    await audited.claim("evt_young", ago=4 * MINUTE)
    await audited.sql.execute(
        "create table public.handled as select 'evt_' || n as id,"
        " now() - n * interval '1 day' as time from generate_series(1, 3) as n"
    )
    query = ("--query", "select id, time from public.handled order by 1", "--dsn", database)
    said = await audited.audit(*query)
    assert said["by_kind"] == {"leak": ["evt_3", "evt_2", "evt_1"], "loss": ["evt_lost"]}
    assert [one["line"] for one in said["findings"]] == [3, 2, 1, None]
    assert said["claims_not_listed"]["edge"] == 1
    assert said["source"] == "a query"
    assert "row 3" in (await run("audit", "--route", "orders", *query)).stdout


async def test_what_is_older_than_the_memory_is_no_leak(audited: Audited) -> None:
    effects = audited.csv(*((f"evt_{days}", days * DAY) for days in range(1, 50, 2)))
    for born, retention, cut_off, newest in [
        (40, "null", None, 39),
        (40, 30 * DAY, None, 29),
        (20, 30 * DAY, None, 19),
        (40, 30 * DAY, 10, 9),
    ]:
        since = f"now() - interval '{born} days' - interval '1 minute'"
        await audited.remember(born=since, since=since, retention=str(retention))
        if cut_off is not None:
            await audited.sql.execute(
                "insert into dedup.purges (began, route, cut_off, purged, unresolved, who)"
                " values (now(), 1, now() - $1 * interval '1 day', 7, 0, 'a test')",
                cut_off,
            )
        said = await audited.audit("--effects", effects)
        assert max(int(one.removeprefix("evt_")) for one in said["by_kind"]["leak"]) == newest
        assert said["list"] == {"forgotten": 25 - len(said["by_kind"]["leak"])}


async def test_ids_that_were_marked_before_the_route_was_there_extend_its_memory(
    audited: Audited,
) -> None:
    await audited.remember(born="now()", since="now()")
    await audited.claim("evt_1", ago=20 * DAY)
    effects = audited.csv(("evt_1", 20 * DAY), ("evt_2", 19 * DAY), ("evt_3", 21 * DAY))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"leak": ["evt_2"]}
    assert said["list"] == {"forgotten": 1, "matched": 1}


async def test_what_came_under_an_earlier_key_is_no_leak(audited: Audited) -> None:
    await audited.claim("evt_of_the_old_key", ago=30 * DAY)
    await audited.remember(since="now() - interval '10 days'")
    effects = audited.csv(("evt_1", 11 * DAY), ("evt_2", 9 * DAY))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"leak": ["evt_2"]}


async def test_another_key_than_the_one_on_record_is_told(audited: Audited) -> None:
    await audited.remember(recipe="'another'")
    effects = audited.csv(("evt_1", 2 * DAY))
    assert not (await audited.audit("--effects", effects))["key_on_record"]
    said = await run("audit", "--route", "orders", "--effects", effects)
    assert "The store has another key of this route on record" in said.stdout


async def test_ids_of_another_kind_are_named_as_the_likely_mistake(audited: Audited) -> None:
    await audited.claim("evt_1", "evt_2")
    effects = audited.csv(("order-1", 2 * DAY), ("order-2", HOUR))
    said = await run("audit", "--route", "orders", "--effects", effects)
    assert "perhaps its ids are not those that the route reads" in " ".join(said.stdout.split())


async def test_a_row_without_a_time_is_judged_once_since_says_that_the_list_is_whole(
    audited: Audited,
) -> None:
    await audited.claim("evt_1", "evt_lost")
    effects = audited.csv(("evt_1", None), ("evt_2", None), ("evt_2", None))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"loss": ["evt_lost"], "double": ["evt_2"]}
    assert said["list"] == {"matched": 1, "undated": 1}
    asserted = await audited.audit("--effects", effects, "--since", "10d")
    assert asserted["by_kind"] == {"leak": ["evt_2"], "loss": ["evt_lost"], "double": ["evt_2"]}
    text = await run("audit", "--route", "orders", "--effects", effects, "--since", "10d")
    assert "\n  no time               line 3                   evt_2\n" in text.stdout


async def test_a_query_that_finds_no_rows_is_a_loss_of_everything(
    audited: Audited, database: str
) -> None:
    await audited.claim("evt_1", ago=2 * DAY)
    query = ("--query", "select '' as id where false", "--dsn", database)
    said = await audited.audit(*query)
    assert said["by_kind"] == {"loss": ["evt_1"]}
    assert said["rows"] == 0


async def test_claims_that_ended_near_the_end_of_the_list_may_have_an_effect_beyond_it(
    audited: Audited,
) -> None:
    until = 10 * DAY
    await audited.claim("evt_first_attempt", ago=until + HOUR)
    await audited.claim("evt_later_attempt", ago=until + HOUR, attempt=2)
    await audited.claim("evt_long_ago", ago=until + 2 * HOUR, attempt=2)
    await audited.claim("evt_from_the_inbox", ago=until + HOUR)
    await audited.entry("evt_from_the_inbox", state="d", settled_ago=until - MINUTE)
    effects = audited.csv(("evt_0", 20 * DAY), ("evt_0", until))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"]["loss"] == ["evt_long_ago", "evt_first_attempt"]
    assert said["claims_not_listed"]["edge"] == 2


async def test_what_an_operator_dropped_is_no_loss_and_what_one_completed_is_one(
    audited: Audited,
) -> None:
    await audited.claim("evt_dropped", "evt_completed", "evt_dropped_and_released", ago=3 * DAY)
    await audited.act("evt_dropped", "drop")
    await audited.act("evt_completed", "complete")
    await audited.act("evt_dropped_and_released", "drop")
    await audited.act("evt_dropped_and_released", "release")
    effects = audited.csv(("evt_0", 4 * DAY), ("evt_1", DAY))
    said = await audited.audit("--effects", effects)
    assert sorted(said["by_kind"]["loss"]) == ["evt_completed", "evt_dropped_and_released"]
    assert said["claims_not_listed"]["dropped"] == 1
    text = await run("audit", "--route", "orders", "--effects", effects)
    assert "  completed by hand        evt_completed\n" in text.stdout


async def test_what_a_backfill_marked_and_the_list_lacks_is_told_as_such(
    audited: Audited,
) -> None:
    marked = audited.csv(("evt_1", 3 * DAY), ("evt_2", 3 * DAY), name="marked.csv")
    done = await run("backfill", "--route", "orders", marked, *WHO)
    assert done.exit_code == 0, done.output
    effects = audited.csv(("evt_0", 4 * DAY), ("evt_1", 3 * DAY), ("evt_0", DAY))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"leak": ["evt_0"], "marked": ["evt_2"], "double": ["evt_0"]}
    assert [one["action"] for one in said["findings"]] == [None, "backfill", None]
    text = await run("audit", "--route", "orders", "--effects", effects)
    assert "  marked by a backfill     evt_2\n" in text.stdout
    assert "marked      1 claim of a backfill has no effect\n" in text.stdout
    assert "claims release" not in text.stdout
    partial = await run("audit", "--route", "orders", "--effects", effects, "--partial")
    assert "marked      not looked for: the list is partial\n" in partial.stdout


async def test_canaries_are_no_events(audited: Audited) -> None:
    await audited.claim("evt_1", ago=2 * DAY)
    await audited.claim("canary", ago=2 * DAY, key=bytes(16))
    await audited.sql.execute(
        "insert into dedup.canaries (route, planted, key)"
        " select route, first_seen, key from dedup.claims where event_id = 'canary'"
    )
    said = await audited.audit("--effects", audited.csv(("evt_1", 3 * DAY), ("evt_1", DAY)))
    assert said["found"] == {"leak": 0, "loss": 0, "marked": 0, "double": 1}
    assert said["claims"] == 1


async def test_a_list_that_ends_before_the_memory_begins_agrees_with_nothing(
    audited: Audited,
) -> None:
    words = ("audit", "--route", "orders", "--effects", audited.csv(("evt_1", 50 * DAY)))
    assert "nothing is of the window, which would begin" in await refused(*words, code=2)
    reversed_ = (*words, "--since", "1d", "--until", "2d")
    assert "nothing is of the window" in await refused(*reversed_, code=2)


@pytest.mark.parametrize("option", ["--since", "--until"])
async def test_a_time_without_a_zone_is_refused(audited: Audited, option: str) -> None:
    effects = audited.csv(("evt_1", DAY))
    words = ("audit", "--route", "orders", "--effects", effects, option, "2026-11-01")
    assert "is no time; write 2026-11-01T00:00:00Z" in await refused(*words, code=2)
