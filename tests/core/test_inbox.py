"""The rules of entries, as tables: what claim and entry are after something happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.claim import Claim, Settled, State
from gateway.core.event import Delivery, EventKey
from gateway.core.inbox import (
    Conclusion,
    Entry,
    EntryEnding,
    EntryState,
    Offer,
    accept,
    conclude,
    lease,
    revive,
    store,
)

KEY = EventKey(b"k" * 16, "evt_1")
DELIVERY = Delivery("POST", "/hooks/orders", (), b"{}", "192.0.2.1", "http")
NOW = 1_800_000_000.0
LEASE = 30.0
BORN = NOW - 100.0
MINE, OTHER = 11, 22
SAME, CHANGED = 7, 8
OWED = [EntryState.PENDING, EntryState.LEASED, EntryState.HELD]
OVER = [EntryState.DELIVERED, EntryState.DEAD, EntryState.DROPPED]
STAY = [s for s in EntryState if s not in (EntryState.PENDING, EntryState.LEASED)]
UNSUCCESSFUL = [e for e in EntryEnding if e is not EntryEnding.DELIVER]


def offer(state: EntryState = EntryState.LEASED, *, doubtful: bool = False) -> Offer:
    return Offer(KEY, "orders", MINE, SAME, DELIVERY, state, LEASE, doubtful)


def claim(
    state: State, *, by: int | None = None, attempt: int = 1, doubtful: bool = False
) -> Claim:
    until = None if by is None else NOW + 1
    return Claim(state, doubtful, attempt, BORN, SAME, by, until)


def entry(
    state: EntryState,
    *,
    by: int = MINE,
    attempt: int = 3,
    doubtful: bool = False,
    due: float = NOW,
) -> Entry:
    return Entry(state, doubtful, attempt, BORN, due, by)


def ended(ending: EntryEnding, *, doubtful: bool = False, pause: float = 0.0) -> Conclusion:
    return Conclusion(KEY, "orders", MINE, CHANGED, ending, doubtful, pause, "why")


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize(
    ("state", "attempt", "due"),
    [
        (EntryState.LEASED, 1, NOW + LEASE),
        (EntryState.PENDING, 0, NOW),
        (EntryState.HELD, 0, NOW),
    ],
)
def test_a_new_event_becomes_claim_and_entry(
    state: EntryState, attempt: int, due: float, doubtful: bool
) -> None:
    row, made, stored = accept(None, None, offer(state, doubtful=doubtful), NOW)
    assert stored
    assert row == Claim(State.STORED, doubtful, 1, NOW, SAME)
    assert made == Entry(state, doubtful, attempt, NOW, due, MINE)


@pytest.mark.parametrize("state", State)
def test_an_event_that_has_a_claim_is_not_stored_in_one_step(state: State) -> None:
    before = claim(state)
    assert accept(before, None, offer(), NOW) == (before, None, False)


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize(("state", "attempt"), [(EntryState.LEASED, 4), (EntryState.PENDING, 3)])
def test_a_holder_gives_its_claim_to_the_inbox_with_its_doubt_and_its_attempt(
    state: EntryState, attempt: int, stale: bool, doubtful: bool
) -> None:
    before = claim(State.CLAIMED, by=MINE, attempt=4, doubtful=doubtful)
    row, made, stored = store(before, None, offer(state, doubtful=stale), NOW)
    assert stored
    assert row == Claim(State.STORED, doubtful or stale, 4, BORN, SAME)
    assert made is not None
    assert (made.state, made.attempt, made.doubtful) == (state, attempt, doubtful or stale)


@pytest.mark.parametrize(
    "before",
    [
        None,
        claim(State.CLAIMED, by=OTHER),
        claim(State.RELEASED),
        claim(State.COMPLETED),
        claim(State.STORED),
    ],
)
def test_nobody_else_gives_a_claim_to_the_inbox(before: Claim | None) -> None:
    others = entry(EntryState.LEASED, by=OTHER)
    assert store(before, others, offer(), NOW) == (before, others, False)


def test_a_claim_that_was_given_to_the_inbox_without_an_entry_is_not_ours() -> None:
    assert store(claim(State.STORED), None, offer(), NOW) == (claim(State.STORED), None, False)


def test_storing_again_after_a_lost_reply_finds_its_own_entry() -> None:
    before, mine = claim(State.STORED), entry(EntryState.LEASED)
    assert store(before, mine, offer(), NOW) == (before, mine, True)


def test_an_entry_of_our_own_proves_nothing_once_its_event_is_completed() -> None:
    assert not store(claim(State.COMPLETED), entry(EntryState.DELIVERED), offer(), NOW)[2]


@pytest.mark.parametrize("state", OWED)
def test_an_entry_that_is_still_owed_outlives_a_claim_that_was_lost(state: EntryState) -> None:
    before = entry(state, by=OTHER)
    row, after, stored = accept(None, before, offer(), NOW)
    assert not stored
    assert row is not None
    assert row.state is State.STORED
    assert after is before


@pytest.mark.parametrize("state", OVER)
def test_an_entry_whose_story_is_over_is_replaced(state: EntryState) -> None:
    _, after, _ = accept(None, entry(state, by=OTHER), offer(), NOW)
    assert after == Entry(EntryState.LEASED, False, 1, NOW, NOW + LEASE, MINE)


@pytest.mark.parametrize(
    ("due", "free"), [(NOW - 0.25, True), (NOW, True), (NOW + 0.25, False)], ids=str
)
def test_a_pending_entry_is_leased_when_it_is_due(due: float, free: bool) -> None:
    before = entry(EntryState.PENDING, by=OTHER, due=due)
    after = lease(before, claim(State.STORED), MINE, LEASE, NOW)
    taken = Entry(EntryState.LEASED, False, 4, BORN, NOW + LEASE, MINE)
    assert after == (taken if free else None)


@pytest.mark.parametrize(
    ("until", "free"), [(NOW - 0.25, True), (NOW, False), (NOW + 0.25, False)], ids=str
)
def test_a_leased_entry_is_leased_anew_with_doubt_once_its_lease_is_over(
    until: float, free: bool
) -> None:
    before = entry(EntryState.LEASED, by=OTHER, due=until)
    after = lease(before, claim(State.STORED), MINE, LEASE, NOW)
    taken = Entry(EntryState.LEASED, True, 4, BORN, NOW + LEASE, MINE)
    assert after == (taken if free else None)


@pytest.mark.parametrize("state", [EntryState.PENDING, EntryState.LEASED])
def test_doubt_survives_a_lease(state: EntryState) -> None:
    after = lease(entry(state, doubtful=True, due=NOW - 1), None, MINE, LEASE, NOW)
    assert after is not None
    assert after.doubtful


@pytest.mark.parametrize("state", STAY)
def test_what_is_over_or_waits_for_a_person_is_never_leased(state: EntryState) -> None:
    assert lease(entry(state, due=NOW - 1), claim(State.STORED), MINE, LEASE, NOW) is None


@pytest.mark.parametrize("state", [EntryState.PENDING, EntryState.LEASED])
def test_an_entry_whose_event_is_completed_is_not_leased(state: EntryState) -> None:
    assert lease(entry(state, due=NOW - 1), claim(State.COMPLETED), MINE, LEASE, NOW) is None


@pytest.mark.parametrize(
    ("ending", "state", "attempt"),
    [
        (EntryEnding.RETRY, EntryState.PENDING, 3),
        (EntryEnding.HAND_BACK, EntryState.PENDING, 2),
        (EntryEnding.BURY, EntryState.DEAD, 3),
        (EntryEnding.HOLD, EntryState.HELD, 2),
    ],
)
def test_a_worker_ends_its_attempt(ending: EntryEnding, state: EntryState, attempt: int) -> None:
    before = claim(State.STORED)
    row, after, told = conclude(before, entry(EntryState.LEASED), ended(ending, pause=5.0), NOW)
    assert (row, told) == (before, Settled(changed=True, late=False))
    assert after == Entry(state, False, attempt, BORN, NOW + 5.0, MINE)


@pytest.mark.parametrize("ending", UNSUCCESSFUL)
@pytest.mark.parametrize(("before", "adds"), [(False, True), (True, False), (True, True)])
def test_an_ending_adds_doubt_and_never_takes_it_away(
    before: bool, adds: bool, ending: EntryEnding
) -> None:
    leased = entry(EntryState.LEASED, doubtful=before)
    _, after, _ = conclude(claim(State.STORED), leased, ended(ending, doubtful=adds), NOW)
    assert after is not None
    assert after.doubtful


@pytest.mark.parametrize("ending", UNSUCCESSFUL)
@pytest.mark.parametrize(
    "before",
    [None, entry(EntryState.LEASED, by=OTHER), *(entry(s) for s in EntryState if s != "leased")],
)
def test_a_worker_that_lost_its_entry_changes_nothing_by_failing(
    before: Entry | None, ending: EntryEnding
) -> None:
    row = claim(State.STORED)
    told = conclude(row, before, ended(ending), NOW)
    assert told == (row, before, Settled(changed=False, late=False))


@pytest.mark.parametrize("doubtful", [False, True])
def test_a_delivered_entry_completes_its_claim_with_its_attempt_and_doubt(doubtful: bool) -> None:
    before = entry(EntryState.LEASED, doubtful=doubtful)
    row, after, told = conclude(claim(State.STORED), before, ended(EntryEnding.DELIVER), NOW)
    assert row == Claim(State.COMPLETED, doubtful, 3, BORN, SAME)
    assert after == replace(before, state=EntryState.DELIVERED)
    assert told == Settled(changed=True, late=False)


@pytest.mark.parametrize("state", [s for s in EntryState if s is not EntryState.DELIVERED])
def test_a_late_success_closes_the_entry_whatever_became_of_it(state: EntryState) -> None:
    before = entry(state, by=OTHER)
    row, after, told = conclude(claim(State.STORED), before, ended(EntryEnding.DELIVER), NOW)
    assert row == Claim(State.COMPLETED, False, 3, BORN, SAME)
    assert after == replace(before, state=EntryState.DELIVERED)
    assert told == Settled(changed=True, late=True)


def test_a_second_success_changes_nothing() -> None:
    row, over = claim(State.COMPLETED), entry(EntryState.DELIVERED, by=OTHER)
    told = conclude(row, over, ended(EntryEnding.DELIVER), NOW)
    assert told == (row, over, Settled(changed=False, late=False))


def test_a_success_whose_rows_are_gone_is_recorded_anew() -> None:
    row, after, told = conclude(None, None, ended(EntryEnding.DELIVER), NOW)
    assert row == Claim(State.COMPLETED, False, 1, NOW, CHANGED)
    assert (after, told) == (None, Settled(changed=True, late=True))


def test_a_success_remembers_the_doubt_of_a_claim_that_has_no_entry() -> None:
    before = claim(State.RELEASED, attempt=5, doubtful=True)
    row, _, _ = conclude(before, None, ended(EntryEnding.DELIVER), NOW)
    assert row == Claim(State.COMPLETED, True, 5, BORN, SAME)


def test_a_dead_entry_is_revived_with_its_attempts_and_its_doubt() -> None:
    before = entry(EntryState.DEAD, doubtful=True, due=BORN)
    assert revive(before, NOW) == (Entry(EntryState.PENDING, True, 3, NOW, NOW, MINE), True)


@pytest.mark.parametrize(
    "before", [None, *(entry(s) for s in EntryState if s is not EntryState.DEAD)]
)
def test_only_the_dead_are_revived(before: Entry | None) -> None:
    assert revive(before, NOW) == (before, False)
