"""What an operator does to rows, and what fences it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core import operating
from gateway.core.claim import StoreAway
from gateway.core.inbox import EntryState
from gateway.core.operating import Action, Refusal
from gateway.operating.refused import why_not, why_released_not
from gateway.store.known import Known
from gateway.store.operator import By, Desk, Filter, Locked, Seen, Unready, desk
from tests.operating.rows import Rows, key_of, known

BY = By("alice", "the consumer is back")
ROLES = Path(__file__).parents[2] / "deploy" / "roles.sql"
ENTRY_STATES = ["p", "l", "lapsed", "d", "x", "h", "o"]
CLAIM_STATES = [None, "c", "lapsed", "r", "R", "s", "S", "d", "D"]


async def seen(at: Desk, key: bytes) -> Seen:
    entry = (await known(at, key)).entry
    assert entry is not None
    return Seen(key, entry.state, entry.attempt)


async def event(rows: Rows, claim: str | None, entry: str | None, *, doubtful: bool) -> bytes:
    name = f"{claim} {entry} {doubtful}"
    if claim is not None:
        lapsed = claim == "lapsed"
        state, lease = ("c", -5.0) if lapsed else (claim, 600.0)
        await rows.claim(name, state=state, attempt=2, lease=lease)
    if entry is not None:
        state, due = ("l", -5.0) if entry == "lapsed" else (entry, 600.0)
        await rows.entry(name, state=state, due=due, doubtful=doubtful, claim=None)
    return key_of(name)


async def every_pair(rows: Rows, at: Desk, entries: Sequence[str | None]) -> list[Known]:
    """All that can be in the two tables about one event."""
    keys = [
        await event(rows, claim, entry, doubtful=doubtful)
        for claim in CLAIM_STATES
        for entry in entries
        for doubtful in (False, True)
    ]
    return await at.known(keys)


async def test_a_release_does_to_each_pair_of_rows_what_the_rules_say(at: Desk, rows: Rows) -> None:
    outcomes = set()
    for before in await every_pair(rows, at, [None, *ENTRY_STATES]):
        expected = operating.release(before.claim, before.entry, 2)
        done = await at.release(before.key, 2, BY)
        after = await known(at, before.key)
        assert done is not isinstance(expected, Refusal)
        assert after.claim == (expected if done else before.claim)
        assert after.entry == before.entry
        assert len(await at.actions(before.key)) == int(done)
        if not done:
            assert why_released_not(after, 2) is expected
        outcomes.add(expected if isinstance(expected, Refusal) else done)
    assert outcomes == {
        True, Refusal.UNKNOWN, Refusal.CLAIMED, Refusal.STORED, Refusal.FREE, Refusal.OWED,
    }  # fmt: skip


async def test_a_redrive_does_to_each_pair_of_rows_what_the_rules_say(at: Desk, rows: Rows) -> None:
    outcomes = set()
    for before in await every_pair(rows, at, ENTRY_STATES):
        assert before.entry is not None
        seen = Seen(before.key, before.entry.state, before.entry.attempt)
        done = bool(await at.act(Action.REDRIVE, [seen], BY))
        after = await known(at, before.key)
        expected = operating.redrive(before.entry, after.now, over=before.is_over)
        assert done is not isinstance(expected, Refusal)
        assert after.claim == before.claim
        assert len(await at.actions(before.key)) == int(done)
        if isinstance(expected, Refusal):
            assert after.entry == before.entry
            assert why_not(Action.REDRIVE, after) is expected
        else:
            assert after.entry is not None
            moment = after.entry.since
            assert before.now <= moment <= after.now
            assert after.entry == replace(expected, since=moment, due=moment)
            assert after.stored is not None
            assert after.stored.settled is None
            assert after.stored.received < moment
        outcomes.add(expected if isinstance(expected, Refusal) else done)
    assert outcomes == {True, Refusal.LEASED, Refusal.OVER, Refusal.COMPLETED}


@pytest.mark.parametrize(
    ("action", "as_"), [(Action.DROP, EntryState.DROPPED), (Action.COMPLETE, EntryState.DELIVERED)]
)
async def test_closing_does_to_each_pair_of_rows_what_the_rules_say(
    at: Desk, rows: Rows, action: Action, as_: EntryState
) -> None:
    outcomes = set()
    for before in await every_pair(rows, at, ENTRY_STATES):
        assert before.entry is not None
        seen = Seen(before.key, before.entry.state, before.entry.attempt)
        done = bool(await at.act(action, [seen], BY))
        after = await known(at, before.key)
        expected = operating.close(
            before.claim, before.entry, as_=as_, fingerprint=7, now=after.now
        )
        assert done is not isinstance(expected, Refusal)
        assert len(await at.actions(before.key)) == int(done)
        if isinstance(expected, Refusal):
            assert (after.claim, after.entry) == (before.claim, before.entry)
            assert why_not(action, after) is expected
        else:
            claim, entry = expected
            assert after.claim is not None
            earliest = int(before.now) if before.claim is None else claim.first_seen
            assert earliest <= after.claim.first_seen <= claim.first_seen
            assert after.claim == replace(claim, first_seen=after.claim.first_seen)
            assert after.entry == entry
            assert after.stored is not None
            assert after.stored.settled is not None
        outcomes.add(expected if isinstance(expected, Refusal) else done)
    assert outcomes == {True, Refusal.LEASED, Refusal.OVER}


async def test_a_release_is_refused_when_the_attempt_is_another_one_than_was_seen(
    at: Desk, rows: Rows
) -> None:
    key = await rows.claim(attempt=3)
    assert not await at.release(key, 2, BY)
    assert why_released_not(await known(at, key), 2) is Refusal.CHANGED
    assert await at.release(key, 3, BY)


async def test_a_released_event_goes_through_once_and_marked(at: Desk, rows: Rows) -> None:
    key = await rows.claim()
    assert await at.release(key, 1, BY)
    told = await rows.arrive(key, 11)
    assert (told["first"], told["open"], told["state"], told["attempt"]) == (False, True, b"R", 1)
    won = await rows.take_over(key, 1, b"R", 11)
    assert (won["attempt"], won["doubtful"]) == (2, True)
    assert await rows.take_over(key, 1, b"R", 12) is None
    assert (await rows.arrive(key, 12))["open"] is False


async def test_a_release_forgets_the_reply_that_duplicates_were_told(at: Desk, rows: Rows) -> None:
    key = await rows.claim()
    await rows.sql.execute(
        "insert into dedup.replies (key, kept, status, body)"
        " values ($1, 1, 200, 'old'), ($2, 1, 200, '')",
        UUID(key),
        UUID(key_of("another")),
    )
    assert (await known(at, key)).has_reply
    assert await at.release(key, 1, BY)
    assert not (await known(at, key)).has_reply
    assert await rows.sql.fetchval("select count(*) from dedup.replies") == 1


async def test_a_late_success_completes_a_released_claim_and_a_dropped_entry(
    at: Desk, rows: Rows
) -> None:
    released = await rows.claim("evt_1")
    assert await at.release(released, 1, BY)
    assert await rows.succeed(released, 99)
    after = await known(at, released)
    assert after.claim is not None
    assert (after.claim.state, after.claim.doubtful) == ("completed", True)
    dropped = await rows.entry("evt_2", state="p")
    assert await at.act(Action.DROP, [await seen(at, dropped)], BY)
    await rows.succeed(dropped, 99)
    entry = (await known(at, dropped)).entry
    assert entry is not None
    assert entry.state is EntryState.DELIVERED


async def test_what_was_seen_in_another_state_or_attempt_is_left_alone(
    at: Desk, rows: Rows
) -> None:
    key = await rows.entry(state="x", attempt=3)
    for stale in (Seen(key, EntryState.HELD, 3), Seen(key, EntryState.DEAD, 2)):
        for action in (Action.REDRIVE, Action.DROP, Action.COMPLETE):
            assert not await at.act(action, [stale], BY)
    assert why_not(Action.DROP, await known(at, key)) is Refusal.CHANGED
    assert await rows.recorded() == []


async def test_every_action_is_recorded_with_who_why_and_the_attempt_that_was_seen(
    at: Desk, rows: Rows
) -> None:
    await rows.claim("evt_0", attempt=2)
    await at.release(key_of("evt_0"), 2, BY)
    for number, action in enumerate((Action.REDRIVE, Action.DROP, Action.COMPLETE), 1):
        key = await rows.entry(f"evt_{number}")
        await at.act(action, [await seen(at, key)], By("bob", f"why {number}"))
    assert await rows.recorded() == [
        ("alice", "release", BY.why, 2),
        ("bob", "redrive", "why 1", 3),
        ("bob", "drop", "why 2", 3),
        ("bob", "complete", "why 3", 3),
    ]


async def test_entries_are_found_by_route_state_age_and_the_end_of_their_latest_attempt(
    at: Desk, rows: Rows
) -> None:
    await rows.entry("old", age=7200, why="503 from the consumer")
    await rows.entry("young", age=5, why="timeout after 30 s")
    await rows.entry("held", state="h")
    await rows.entry("elsewhere", route=2, why="503 from the consumer")
    await rows.entry("done", state="d", claim="d")
    dead = (EntryState.DEAD,)

    async def ids(wanted: Filter) -> list[str]:
        found = [one.stored.event_id for one in await at.oldest(wanted, 10) if one.stored]
        assert sum(group.entries for group in await at.count(wanted)) == len(found)
        paged = [seen.key for page in [p async for p in at.pages(wanted, 1)] for seen in page]
        assert sorted(map(key_of, found)) == paged
        return found

    now = at.now + 1
    assert await ids(Filter(None, dead, now, None)) == ["old", "elsewhere", "young"]
    assert await ids(Filter((1,), dead, now, None)) == ["old", "young"]
    assert await ids(Filter(None, (EntryState.DEAD, EntryState.HELD), now, None)) == [
        "old", "held", "elsewhere", "young",
    ]  # fmt: skip
    assert await ids(Filter(None, dead, now - 3600, None)) == ["old"]
    assert await ids(Filter(None, dead, now, "503")) == ["old", "elsewhere"]
    assert await ids(Filter(None, dead, now, "5%")) == []


async def test_the_role_suffices_for_all_that_operators_do(database: str, rows: Rows) -> None:
    await rows.sql.execute(ROLES.read_text())
    parts = urlsplit(database)
    user = parts._replace(netloc=f"{quote('dedup_gateway')}@").geturl()
    async with desk(user) as at:
        await rows.claim("evt_0")
        assert await at.release(key_of("evt_0"), 1, BY)
        for number, action in enumerate((Action.REDRIVE, Action.DROP, Action.COMPLETE), 1):
            key = await rows.entry(f"evt_{number}")
            assert await at.act(action, [await seen(at, key)], BY)
            assert await at.actions(key)
            assert await at.payload(key)


async def test_a_schema_that_is_not_there_and_a_role_that_may_not_say_what_to_do(dsn: str) -> None:
    with pytest.raises(Unready, match="dedup-gateway migrate"):
        async with desk(dsn):
            pass


async def test_a_store_that_is_away_is_told_apart_from_one_that_was_lost_on_the_way(
    database: str, rows: Rows
) -> None:
    with pytest.raises(StoreAway) as caught:
        async with desk("postgresql://u@127.0.0.1:1/d"):
            pass
    assert not caught.value.undecided
    async with desk(database) as at:
        await rows.sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        with pytest.raises(StoreAway) as caught:
            await at.act(Action.DROP, [Seen(key_of("x"), EntryState.DEAD, 1)], BY)
    assert caught.value.undecided


async def test_a_row_that_others_hold_for_long_is_not_waited_for_and_not_changed(
    at: Desk, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.operator.LOCKED_TRIES", 1)
    key = await rows.entry()
    one = await seen(at, key)
    async with rows.sql.transaction():
        await rows.sql.execute("select from dedup.entries for update")
        for action in (Action.REDRIVE, Action.DROP):
            with pytest.raises(Locked):
                await at.act(action, [one], BY)
    assert await at.act(Action.REDRIVE, [one], BY) == {key}


async def test_an_action_and_its_record_are_one(at: Desk, rows: Rows) -> None:
    await rows.sql.execute("alter table dedup.actions add check (who <> 'mallory')")
    key = await rows.entry()
    one = await seen(at, key)
    for action in (Action.REDRIVE, Action.DROP):
        with pytest.raises(StoreAway):
            await at.act(action, [one], By("mallory", "no"))
    assert await seen(at, key) == one
    assert await rows.sql.fetchval("select state from dedup.claims") == b"s"
