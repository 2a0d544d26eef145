"""Whether the rules for histories are any good: forged ones must be noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rig.history import Forward, Story, faults, judge

HONEST = Story(
    "evt",
    acknowledged=True,
    answered=4.0,
    forwards=(Forward(1, False, 1.0), Forward(2, True, 2.0), Forward(4, True, 3.0)),
    effects=(False, True, True),
    claim="completed",
    entry="delivered",
)
ONCE = replace(HONEST, forwards=HONEST.forwards[:1], effects=(False,), entry=None)


@pytest.mark.parametrize("story", [HONEST, ONCE, Story("nobody answered it")])
def test_an_honest_history_passes(story: Story) -> None:
    judge([story])


def test_an_acknowledged_event_without_an_effect_is_noticed() -> None:
    assert list(faults(replace(ONCE, effects=()))) == ["acknowledged without an effect"]


def test_two_effects_of_unmarked_forwards_are_noticed_even_with_marked_ones_between() -> None:
    forged = replace(HONEST, effects=(False, True, False))
    assert list(faults(forged)) == ["2 effects of unmarked forwards"]


def test_an_attempt_number_that_comes_twice_is_noticed_though_one_of_them_was_marked() -> None:
    forged = replace(HONEST, forwards=(*HONEST.forwards[:2], Forward(1, True, 3.0)))
    assert list(faults(forged)) == ["forwarded more than once as attempt [1]"]


def test_a_marked_forward_after_the_success_was_recorded_is_noticed() -> None:
    forged = replace(HONEST, forwards=(*HONEST.forwards, Forward(5, True, 4.1)))
    assert list(faults(forged)) == ["forwarded although its success was recorded"]


def test_an_effect_that_no_forward_explains_is_noticed() -> None:
    assert list(faults(replace(ONCE, effects=(False, True)))) == ["more effects than forwards"]


@pytest.mark.parametrize("claim", ["claimed", "released", "stored"])
def test_an_acknowledged_event_that_is_not_completed_at_the_end_is_noticed(claim: str) -> None:
    assert list(faults(replace(HONEST, claim=claim))) == [f"acknowledged and its claim is {claim}"]


@pytest.mark.parametrize("entry", ["pending", "leased", "dead", "held"])
def test_an_entry_that_is_still_owed_at_the_end_is_noticed(entry: str) -> None:
    assert list(faults(replace(HONEST, entry=entry))) == [f"its entry is {entry}"]


def test_one_bad_story_among_good_ones_is_named() -> None:
    with pytest.raises(AssertionError, match="lost"):
        judge([HONEST, Story("lost", acknowledged=True), ONCE])
