"""Audits of routes whose keys are not made of one id."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core.keying import digest
from tests.operating.audited import DAY, Audited
from tests.operating.lines import run, told
from tests.operating.rows import FILE, Rows

SHARED = """\
  - name: returns
    path: /hooks/returns
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/event_id
    scope: orders
"""


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    made.configure(FILE + SHARED)
    await made.begin()
    return made


async def test_events_of_a_batch_are_audited_one_by_one(audited: Audited) -> None:
    await audited.claim("mail_1", "mail_2", "mail_3", route="mails")
    rows = [("mail_0", 3 * DAY), ("mail_1", DAY), ("mail_2", DAY), ("mail_2", 0.5 * DAY)]
    said = await told("audit", "--route", "mails", "--effects", audited.csv(*rows), code=1)
    assert [(one["kind"], one["event_id"]) for one in said["findings"]] == [
        ("leak", "mail_0"), ("loss", "mail_3"), ("double", "mail_2"),
    ]  # fmt: skip


async def test_a_dropped_batch_is_no_loss_of_its_events(audited: Audited) -> None:
    await audited.claim("mail_1", "mail_2", route="mails")
    for event_id, entry in (("mail_1", bytes(16)), ("mail_2", bytes([1] * 16))):
        await audited.sql.execute(
            "insert into dedup.entry_items (key, entry, fingerprint, event_id)"
            " values ($1, $2, 'x', $3)",
            digest(["mails"], [event_id]).hex(), entry.hex(), event_id.encode(),
        )  # fmt: skip
    await audited.sql.execute(
        "insert into dedup.actions (who, action, key, route) values ('alice', 'drop', $1, 5)",
        bytes(16).hex(),
    )
    effects = audited.csv(("mail_0", 3 * DAY), ("mail_0", 0.5 * DAY))
    said = await told("audit", "--route", "mails", "--effects", effects, code=1)
    found = [(one["kind"], one["event_id"]) for one in said["findings"]]
    assert ("loss", "mail_2") in found
    assert ("loss", "mail_1") not in found
    assert said["claims_not_listed"]["dropped"] == 1


async def test_several_events_of_one_operation_are_no_double_and_one_of_them_twice_is(
    audited: Audited,
) -> None:
    def row(event_id: str, order: str, ago: float) -> dict[str, str]:
        place = {"json:/order/id": order, "header:X-Topic": "paid"}
        return {"id": event_id, **place, "time": audited.at(ago)}

    for order in ("1", "2"):
        key = digest(["tickets"], ["ticket", order, "paid"])
        await audited.claim(f"evt_{order}", route="tickets", key=key)
    rows = [row("evt_0", "0", 3 * DAY), row("evt_1", "1", DAY), row("evt_1b", "1", DAY)]
    rows += [row("evt_2", "2", DAY), row("evt_2", "2", 0.5 * DAY)]
    effects = audited.ndjson(rows)
    said = await told("audit", "--route", "tickets", "--effects", effects, code=1)
    assert [(one["kind"], one["event_id"]) for one in said["findings"]] == [
        ("leak", "evt_0"), ("double", "evt_2"),
    ]  # fmt: skip
    assert said["operations_of_several_events"] == 1
    text = await run("audit", "--route", "tickets", "--effects", effects)
    assert "1 operation of several events each: no doubles" in text.stdout


async def test_claims_that_another_route_of_the_scope_took_are_found_and_told(
    audited: Audited,
) -> None:
    key = digest(["orders"], ["evt_of_returns"])
    await audited.claim("evt_of_returns", route="returns", key=key)
    lost = digest(["orders"], ["evt_lost_by_returns"])
    await audited.claim("evt_lost_by_returns", route="returns", key=lost)
    await audited.claim("evt_1")
    rows = [("evt_of_returns", 3 * DAY), ("evt_1", DAY), ("evt_of_returns", 0.5 * DAY)]
    effects = audited.csv(*rows)
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"double": ["evt_of_returns"]}
    assert said["claimed_by"] == {"orders": 1, "returns": 1}
    text = " ".join((await run("audit", "--route", "orders", "--effects", effects)).stdout.split())
    assert "1 event claimed by route returns, which shares the scope" in text
    assert "the scope is shared with returns: claims that were made there are found" in text


async def test_where_ids_are_not_kept_a_claim_is_named_by_its_key(audited: Audited) -> None:
    await audited.claim("evt_1", kept=False, ago=2 * DAY)
    effects = audited.csv(("evt_0", 3 * DAY), ("evt_0", DAY))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"]["loss"] == [None]
    text = await run("audit", "--route", "orders", "--effects", effects)
    assert f"  key {digest(['orders'], ['evt_1']).hex()}\n" in text.stdout


async def test_a_composite_id_under_a_scope_of_its_own_is_found(audited: Audited) -> None:
    key = digest(["payments"], ["t,1", "v1", "paid"])
    await audited.claim("t,1,v1,paid", route="payments", key=key)
    rows = [{"form:txn_id": "t,1", "form:status": "paid", "time": audited.at(DAY)}]
    said = await told("audit", "--route", "payments", "--effects", audited.ndjson(rows))
    assert said["list"] == {"matched": 1}


async def test_ids_that_no_database_could_keep_as_text_are_compared_and_shown(
    audited: Audited,
) -> None:
    odd = ["nul\x00", "lone\udc80", "é" * 300]
    for event_id in odd[:2]:
        await audited.claim("?", key=digest(["orders"], [event_id]))
    rows = [{"id": one, "time": audited.at(DAY)} for one in odd]
    said = await audited.audit("--effects", audited.ndjson(rows))
    assert said["by_kind"] == {"leak": ["é" * 255]}
    double = await audited.audit("--effects", audited.ndjson(rows + rows[:2]))
    assert double["by_kind"]["double"] == odd[:2] or double["by_kind"]["double"] == odd[1::-1]
