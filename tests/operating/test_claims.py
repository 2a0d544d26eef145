"""`claims show` and `claims release` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operating.lines import WHO, refused, run, told
from tests.operating.rows import Rows

EVENT = ("evt_1", "--route", "orders")


async def test_the_whole_story_of_an_event_is_told(file: Path, rows: Rows) -> None:
    await rows.entry(state="h", doubtful=True, why="timeout after 30 s", claim="S")
    assert (await run("inbox", "redrive", *EVENT, *WHO)).exit_code == 0
    said = (await run("claims", "show", *EVENT)).stdout
    for part in (
        "event       evt_1",
        "claim       stored, doubtful",
        "entry       pending, doubtful",
        "attempts    3",
        "latest      timeout after 30 s",
        "alice: redrive, attempt 3",
        "(the consumer is back)",
    ):
        assert " ".join(part.split()) in " ".join(said.split())
    story = await told("claims", "show", *EVENT)
    assert (story["event_id"], story["route"]) == ("evt_1", "orders")
    assert (story["claim"]["state"], story["entry"]["state"]) == ("stored", "pending")
    (action,) = story["actions"]
    assert (action["who"], action["action"], action["why"]) == (
        "alice", "redrive", "the consumer is back",
    )  # fmt: skip


async def test_an_event_that_nobody_has_seen_is_exit_code_1_and_its_key_is_named(
    file: Path, rows: Rows
) -> None:
    assert "its key is 39cdcb57b0ee55b2b80bb5b9ee6c58f8" in await refused("claims", "show", *EVENT)
    assert (await told("claims", "show", *EVENT, code=1))["claim"] is None
    assert "nothing is known" in await refused("claims", "release", *EVENT, *WHO, "--yes")


MEANS = [
    ("c", 20.0, "a forward is under way"),
    ("c", -5.0, "its holder never came back: the next delivery takes over, marked"),
    ("r", None, "free: the next delivery is forwarded\n"),
    ("R", None, "free: the next delivery is forwarded, marked"),
    ("s", None, "the inbox owes it"),
    ("D", None, "done: duplicates get 200"),
]


async def test_a_state_is_told_with_what_it_means(file: Path, rows: Rows) -> None:
    for number, (state, lease, means) in enumerate(MEANS):
        await rows.claim(f"evt_{number}", state=state, lease=lease)
        shown = await run("claims", "show", f"evt_{number}", "--route", "orders")
        assert means in shown.stdout


async def test_a_release_names_the_attempt_that_the_next_delivery_will_be(
    file: Path, rows: Rows
) -> None:
    await rows.claim(attempt=2)
    ended = await run("claims", "release", *EVENT, *WHO, "--attempt", "2")
    assert (ended.exit_code, ended.stdout) == (
        0, "released: the next delivery is forwarded, marked, as attempt 3\n",
    )  # fmt: skip
    assert await rows.recorded() == [("alice", "release", "the consumer is back", 2)]
    assert await rows.sql.fetchval("select state from dedup.claims") == b"R"


async def test_a_release_that_nobody_can_agree_to_shows_the_claim_and_does_nothing(
    file: Path, rows: Rows
) -> None:
    await rows.claim(attempt=2)
    said = await refused("claims", "release", *EVENT, *WHO, code=2)
    assert "claim       completed" in said
    assert "write --attempt 2 or --yes" in said
    assert await rows.sql.fetchval("select state from dedup.claims") == b"d"
    done = await told("claims", "release", *EVENT, *WHO, "--yes")
    assert (done["done"], done["event"]["claim"]["state"]) == (1, "released")


REFUSED = [
    ("c", 1, "claimed", "a forward of it is under way"),
    ("s", 1, "stored", "see inbox redrive, drop and complete"),
    ("R", 1, "free", "free already"),
    ("d", 2, "changed", "look again (it is completed now, attempt 1)"),
]


async def test_a_release_that_is_refused_says_why(file: Path, rows: Rows) -> None:
    for number, (state, attempt, why, said) in enumerate(REFUSED):
        await rows.claim(f"evt_{number}", state=state)
        event = (f"evt_{number}", "--route", "orders", "--attempt", str(attempt))
        assert said in await refused("claims", "release", *event, *WHO)
        answer = await run("claims", "release", *event, *WHO, "--json")
        assert (answer.exit_code, f'"refused": "{why}"' in answer.stdout) == (1, True)
    assert await rows.recorded() == []


@pytest.mark.parametrize("missing", ["--by", "--reason"])
async def test_nothing_is_done_by_nobody_or_for_no_reason(
    file: Path, rows: Rows, missing: str
) -> None:
    await rows.entry(claim="s")
    at = WHO.index(missing)
    half = [*WHO[:at], *WHO[at + 2 :]]
    for verb in (["claims", "release"], ["inbox", "drop"]):
        assert f"write {missing}" in await refused(*verb, *EVENT, *half, code=2)
        blank = [*half, missing, " "]
        assert f"write {missing}" in await refused(*verb, *EVENT, *blank, code=2)
    assert await rows.recorded() == []


async def test_a_store_that_is_away_is_exit_code_3_without_its_password(
    file: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@127.0.0.1:1/d")
    for line in (["claims", "show", *EVENT], ["inbox", "list"]):
        said = await refused(*line, code=3)
        assert "connection refused at 127.0.0.1:1" in said
        assert "secret" not in said
