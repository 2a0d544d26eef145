"""Entries of batches in an operator's hands: found by any of their events, and ended for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core import operating
from gateway.core.inbox import EntryState
from gateway.core.operating import Action, Refusal
from gateway.operating.refused import why_not, why_released_not
from gateway.store.operator import By, Desk, Seen
from tests.operating.lines import WHO, refused, run, told
from tests.operating.rows import Rows, key_of, known

BY = By("alice", "the consumer is back")
EVENT = ("b", "--route", "orders")
CLAIM_STATES = ["c", "r", "R", "s", "S", "d", "D"]


async def test_an_event_finds_the_entry_of_its_batch_and_the_batch_what_it_stands_for(
    at: Desk, rows: Rows
) -> None:
    entry = await rows.batch("a", "b", claims="sd")
    await rows.entry("lone", claim="s")
    by_item, by_batch, lone = await at.known([key_of("b"), entry, key_of("lone")])
    for found in (by_item, by_batch):
        assert (found.entry_key, found.items, found.completed) == (entry, 2, 1)
        assert found.entry is not None
        assert found.entry.state is EntryState.DEAD
        assert not found.is_over
    assert (by_item.claim is None, by_batch.claim is None) == (False, True)
    assert (by_item.item_id, by_batch.item_id) == ("b", None)
    assert (lone.entry_key, lone.items) == (key_of("lone"), 0)
    assert [(item.event_id, item.state) for item in await at.items(entry)] == [
        ("a", "stored"), ("b", "completed"),
    ]  # fmt: skip


async def test_what_is_undelivered_of_two_entries_of_an_event_is_shown_first(
    at: Desk, rows: Rows
) -> None:
    await rows.entry("a", state="d", claim=None)
    batch = await rows.batch("a", "b", age=600)
    assert (await known(at, key_of("a"))).entry_key == batch


@pytest.mark.parametrize(
    ("action", "as_"), [(Action.DROP, EntryState.DROPPED), (Action.COMPLETE, EntryState.DELIVERED)]
)
async def test_ending_a_batch_does_to_the_claim_of_each_item_what_the_rules_say(
    at: Desk, rows: Rows, action: Action, as_: EntryState
) -> None:
    for number, doubtful in enumerate((False, True)):
        items = [f"{number} {state}" for state in CLAIM_STATES]
        entry = await rows.batch(*items, claims="".join(CLAIM_STATES), doubtful=doubtful)
        gone = await rows.batch(f"{number} gone", doubtful=doubtful)
        await rows.sql.execute("delete from dedup.claims where event_id = $1", f"{number} gone")
        keys = [key_of(item) for item in (*items, f"{number} gone")]
        before = await at.known(keys)
        seen = [Seen(key, EntryState.DEAD, 3) for key in (entry, gone)]
        assert await at.act(action, seen, BY) == {entry, gone}
        for was, now in zip(before, await at.known(keys), strict=True):
            expected = operating.close(was.claim, was.entry, as_=as_, fingerprint=8, now=now.now)
            assert not isinstance(expected, Refusal)
            claim, closed = expected
            assert now.entry == closed
            assert now.claim is not None
            assert (now.claim.state, now.claim.doubtful, now.claim.attempt) == (
                claim.state, claim.doubtful, claim.attempt,
            )  # fmt: skip
            assert now.claim.fingerprint == claim.fingerprint
    assert len(await rows.recorded()) == 4


@pytest.mark.parametrize("claims", ["d", "sd", "ds", "rD"])
async def test_a_batch_is_sent_once_more_unless_all_of_it_is_completed(
    claims: str, at: Desk, rows: Rows
) -> None:
    entry = await rows.batch("a", "b", claims=claims)
    before = await known(at, entry)
    done = await at.act(Action.REDRIVE, [Seen(entry, EntryState.DEAD, 3)], BY)
    expected = operating.redrive(before.entry, before.now, over=before.is_over)
    assert bool(done) is not isinstance(expected, Refusal)
    assert before.is_over is (claims == "d")
    if not done:
        for key in (entry, key_of("a")):
            assert why_not(Action.REDRIVE, await known(at, key)) is Refusal.COMPLETED
        return
    (leased,) = await rows.lease(11)
    assert leased["key"].bytes == entry
    assert leased["by_order"]


async def test_a_batch_that_carries_events_without_an_id_is_sent_once_more_whatever_its_items_are(
    at: Desk, rows: Rows, file: Path
) -> None:
    entry = await rows.batch("a", "b", claims="d", unkeyed=True)
    before = await known(at, entry)
    assert not before.is_over
    story = await told("claims", "show", *EVENT)
    assert story["batch"] == {"key": entry.hex(), "items": 2, "completed": 2, "unkeyed": True}
    said = " ".join((await run("inbox", "show", "--key", entry.hex())).stdout.split())
    assert "2 completed, 0 not events without an id are beside them" in said
    assert await at.act(Action.REDRIVE, [Seen(entry, EntryState.DEAD, 3)], BY)
    (leased,) = await rows.lease(11)
    assert leased["key"].bytes == entry
    assert leased["doubtful"]


async def test_an_entry_of_its_own_and_one_of_a_batch_end_together(at: Desk, rows: Rows) -> None:
    lone = await rows.entry("a", claim=None)
    batch = await rows.batch("a", "b")
    seen = [Seen(key, EntryState.DEAD, 3) for key in (lone, batch)]
    assert await at.act(Action.DROP, seen, BY) == {lone, batch}
    states = {row["state"] for row in await rows.sql.fetch("select state from dedup.claims")}
    assert states == {b"d"}


async def test_a_completed_event_is_not_released_while_its_batch_is_undelivered(
    at: Desk, rows: Rows
) -> None:
    entry = await rows.batch("a", "b", claims="ds")
    assert not await at.release(key_of("a"), 1, BY)
    assert why_released_not(await known(at, key_of("a")), 1) is Refusal.OWED
    assert await at.act(Action.DROP, [Seen(entry, EntryState.DEAD, 3)], BY)
    assert await at.release(key_of("a"), 1, BY)


async def test_the_story_of_an_event_names_its_batch_and_what_was_done_to_either(
    file: Path, rows: Rows
) -> None:
    entry = await rows.batch("a", "b")
    assert (await run("inbox", "drop", *EVENT, *WHO)).exit_code == 0
    assert (await run("claims", "release", *EVENT, *WHO, "--yes")).exit_code == 0
    story = await told("claims", "show", *EVENT)
    assert story["event_id"] == "b"
    assert story["claim"]["state"] == "released"
    assert story["batch"] == {"key": entry.hex(), "items": 2, "completed": 1, "unkeyed": False}
    assert [one["action"] for one in story["actions"]] == ["drop", "release"]
    said = " ".join((await run("claims", "show", *EVENT)).stdout.split())
    assert f"event b key {key_of('b').hex()}" in said
    assert f"of a batch of 2 items, whose key is {entry.hex()}" in said


async def test_the_story_of_a_batch_lists_its_events_and_does_not_call_it_a_new_one(
    file: Path, rows: Rows
) -> None:
    entry = await rows.batch("a", "b", claims="sd", body=b"[1]")
    shown = (await run("inbox", "show", "--key", entry.hex())).stdout
    said = " ".join(shown.split())
    assert "batch of 2 items" in said
    assert "claims 1 completed, 1 not" in said
    assert "items stored a completed b" in said
    assert "new one" not in said
    story = await told("inbox", "show", *EVENT)
    assert [(one["event_id"], one["claim"]) for one in story["items"]] == [
        ("a", "stored"), ("b", "completed"),
    ]  # fmt: skip
    assert (await run("inbox", "show", *EVENT, "--payload")).stdout_bytes == b"[1]"


async def test_a_list_says_how_many_events_an_entry_stands_for(file: Path, rows: Rows) -> None:
    entry = await rows.batch("a", "b", "c")
    await rows.entry("lone")
    listed = await told("inbox", "list")
    assert {one["key"]: one["items"] for one in listed["entries"]} == {
        entry.hex(): 3,
        key_of("lone").hex(): None,
    }
    assert "a batch of 3" in (await run("inbox", "list")).stdout


async def test_an_event_of_a_batch_is_ended_by_its_id_and_the_whole_batch_with_it(
    file: Path, rows: Rows
) -> None:
    await rows.batch("a", "b")
    done = await told("inbox", "complete", *EVENT, *WHO)
    assert (done["done"], done["event"]["entry"]["state"]) == (1, "delivered")
    states = {row["state"] for row in await rows.sql.fetch("select state from dedup.claims")}
    assert states == {b"d"}
    assert "nothing was done" in await refused("inbox", "redrive", *EVENT, *WHO)


async def test_a_batch_is_not_released_as_a_whole(file: Path, rows: Rows) -> None:
    entry = await rows.batch("a", "b", claims="d", state="d")
    said = await refused("claims", "release", "--key", entry.hex(), *WHO, "--yes", code=2)
    assert "release its events, each by its ID" in said
    assert await rows.recorded() == []


async def test_many_batches_are_redriven_and_dropped_like_any_entries(
    file: Path, rows: Rows
) -> None:
    await rows.batch("a", "b")
    await rows.batch("c", "d", claims="d")
    await rows.entry("lone")
    words = ("--state", "dead", *WHO, "--yes", "--json")
    redriven = await run("inbox", "redrive", *words)
    assert (redriven.exit_code, '"done": 2' in redriven.stdout) == (1, True)
    assert '"completed": 1' in redriven.stdout
    dropped = await told("inbox", "drop", "--state", "dead", "--state", "pending", *WHO, "--yes")
    assert (dropped["done"], dropped["refused"]) == (3, {})
    assert await rows.sql.fetchval("select count(*) from dedup.claims where state = 's'") == 0
