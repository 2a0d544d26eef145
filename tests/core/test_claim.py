"""The rules of claims, as tables: what a row is after something happened, and what is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.claim import (
    Arrival,
    Ask,
    Claim,
    Ending,
    Held,
    Seen,
    Settled,
    Settlement,
    State,
    StoreAway,
    Won,
    arrive,
    settle,
)
from gateway.core.event import EventKey

KEY = EventKey(b"k" * 16, "evt_1")
NOW = 1_800_000_000.0
LEASE = 30.0
BORN = NOW - 100.0
MINE, OTHER = 11, 22
SAME, CHANGED = 7, 8


def ask(token: int = MINE, fingerprint: int = SAME) -> Ask:
    return Ask(KEY, "orders", token, LEASE, fingerprint)


def claimed(
    *, by: int = OTHER, until: float = NOW + 1, doubtful: bool = False, attempt: int = 1
) -> Claim:
    return Claim(State.CLAIMED, doubtful, attempt, BORN, SAME, by, until)


def at_rest(state: State, *, doubtful: bool = False, attempt: int = 1) -> Claim:
    return Claim(state, doubtful, attempt, BORN, SAME)


def held_anew(*, attempt: int, doubtful: bool, fingerprint: int = SAME) -> Claim:
    return Claim(State.CLAIMED, doubtful, attempt, BORN, fingerprint, MINE, NOW + LEASE)


def test_the_first_delivery_of_an_event_wins_unmarked() -> None:
    row, told = arrive(None, ask(), NOW)
    assert row == Claim(State.CLAIMED, False, 1, NOW, SAME, MINE, NOW + LEASE)
    assert told == Won(1, doubtful=False, took_over=False, now=NOW, first_seen=NOW)


@pytest.mark.parametrize("doubtful", [False, True])
def test_a_released_event_is_won_again_and_doubt_stays(doubtful: bool) -> None:
    row, told = arrive(at_rest(State.RELEASED, doubtful=doubtful, attempt=4), ask(), NOW)
    assert row == held_anew(attempt=5, doubtful=doubtful)
    assert told == Won(5, doubtful, took_over=False, now=NOW, first_seen=BORN)


@pytest.mark.parametrize("doubtful", [False, True])
def test_a_take_over_of_a_lapsed_claim_is_doubtful_whatever_was_before(doubtful: bool) -> None:
    lapsed = claimed(until=NOW - 0.001, doubtful=doubtful, attempt=2)
    row, told = arrive(lapsed, ask(), NOW)
    assert row == held_anew(attempt=3, doubtful=True)
    assert told == Won(3, doubtful=True, took_over=True, now=NOW, first_seen=BORN)


@pytest.mark.parametrize(
    ("left", "lapsed"),
    [(-0.001, True), (0.0, False), (0.001, False)],
    ids=["after", "at", "before"],
)
def test_a_lease_holds_up_to_and_including_its_last_moment(left: float, lapsed: bool) -> None:
    row = claimed(until=NOW + left)
    assert row.is_lapsed(NOW) is row.is_open(NOW) is lapsed
    _, told = arrive(row, ask(), NOW)
    assert isinstance(told, Won if lapsed else Held)


@pytest.mark.parametrize("state", [State.RELEASED, State.STORED, State.COMPLETED])
def test_only_a_claimed_row_can_lapse(state: State) -> None:
    assert not at_rest(state).is_lapsed(NOW)
    assert at_rest(state).is_open(NOW) is (state is State.RELEASED)


def test_the_winner_of_an_open_row_leaves_its_own_fingerprint() -> None:
    row, _ = arrive(at_rest(State.RELEASED), ask(fingerprint=CHANGED), NOW)
    assert row.fingerprint == CHANGED


@pytest.mark.parametrize("state", [State.COMPLETED, State.STORED])
@pytest.mark.parametrize("fingerprint", [SAME, CHANGED])
def test_what_is_durable_is_seen_and_stays_as_it_is(state: State, fingerprint: int) -> None:
    before = at_rest(state, doubtful=True, attempt=3)
    row, told = arrive(before, ask(fingerprint=fingerprint), NOW)
    assert row is before
    stored = state is State.STORED
    assert told == Seen(BORN, same_body=fingerprint == SAME, now=NOW, stored=stored)


@pytest.mark.parametrize("fingerprint", [SAME, CHANGED])
def test_a_live_claim_of_somebody_else_is_held_and_stays_as_it_is(fingerprint: int) -> None:
    before = claimed()
    row, told = arrive(before, ask(fingerprint=fingerprint), NOW)
    assert row is before
    assert told == Held(same_body=fingerprint == SAME, now=NOW)


@pytest.mark.parametrize("event_id", ["evt_1", "evt_2", None])
@pytest.mark.parametrize("state", [State.CLAIMED, State.COMPLETED, State.STORED])
def test_another_event_of_one_operation_is_told_apart_where_ids_are_kept(
    state: State, event_id: str | None
) -> None:
    before = claimed() if state is State.CLAIMED else at_rest(state)
    _, told = arrive(replace(before, event_id=event_id), ask(), NOW)
    assert isinstance(told, Seen | Held)
    assert told.same_event is (event_id != "evt_2")


def test_the_event_that_takes_an_operation_over_is_remembered_instead() -> None:
    row, _ = arrive(replace(at_rest(State.RELEASED), event_id="evt_0"), ask(), NOW)
    assert row.event_id == KEY.event_id
    completed, _ = settle(row, Settlement(KEY, "orders", MINE, SAME, C), NOW)
    assert completed is not None
    assert completed.event_id == KEY.event_id


def test_the_same_call_again_finds_its_own_claim_and_changes_nothing() -> None:
    before = claimed(by=MINE, attempt=3, doubtful=True)
    row, told = arrive(before, ask(), NOW)
    assert row is before
    assert told == Won(3, doubtful=True, took_over=False, now=NOW, first_seen=BORN)


def test_the_same_call_after_its_own_lease_takes_over_and_is_doubtful() -> None:
    _, told = arrive(claimed(by=MINE, until=NOW - 1), ask(), NOW)
    assert told == Won(2, doubtful=True, took_over=True, now=NOW, first_seen=BORN)


CHANGED_IT, LATE, NOTHING = Settled(True, False), Settled(True, True), Settled(False, False)
C, R, RD = Ending.COMPLETE, Ending.RELEASE, Ending.RELEASE_DOUBTFUL
DOUBTFUL = {"doubtful": True}

OVER = NOW - 9

SETTLEMENTS = [
    # before, ending, told, state and doubt afterwards
    ("mine, completed", claimed(by=MINE), C, CHANGED_IT, State.COMPLETED, False),
    ("mine, released", claimed(by=MINE), R, CHANGED_IT, State.RELEASED, False),
    ("mine, released doubtful", claimed(by=MINE), RD, CHANGED_IT, State.RELEASED, True),
    ("doubt survives success", claimed(by=MINE, **DOUBTFUL), C, CHANGED_IT, State.COMPLETED, True),
    ("doubt survives release", claimed(by=MINE, **DOUBTFUL), R, CHANGED_IT, State.RELEASED, True),
    ("doubt on doubt", claimed(by=MINE, **DOUBTFUL), RD, CHANGED_IT, State.RELEASED, True),
    ("mine still, lapsed", claimed(by=MINE, until=OVER), R, CHANGED_IT, State.RELEASED, False),
    ("a lapsed success", claimed(by=MINE, until=OVER), C, CHANGED_IT, State.COMPLETED, False),
    ("late success over a successor", claimed(by=OTHER), C, LATE, State.COMPLETED, False),
    ("late success keeps doubt", claimed(by=OTHER, **DOUBTFUL), C, LATE, State.COMPLETED, True),
    ("late success over a release", at_rest(State.RELEASED), C, LATE, State.COMPLETED, False),
    ("late success over a stored one", at_rest(State.STORED), C, LATE, State.COMPLETED, False),
    ("late release, fenced", claimed(by=OTHER), R, NOTHING, State.CLAIMED, False),
    ("late doubt, fenced", claimed(by=OTHER), RD, NOTHING, State.CLAIMED, False),
    ("released twice", at_rest(State.RELEASED), RD, NOTHING, State.RELEASED, False),
    ("stored is not released", at_rest(State.STORED), R, NOTHING, State.STORED, False),
    ("completed twice", at_rest(State.COMPLETED), C, NOTHING, State.COMPLETED, False),
    ("completed is final", at_rest(State.COMPLETED), R, NOTHING, State.COMPLETED, False),
    ("completed gets no doubt", at_rest(State.COMPLETED), RD, NOTHING, State.COMPLETED, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "ending", "told", "state", "doubtful"),
    [row[1:] for row in SETTLEMENTS],
    ids=[row[0] for row in SETTLEMENTS],
)
def test_settling(
    before: Claim, ending: Ending, told: Settled, state: State, doubtful: bool
) -> None:
    after, settled = settle(before, Settlement(KEY, "orders", MINE, CHANGED, ending), NOW)
    assert settled == told
    assert after is not None
    assert (after.state, after.doubtful) == (state, doubtful)
    assert (after.attempt, after.first_seen, after.fingerprint) == (1, BORN, SAME)
    assert settled.changed or after is before
    if after.state is not State.CLAIMED:
        assert after.token is after.lease_until is None


def test_a_success_whose_row_is_gone_brings_it_back_completed() -> None:
    after, settled = settle(None, Settlement(KEY, "orders", MINE, CHANGED, C), NOW)
    assert after == Claim(State.COMPLETED, False, 1, NOW, CHANGED)
    assert settled == LATE


@pytest.mark.parametrize("ending", [R, RD])
def test_a_release_whose_row_is_gone_is_nothing(ending: Ending) -> None:
    assert settle(None, Settlement(KEY, "orders", MINE, SAME, ending), NOW) == (None, NOTHING)


def test_a_number_of_attempts_survives_settling() -> None:
    for ending in Ending:
        after, _ = settle(
            claimed(by=MINE, attempt=6), Settlement(KEY, "orders", MINE, SAME, ending), NOW
        )
        assert after is not None
        assert after.attempt == 6


def test_after_any_history_at_most_one_holder_is_unmarked_and_it_came_first() -> None:
    """Doubt once there stays there, through every order of endings."""
    row: Claim | None = None
    marks: list[bool] = []
    for ending in (R, R, RD, R, RD, R):
        row, told = arrive(row, ask(), NOW)
        assert isinstance(told, Won)
        marks.append(told.doubtful)
        row, _ = settle(row, Settlement(KEY, "orders", MINE, SAME, ending), NOW)
    assert marks == [False, False, False, True, True, True]


def test_a_store_that_is_away_says_whether_something_may_still_happen() -> None:
    assert not StoreAway("refused").undecided
    assert StoreAway("no reply", undecided=True).undecided


def test_an_arrival_is_one_of_three_things() -> None:
    assert set(Arrival.__args__) == {Won, Seen, Held}
