"""What purging costs: the store does not grow under it, and deliveries hardly notice."""

from __future__ import annotations

import pytest

from bench.purging import purge_beside, steady
from bench.run import DISK
from gateway.demo.room import temporary_room
from gateway.store.embedded import EmbeddedPostgres

# A table that grew by what comes, or an index that kept what goes, would be over this in the end.
GROWN = 1.05


async def test_table_and_index_stay_as_large_as_they_are_when_as_many_claims_come_as_go(
    dsn: str,
) -> None:
    grown = await steady(dsn, rounds=15, claims=3000)
    assert grown.ratio < GROWN, grown.sizes
    assert grown.sizes[3] > 2 * grown.sizes[0]


@pytest.mark.soak
async def test_the_same_of_a_hundred_thousand_claims_a_round(dsn: str) -> None:
    grown = await steady(dsn, rounds=24, claims=100_000)
    assert grown.ratio < GROWN, grown.sizes


@pytest.mark.soak
async def test_a_million_claims_are_purged_beside_deliveries_that_hardly_notice() -> None:
    """Ratios only: both are measured in one go, on whatever machine this is."""
    with (
        temporary_room(DISK) as room,
        EmbeddedPostgres(room / "claims", log=lambda event, /, **facts: None) as server,
    ):
        found = await purge_beside(server, 1_000_000)
    assert found.claims == 1_000_000
    assert found.ratio <= 2.0, found
