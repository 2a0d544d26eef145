"""How far a memory reaches, and how far it has to: by canaries alone."""

from __future__ import annotations

import random

import pytest

from gateway.core.canary import PLANTED_EVERY, expected, reach

NOW = 1_800_000_000.0
HOUR = PLANTED_EVERY
DAY = 24 * HOUR

Canaries = list[tuple[float, bool]]


def planted(*hours_ago: float, gone: tuple[float, ...] = ()) -> Canaries:
    return [(NOW - ago * HOUR, ago not in gone) for ago in hours_ago]


def test_a_memory_without_canaries_reaches_nowhere() -> None:
    assert reach([], NOW) == 0


def test_a_memory_reaches_to_its_oldest_canary() -> None:
    assert reach(planted(0, 1, 2, 3), NOW) == 3 * HOUR


def test_a_memory_reaches_no_further_than_the_canary_that_is_missing_last() -> None:
    """What is there beyond proves nothing: somebody deletes single rows, too."""
    assert reach(planted(0, 1, 2, 3, gone=(2,)), NOW) == 1 * HOUR
    assert reach(planted(3, 0, 2, 1, gone=(3, 1)), NOW) == 0


def test_a_memory_of_which_all_is_missing_reaches_nowhere() -> None:
    assert reach(planted(0.5, 1.5, gone=(0.5, 1.5)), NOW) == 0


def test_hours_in_which_no_gateway_was_there_to_plant_leave_no_hole() -> None:
    """The one before them was purged in time, and the one after them is five hours younger."""
    assert reach(planted(0, 1, 2, 8, gone=(8,)), NOW) == 7 * HOUR


def test_a_canary_that_is_planted_later_does_not_make_the_memory_shorter() -> None:
    assert reach(planted(0.1, 1.2, 2.5, gone=(2.5,)), NOW) == pytest.approx(1.5 * HOUR)


def test_a_memory_has_to_reach_as_far_as_the_floor_or_as_it_is_old() -> None:
    assert expected(needed=30 * DAY, known_age=90 * DAY) == 30 * DAY
    assert expected(needed=30 * DAY, known_age=2 * DAY) == 2 * DAY


@pytest.mark.parametrize("seed", range(50))
def test_a_healthy_memory_is_never_an_hour_short_whatever_stood_still_for_how_long(
    seed: int,
) -> None:
    """Retention is exactly the floor; a canary is purged an hour after it, or later."""
    dice, now, retention = random.Random(seed), 0.0, 20 * HOUR
    canaries: dict[float, bool] = {}
    while now < 200 * HOUR:
        now += dice.choice((15.0, HOUR / 4, HOUR / 4, 5 * HOUR if dice.random() < 0.1 else 60.0))
        if now - max(canaries, default=-DAY) >= HOUR:
            canaries[now] = True
        if dice.random() < 0.2:
            canaries |= {at: False for at in canaries if now - at > retention + HOUR}
        age = now - min(canaries)
        assert reach(list(canaries.items()), now) >= expected(retention, age) - HOUR


@pytest.mark.parametrize("seed", range(50))
def test_a_memory_that_lost_what_it_needs_is_always_an_hour_short(seed: int) -> None:
    dice = random.Random(seed)
    canaries = planted(*(n * 1.0 for n in range(30)))
    lost = dice.randrange(1, 17)
    canaries = [
        (at, there and at > NOW - lost * HOUR)
        if dice.random() < 0.5 or at == NOW - lost * HOUR
        else (at, there)
        for at, there in canaries
    ]
    assert reach(canaries, NOW) < expected(20 * HOUR, 29 * HOUR) - HOUR
