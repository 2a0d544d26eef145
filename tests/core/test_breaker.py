"""A consumer that is down is asked now and then, and is found again soon after it is back."""

from __future__ import annotations

import pytest

from gateway.core.breaker import FAILURES_TO_TRIP, LONGEST_PAUSE, Breaker, is_down
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused, Reply, Unreached

AWAY = Unreached("connect_refused")
OURS = Unreached("no_slot")


def says(status: int) -> Outcome:
    reply = Reply(status, b"", (), b"")
    return Delivered(reply) if status < 300 else Refused(reply, doubtful=status >= 500)


def tripped(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES_TO_TRIP):
        breaker.told(AWAY, at, probe=False)
    return breaker


def probed(breaker: Breaker, outcome: Outcome, now: float) -> None:
    """One probe from its beginning to its end."""
    assert breaker.room(8, now) == 1
    assert breaker.begun()
    breaker.told(outcome, now, probe=True)
    breaker.ended()


@pytest.mark.parametrize(
    ("outcome", "down"),
    [
        (says(200), False),
        (says(404), False),
        (says(500), False),
        (says(501), False),
        (says(502), True),
        (says(503), True),
        (says(504), True),
        (Ambiguous("timeout"), True),
        (AWAY, True),
        (OURS, None),
        (Unreached("lease_over"), None),
        (Unreached("shutting_down"), None),
    ],
)
def test_an_outcome_says_whether_the_consumer_as_a_whole_is_down(
    outcome: Outcome, down: bool | None
) -> None:
    assert is_down(outcome) is down


def test_all_slots_may_be_used_until_five_forwards_in_a_row_found_it_down() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.told(AWAY, 0.0, probe=False)
    breaker.told(OURS, 0.0, probe=False)
    assert (breaker.is_open, breaker.room(8, 0.0), breaker.begun()) == (False, 8, False)
    breaker.told(AWAY, 0.0, probe=False)
    assert (breaker.is_open, breaker.room(8, 0.0)) == (True, 0)


@pytest.mark.parametrize("sign_of_life", [says(200), says(404), says(500)])
def test_one_sign_of_life_starts_the_count_anew(sign_of_life: Outcome) -> None:
    breaker = Breaker()
    for _ in range(4):
        for _ in range(FAILURES_TO_TRIP - 1):
            breaker.told(AWAY, 0.0, probe=False)
        breaker.told(sign_of_life, 0.0, probe=False)
    assert not breaker.is_open


def test_there_is_one_probe_at_a_time_and_none_before_its_time() -> None:
    breaker = tripped()
    assert [breaker.room(8, now) for now in (0.0, 4.75, 5.0)] == [0, 0, 1]
    assert breaker.room(0, 5.0) == 0
    assert breaker.begun()
    assert breaker.room(8, 5.0) == 0
    breaker.ended()  # nothing was sent
    assert breaker.room(8, 5.0) == 1


def test_what_was_under_way_when_it_tripped_neither_makes_room_nor_puts_the_probe_off() -> None:
    breaker = tripped()
    assert breaker.begun()
    for now in range(30):
        breaker.told(Ambiguous("timeout"), float(now), probe=False)
        assert breaker.room(8, float(now)) == 0
    breaker.told(AWAY, 30.0, probe=True)
    breaker.ended()
    assert [breaker.room(8, now) for now in (39.75, 40.0)] == [0, 1]


def test_of_many_that_were_leased_before_it_tripped_one_is_the_probe() -> None:
    breaker = tripped()
    assert [breaker.begun() for _ in range(8)] == [True] + [False] * 7


def test_what_was_under_way_may_bring_the_good_news() -> None:
    breaker = tripped()
    breaker.told(says(200), 1.0, probe=False)
    assert (breaker.is_open, breaker.room(8, 1.0)) == (False, 8)


def test_a_probe_that_nobody_sent_says_nothing() -> None:
    breaker = tripped()
    probed(breaker, OURS, 5.0)
    assert (breaker.is_open, breaker.room(8, 5.0)) == (True, 1)


@pytest.mark.parametrize("failure", [AWAY, Ambiguous("timeout"), says(503)])
def test_ten_minutes_of_outage_cost_at_most_twenty_probes(failure: Outcome) -> None:
    breaker, probes, now = tripped(), 0, 0.0
    while now < 600:
        if breaker.room(64, now):
            probed(breaker, failure, now)
            probes += 1
        now += 0.25
    assert 10 <= probes <= 20


@pytest.mark.parametrize("back_after", [1.0, 7.0, 16.0, 100.0, 600.0, 3600.0, 86400.0])
def test_a_consumer_is_found_within_a_minute_of_its_return(back_after: float) -> None:
    breaker, now = tripped(), 0.0
    while breaker.is_open:
        if breaker.room(64, now):
            probed(breaker, AWAY if now < back_after else says(200), now)
        now += 0.25
    assert now <= back_after + LONGEST_PAUSE + 0.25


def test_after_a_recovery_the_first_pause_is_short_again() -> None:
    breaker, now = tripped(), 5.0
    for seconds in (10.0, 20.0, 40.0, 60.0, 60.0):
        probed(breaker, AWAY, now)
        assert breaker.room(8, now + seconds - 0.25) == 0
        now += seconds
    probed(breaker, says(200), now)
    for _ in range(FAILURES_TO_TRIP):
        assert not breaker.is_open
        breaker.told(AWAY, now, probe=False)
    assert [breaker.room(8, now + seconds) for seconds in (4.75, 5.0)] == [0, 1]
