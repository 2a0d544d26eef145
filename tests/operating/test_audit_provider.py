"""`audit` against a provider's list of events."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operating.audited import DAY, Audited
from tests.operating.lines import run
from tests.operating.rows import Rows


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    await made.begin()
    return made


async def test_events_that_never_arrived_and_claims_that_the_provider_does_not_know_are_found(
    audited: Audited,
) -> None:
    await audited.claim("evt_1", "evt_unknown")
    await audited.claim("evt_2", state="R", ago=2 * DAY)
    await audited.claim("evt_unknown_too", state="r", ago=2 * DAY)
    listed = audited.csv(
        ("evt_old", 50 * DAY),
        ("evt_0", 5 * DAY),
        ("evt_2", 2 * DAY),
        ("evt_1", DAY),
        ("evt_1", DAY - 600),
        ("evt_late", 0.5 * DAY),
        ("evt_on_its_way", 60),
        name="stripe.csv",
    )
    said = await audited.audit("--provider-log", listed)
    assert said["by_kind"] == {
        "missing": ["evt_0", "evt_late"],
        "unknown": ["evt_unknown_too", "evt_unknown"],
    }
    assert said["found"] == {"missing": 2, "unknown": 2}
    assert said["list"] == {"edge": 1, "forgotten": 1, "matched": 2}
    assert said["against"] == "provider"
    text = (await run("audit", "--route", "orders", "--provider-log", listed)).stdout
    assert "missing: sent, says the provider, and without a claim\n" in text
    assert "  released                 evt_unknown_too\n" in text
    assert "1 event without a claim, sent less than 5m before the audit\n" in text


async def test_a_list_that_claims_agree_with_is_nothing_wrong(audited: Audited) -> None:
    await audited.claim("evt_1", state="C")
    listed = audited.csv(("evt_1", DAY), name="provider.csv")
    said = await audited.audit("--provider-log", listed, code=0)
    assert said["list"] == {"matched": 1}
    text = await run("audit", "--route", "orders", "--provider-log", listed)
    assert "The provider's list and claims agree" in text.stdout


async def test_a_partial_list_of_the_provider_finds_no_unknown_claims(audited: Audited) -> None:
    await audited.claim("evt_1", "evt_2")
    listed = audited.csv(("evt_0", 2 * DAY), ("evt_1", 0.5 * DAY), name="provider.csv")
    said = await audited.audit("--provider-log", listed, "--partial")
    assert said["by_kind"] == {"missing": ["evt_0"]}
