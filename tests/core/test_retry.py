"""When an entry is tried again, and when no more."""

from __future__ import annotations

import pytest

from gateway.core.inbox import EntryEnding
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused, Reply, Unreached
from gateway.core.retry import Next, RetryPolicy, after, after_a_death, pause, retry_after

POLICY = RetryPolicy(base=5.0, cap=3600.0, give_up=86400.0)
DATE = (b"Date", b"Mon, 30 Nov 2026 12:00:00 GMT")


def reply(status: int = 429, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(status, b"", headers, b"")


def refused(status: int, *headers: tuple[bytes, bytes], doubtful: bool = False) -> Refused:
    return Refused(reply(status, *headers), doubtful)


def what(outcome: Outcome, attempt: int = 1, age: float = 0.0, jitter: float = 0.0) -> Next:
    return after(outcome, attempt, age, POLICY, jitter)


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(0, 5), (1, 5), (2, 10), (3, 20), (10, 2560), (11, 3600), (32_767, 3600), (10**9, 3600)],
)
def test_the_pause_doubles_with_each_attempt_up_to_the_cap(attempt: int, seconds: float) -> None:
    assert pause(attempt, POLICY, 0.0) == seconds


def test_a_herd_is_spread_over_the_second_half_of_its_pause() -> None:
    assert [pause(2, POLICY, jitter) for jitter in (0.0, 0.5, 1.0)] == [10.0, 7.5, 5.0]


@pytest.mark.parametrize(
    ("outcome", "ending", "doubtful", "why"),
    [
        (Delivered(reply(204)), EntryEnding.DELIVER, False, "delivered 204"),
        (refused(422), EntryEnding.RETRY, False, "refused 422"),
        (refused(500, doubtful=True), EntryEnding.RETRY, True, "refused 500"),
        (Ambiguous("reset"), EntryEnding.RETRY, True, "ambiguous reset"),
        (Unreached("connect_refused"), EntryEnding.HAND_BACK, False, "unreached connect_refused"),
        (Unreached("no_slot"), EntryEnding.HAND_BACK, False, "unreached no_slot"),
    ],
)
def test_an_outcome_leads_to_an_ending(
    outcome: Outcome, ending: EntryEnding, doubtful: bool, why: str
) -> None:
    told = what(outcome, attempt=2)
    assert (told.ending, told.doubtful, told.why) == (ending, doubtful, why)


@pytest.mark.parametrize(
    "outcome", [refused(422), Ambiguous("reset"), Unreached("connect_refused")]
)
def test_what_failed_is_tried_again_after_the_pause_of_its_attempt(outcome: Outcome) -> None:
    assert what(outcome, attempt=3).pause == 20.0
    assert what(outcome, attempt=3, jitter=1.0).pause == 10.0


@pytest.mark.parametrize(
    ("reason", "seconds"), [("no_slot", 5.0), ("lease_over", 5.0), ("shutting_down", 0.0)]
)
def test_what_nobody_tried_is_due_again_soon_and_at_once_if_we_stop(
    reason: str, seconds: float
) -> None:
    assert what(Unreached(reason), attempt=9).pause == seconds


@pytest.mark.parametrize(
    ("age", "ending"),
    [(86400.0 - 20.0, EntryEnding.RETRY), (86400.0 - 19.75, EntryEnding.BURY)],
)
@pytest.mark.parametrize("outcome", [refused(422), Ambiguous("reset")])
def test_an_entry_is_dead_when_it_would_be_tried_past_giving_up(
    outcome: Outcome, age: float, ending: EntryEnding
) -> None:
    told = what(outcome, attempt=3, age=age)
    assert told.ending is ending
    assert told.doubtful is isinstance(outcome, Ambiguous)
    assert told.pause == (20.0 if ending is EntryEnding.RETRY else 0.0)


def test_a_consumer_that_stays_away_for_as_long_as_we_try_leaves_the_dead() -> None:
    assert what(Unreached("connect_refused"), age=86400.0).ending is EntryEnding.BURY


def test_an_entry_is_not_dead_because_nobody_tried() -> None:
    assert what(Unreached("no_slot"), age=10 * 86400.0).ending is EntryEnding.HAND_BACK


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(b"120", 120.0), (b" 120 ", 120.0), (b"1", 20.0), (b"99999", 3600.0), (b"soon", 20.0)],
)
def test_a_consumer_names_the_pause_unless_it_is_shorter_than_ours_or_past_the_cap(
    said: bytes, seconds: float
) -> None:
    assert what(refused(503, (b"retry-AFTER", said)), attempt=3).pause == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], 0.0),
        ([(b"Retry-After", b"0")], 0.0),
        ([(b"Retry-After", b"-5")], 0.0),
        ([(b"Retry-After", b"1.5")], 0.0),
        ([(b"Retry-After", b"9" * 400)], 0.0),
        ([(b"Retry-After", b"\xff\xfe")], 0.0),
        ([(b"Retry-After", b"Mon, 30 Nov 2026 12:01:30 GMT"), DATE], 90.0),
        ([(b"Retry-After", b"Mon, 30 Nov 2026 11:59:00 GMT"), DATE], 0.0),
        ([(b"Retry-After", b"Mon, 30 Nov 2026 12:01:30 GMT")], 0.0),
        ([(b"Retry-After", b"Mon, 30 Nov 2026 12:01:30 -0000"), DATE], 0.0),
        ([(b"Retry-After", b"Mon, 30 Nov 99999 12:01:30 GMT"), DATE], 0.0),
        ([(b"Retry-After", b"7"), (b"Retry-After", b"9")], 7.0),
    ],
)
def test_what_a_reply_asks_us_to_wait(headers: list[tuple[bytes, bytes]], seconds: float) -> None:
    assert retry_after(reply(503, *headers)) == seconds


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(2, None), (4, None), (5, None), (6, 30.0), (7, 110.0), (99, 3550.0)]
)
def test_an_event_that_kills_its_workers_is_paced_like_any_other_failure(
    attempt: int, seconds: float | None
) -> None:
    """After its first attempt 5 s, after its fifth 80, of which the lease was 50."""
    told = after_a_death(attempt, 0.0, 50.0, POLICY, 0.0)
    if seconds is None:
        assert told is None
    else:
        assert told == Next(EntryEnding.HAND_BACK, True, seconds, "its worker never concluded")


def test_an_event_that_kills_its_workers_is_dead_in_the_end() -> None:
    assert after_a_death(2, 86400.0, 50.0, POLICY, 0.0) is None
    told = after_a_death(2, 86400.25, 50.0, POLICY, 0.0)
    assert told == Next(EntryEnding.BURY, True, 0.0, "its worker never concluded")
