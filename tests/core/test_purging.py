"""When a claim is forgotten: last of all what was kept for longest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.claim import Claim, State
from gateway.core.purging import RELEASED_FOR, UNSAID, Purged, purged

NOW = 1_800_000_000.0
DAY = 86400.0
RETENTION = 30 * DAY
TICK = 0.25

DONE = Claim(State.COMPLETED, False, 1, 0.0, 7)
CLAIMED = replace(DONE, state=State.CLAIMED, token=1, lease_until=0.0)
STORED = replace(DONE, state=State.STORED)
RELEASED = replace(DONE, state=State.RELEASED)
DOUBTFUL = replace(RELEASED, doubtful=True)


def seen(claim: Claim, ago: float) -> Claim:
    return replace(claim, first_seen=NOW - ago)


def judged(
    claim: Claim, settled: float | None = None, retention: float | None = RETENTION
) -> Purged | None:
    return purged(claim, settled, retention, NOW, owed=False)


@pytest.mark.parametrize(
    ("claim", "kind"),
    [(DONE, Purged.RESOLVED), (STORED, Purged.UNRESOLVED), (DOUBTFUL, Purged.UNRESOLVED)],
)
def test_a_claim_is_kept_for_its_retention_and_the_hour_that_its_row_does_not_tell(
    claim: Claim, kind: Purged
) -> None:
    assert judged(seen(claim, RETENTION + UNSAID)) is None
    assert judged(seen(claim, RETENTION + UNSAID + TICK)) is kind


def test_retention_counts_from_the_settling_where_that_came_late() -> None:
    old = seen(DONE, 90 * DAY)
    assert judged(old, settled=NOW - RETENTION) is None
    assert judged(old, settled=NOW - RETENTION - TICK) is Purged.RESOLVED


def test_retention_counts_from_the_first_delivery_where_the_clock_went_back_since() -> None:
    assert judged(seen(DONE, RETENTION), settled=NOW - 90 * DAY) is None


def test_a_claim_that_nobody_settled_is_kept_from_the_end_of_its_lease() -> None:
    old = seen(CLAIMED, 90 * DAY)
    assert judged(replace(old, lease_until=NOW - RETENTION)) is None
    assert judged(replace(old, lease_until=NOW - RETENTION - TICK)) is Purged.UNRESOLVED


@pytest.mark.parametrize("retention", [1.0, RETENTION])
@pytest.mark.parametrize("doubtful", [False, True])
def test_a_live_lease_is_never_purged_however_old_its_event(
    doubtful: bool, retention: float
) -> None:
    live = replace(seen(CLAIMED, 900 * DAY), doubtful=doubtful, lease_until=NOW + TICK)
    assert judged(live, retention=retention) is None


@pytest.mark.parametrize("claim", [DONE, CLAIMED, STORED, RELEASED, DOUBTFUL])
def test_the_claim_of_an_undelivered_entry_is_never_purged(claim: Claim) -> None:
    assert purged(seen(claim, 900 * DAY), None, 1.0, NOW, owed=True) is None


def test_what_was_released_without_doubt_goes_after_an_hour_whatever_the_retention() -> None:
    late = seen(RELEASED, 90 * DAY)
    for retention in (RETENTION, 1.0, None):
        assert judged(late, NOW - RELEASED_FOR, retention) is None
        assert judged(late, NOW - RELEASED_FOR - TICK, retention) is Purged.RESOLVED
    assert judged(seen(RELEASED, RELEASED_FOR + UNSAID)) is None
    assert judged(seen(RELEASED, RELEASED_FOR + UNSAID + TICK)) is Purged.RESOLVED


@pytest.mark.parametrize("claim", [DONE, CLAIMED, STORED, DOUBTFUL])
def test_nothing_goes_before_its_route_has_registered_a_retention(claim: Claim) -> None:
    assert judged(seen(claim, 900 * DAY), retention=None) is None
