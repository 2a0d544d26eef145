"""What a list of somebody else's says about claims, and they about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.auditing import (
    EDGE,
    Against,
    Asked,
    Listed,
    Remembered,
    Standing,
    Terms,
    begins,
    is_double,
    of_claim,
    of_listed,
    terms,
)
from gateway.core.claim import Claim, State
from gateway.core.purging import UNSAID

NOW = 1_000_000.0
SINCE, UNTIL, BEGINS = 100_000.0, 900_000.0, 50_000.0
EFFECTS = Terms(Against.EFFECTS, SINCE, UNTIL, BEGINS, NOW, EDGE, undated_inside=False)
PROVIDER = replace(EFFECTS, against=Against.PROVIDER)
DONE = Claim(State.COMPLETED, False, 1, 500_000.0, 7)
OPEN = tuple(replace(DONE, state=state) for state in State if state is not State.COMPLETED)
MEMORY = Remembered(born=1000.0, since=1000.0, oldest=2000.0, cut_off=None, retention=NOW)
NOTHING_ASKED = Asked(None, None, complete=False)


def once(at: float | None) -> Listed:
    return Listed(1, at, at)


def seen(at: float, *, attempt: int = 1) -> Claim:
    return replace(DONE, first_seen=at, attempt=attempt)


@pytest.mark.parametrize(
    ("at", "standing"),
    [
        (BEGINS - 1, Standing.FORGOTTEN),
        (BEGINS, Standing.BEFORE),
        (SINCE - 1, Standing.BEFORE),
        (SINCE, Standing.LEAK),
        (UNTIL, Standing.LEAK),
        (UNTIL + 1, Standing.AFTER),
        (None, Standing.UNDATED),
    ],
)
def test_an_effect_without_a_claim_is_a_leak_within_window_and_memory(
    at: float | None, standing: Standing
) -> None:
    assert of_listed(once(at), None, EFFECTS) is standing


def test_an_effect_is_of_the_window_if_any_of_its_rows_is() -> None:
    across = Listed(2, BEGINS - 1, UNTIL + 1)
    assert of_listed(across, None, EFFECTS) is Standing.LEAK
    assert is_double(across, EFFECTS)


def test_no_effect_is_too_young_to_have_a_claim_and_an_event_that_was_sent_may_be_on_its_way() -> (
    None
):
    until_now = replace(EFFECTS, until=NOW)
    assert of_listed(once(NOW), None, until_now) is Standing.LEAK
    sent = replace(until_now, against=Against.PROVIDER)
    assert of_listed(once(NOW - EDGE + 1), None, sent) is Standing.EDGE
    assert of_listed(once(NOW - EDGE), None, sent) is Standing.MISSING


@pytest.mark.parametrize("claim", OPEN, ids=lambda claim: claim.state)
def test_an_effect_under_an_open_claim_is_unfinished_and_an_event_that_arrived_has_arrived(
    claim: Claim,
) -> None:
    assert of_listed(once(500_000.0), claim, EFFECTS) is Standing.UNFINISHED
    assert of_listed(once(500_000.0), claim, PROVIDER) is Standing.MATCHED
    assert of_listed(once(500_000.0), DONE, EFFECTS) is Standing.MATCHED


def test_a_row_without_a_time_is_of_the_window_where_somebody_says_so() -> None:
    said = replace(EFFECTS, undated_inside=True)
    assert of_listed(once(None), None, said) is Standing.LEAK
    assert of_listed(once(None), None, replace(said, against=Against.PROVIDER)) is Standing.MISSING
    assert of_listed(once(None), DONE, EFFECTS) is Standing.MATCHED


def test_two_effects_are_a_double_within_the_window_whatever_the_claim() -> None:
    assert is_double(Listed(2, SINCE, SINCE), EFFECTS)
    assert is_double(Listed(2, None, None), EFFECTS)
    assert not is_double(Listed(1, SINCE, SINCE), EFFECTS)
    assert not is_double(Listed(2, BEGINS, SINCE - 1), EFFECTS)
    assert not is_double(Listed(2, UNTIL + 1, NOW), EFFECTS)
    assert not is_double(Listed(2, SINCE, SINCE), PROVIDER)


@pytest.mark.parametrize(
    ("claim", "settled", "standing"),
    [
        (seen(SINCE - 1), None, Standing.BEFORE),
        (seen(SINCE), None, Standing.EDGE),
        (seen(SINCE + EDGE - 1), None, Standing.EDGE),
        (seen(SINCE + EDGE), None, Standing.LOSS),
        (seen(UNTIL - EDGE), None, Standing.LOSS),
        (seen(UNTIL - EDGE + 1), None, Standing.EDGE),
        (seen(UNTIL), None, Standing.EDGE),
        (seen(UNTIL + 1), None, Standing.AFTER),
        (seen(500_000.0), UNTIL - EDGE, Standing.LOSS),
        (seen(500_000.0), UNTIL - EDGE + 1, Standing.EDGE),
        (seen(UNTIL - EDGE - UNSAID, attempt=2), None, Standing.LOSS),
        (seen(UNTIL - EDGE - UNSAID + 1, attempt=2), None, Standing.EDGE),
        (seen(UNTIL - EDGE - UNSAID + 1, attempt=2), UNTIL - EDGE, Standing.LOSS),
    ],
)
def test_a_completed_claim_without_an_effect_is_a_loss_where_its_effect_had_to_be_listed(
    claim: Claim, settled: float | None, standing: Standing
) -> None:
    assert of_claim(claim, settled, EFFECTS, dropped=False) is standing


def test_a_mark_without_an_effect_is_no_loss_where_its_effect_had_to_be_listed() -> None:
    marked = replace(DONE, fingerprint=None)
    assert of_claim(marked, None, EFFECTS, dropped=False) is Standing.MARKED
    young = replace(marked, first_seen=UNTIL - EDGE + 1)
    assert of_claim(young, None, EFFECTS, dropped=False) is Standing.EDGE
    assert of_claim(marked, None, EFFECTS, dropped=True) is Standing.DROPPED
    assert of_claim(marked, None, PROVIDER, dropped=False) is Standing.UNKNOWN


@pytest.mark.parametrize("claim", OPEN, ids=lambda claim: claim.state)
def test_an_open_claim_is_undecided_for_effects_and_has_arrived_for_a_provider(
    claim: Claim,
) -> None:
    assert of_claim(claim, None, EFFECTS, dropped=False) is Standing.UNDECIDED
    assert of_claim(claim, None, PROVIDER, dropped=False) is Standing.UNKNOWN


def test_what_an_operator_dropped_has_no_effect() -> None:
    assert of_claim(DONE, None, EFFECTS, dropped=True) is Standing.DROPPED
    assert of_claim(DONE, None, PROVIDER, dropped=True) is Standing.UNKNOWN


@pytest.mark.parametrize(("at", "standing"), [
    (SINCE - 1, Standing.BEFORE), (SINCE + EDGE - 1, Standing.EDGE),
    (SINCE + EDGE, Standing.UNKNOWN), (UNTIL - EDGE, Standing.UNKNOWN),
    (UNTIL - EDGE + 1, Standing.EDGE), (UNTIL + 1, Standing.AFTER),
])  # fmt: skip
def test_a_claim_that_a_provider_does_not_list_is_unknown_whenever_it_ended(
    at: float, standing: Standing
) -> None:
    assert of_claim(seen(at, attempt=2), NOW, PROVIDER, dropped=False) is standing


@pytest.mark.parametrize(
    ("memory", "begin"),
    [
        (MEMORY, 1000.0),
        (replace(MEMORY, oldest=500.0), 500.0),
        (replace(MEMORY, oldest=None), 1000.0),
        (replace(MEMORY, since=900.0), 900.0),
        (replace(MEMORY, since=1001.0, oldest=500.0), 1001.0),
        (replace(MEMORY, cut_off=3000.0), 3000.0),
        (replace(MEMORY, retention=600_000.0), 400_000.0),
    ],
)
def test_the_memory_begins_with_the_route_or_its_oldest_claim_and_after_what_was_purged(
    memory: Remembered, begin: float
) -> None:
    assert begins(memory, NOW) == begin


@pytest.mark.parametrize(
    ("asked", "listed", "window"),
    [
        (NOTHING_ASKED, Listed(2, 5000.0, 6000.0), (5000.0, 6000.0)),
        (NOTHING_ASKED, Listed(2, 10.0, 6000.0), (1000.0, 6000.0)),
        (NOTHING_ASKED, Listed(2, 10.0, NOW + 60), (1000.0, NOW)),
        (NOTHING_ASKED, Listed(2, None, None), (1000.0, NOW)),
        (Asked(None, None, complete=True), Listed(2, 5000.0, 6000.0), (5000.0, NOW)),
        (Asked(7.0, 8.0, complete=True), Listed(2, 5000.0, 6000.0), (7.0, 8.0)),
        (Asked(7.0, NOW + 1, complete=False), Listed(2, 5000.0, 6000.0), (7.0, NOW)),
    ],
)
def test_the_window_is_what_was_asked_for_else_what_both_sides_cover(
    asked: Asked, listed: Listed, window: tuple[float, float]
) -> None:
    agreed = terms(Against.EFFECTS, asked, MEMORY, listed, NOW, lease=37.0)
    assert (agreed.since, agreed.until) == window
    assert agreed.undated_inside is (asked.since is not None)


def test_the_edge_is_as_long_as_a_lease_that_is_longer() -> None:
    def edge(lease: float) -> float:
        return terms(Against.EFFECTS, NOTHING_ASKED, MEMORY, once(5000.0), NOW, lease).edge

    assert (edge(37.0), edge(EDGE + 60)) == (EDGE, EDGE + 60)
