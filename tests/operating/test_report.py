"""`report` on the command line: what it tells, and how it ends."""

from __future__ import annotations

import re

import pytest

from gateway.core.observing import What
from tests.operating.lines import refused, run, told
from tests.operating.noted import HEALTHY, OTHER_BODIES, RIGHT, Noted, Notes
from tests.operating.rows import Rows

RIGHT_KEY = """\
route       orders, in observe
key         json:/event_id
noted       THEN to NOW, 3d
deliveries  12,737

duplicates  3 concurrent, 312 retry, 40 redrive
            concurrent: beside the first one, or within milliseconds of its end
            the oldest came 2h after the first one; the promise on file ends
            after 33d
            the consumer took 340 of them as well: what it did, it did twice, as
            for evt_of_taken_again

enforcing   12,345 forwarded
            20 forwarded once more after a failure, 5 of them marked
            352 answered by the gateway, and not forwarded
            3 made to wait for another one's result, not to run beside it
            10 forwarded unprotected: no id, or no store
            7 passed on: no events

perhaps     10 of 12,730 deliveries had no usable id at json:/event_id: they
            would not be protected. Another kind of event may have its id
            elsewhere, or none.
remedy      Save one of these deliveries and see with dedup-gateway try --route
            orders FILE what is there. Where another kind of event has its id
            elsewhere, write both: event_id: A | B.

so          The key looks right: ids came again 375 times. Change the route to
            mode: forward. The memory stays: what was completed while observing
            is a duplicate from then on.
            Gateways store what they noted every 5 seconds. One that was killed
            has taken its last seconds with it.
"""
TIMES = re.compile(r"20\d\d-\S+Z to 20\d\d-\S+Z")


async def test_a_right_key_is_told_with_all_that_it_rests_on(noted: Noted) -> None:
    await noted.notes(noted.route(), HEALTHY)
    ended = await run("report", "--route", "orders")
    assert (ended.exit_code, TIMES.sub("THEN to NOW", ended.stdout)) == (0, RIGHT_KEY)


async def test_the_same_is_told_in_json(noted: Noted) -> None:
    await noted.notes(noted.route(), HEALTHY)
    said = await told("report", "--route", "orders")
    assert said["standing"] == "right"
    assert said["duplicates"] == {"concurrent": 3, "retry": 312, "redrive": 40}
    assert said["enforcing"] == {
        "forwarded": 12_345, "again": 20, "marked": 5, "answered": 352, "waited": 3,
        "unprotected": 10, "refused": {}, "passed": 7, "batches": {},
    }  # fmt: skip
    assert (said["deliveries"], said["repeats"], said["taken_again"]) == (12_737, 375, 340)
    assert (said["oldest_duplicate_seconds"], said["retention_floor_seconds"]) == (7200, 33 * 86400)
    (finding,) = said["findings"]
    assert (finding["kind"], finding["sure"]) == ("no_id", False)
    assert (finding["number"], finding["of"]) == (10, 12_730)
    assert (said["since"][-1], said["until"][-1], said["seconds"]) == ("Z", "Z", 3 * 86400)


async def test_too_little_is_told_to_be_too_little(noted: Noted) -> None:
    few: Notes = [(What.NEW, "", 40), (What.DURABLE, "retry", 3)]
    await noted.notes(noted.route(), few, days=0.25)
    ended = await run("report", "--route", "orders")
    said = " ".join(ended.stdout.split())
    assert ended.exit_code == 0
    assert "ids came again 3 times within 6h, and 20 times within 1d would be enough" in said
    assert "mode: forward" not in said


async def test_a_mended_key_is_not_blamed_for_what_the_one_before_it_did(noted: Noted) -> None:
    await noted.notes(noted.route("    event_id: json:/order\n"), OTHER_BODIES)
    await noted.notes(noted.route(), [(What.NEW, "", 4)], series=2)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 0
    said = " ".join(ended.stdout.split())
    assert "deliveries 4 " in said
    assert "Not counted here: 560 deliveries under another key, or another per_attempt" in said


async def test_since_leaves_out_what_was_noted_before(noted: Noted) -> None:
    route = noted.route()
    await noted.notes(route, [(What.NEW, "", 100)], ago=10)
    await noted.notes(route, [(What.NEW, "", 5)], series=2, days=2)
    assert (await told("report", "--route", "orders"))["deliveries"] == 105
    assert (await told("report", "--route", "orders", "--since", "7d"))["deliveries"] == 5


@pytest.mark.parametrize(
    ("mode", "says"),
    [("observe", "Send it some deliveries"), ("forward", "It is in mode forward: only `observe`")],
)
async def test_where_nothing_was_noted_it_says_why(noted: Noted, mode: str, says: str) -> None:
    noted.route()
    noted.set_mode(mode)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 0
    assert "Nothing was noted of this route" in " ".join(ended.stdout.split())
    assert says in " ".join(ended.stdout.split())
    assert (await told("report", "--route", "orders"))["since"] is None


async def test_an_id_cannot_drive_the_terminal(noted: Noted, rows: Rows) -> None:
    await noted.notes(noted.route(), HEALTHY)
    await rows.sql.execute("update dedup.observations set example = $1", "evt\x1b[2J")
    said = (await run("report", "--route", "orders")).stdout
    assert "\x1b" not in said
    assert "evt\\x1b[2J" in said


async def test_what_cannot_be_told_ends_with_the_usual_codes(
    noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted.route()
    assert "there is orders" in await refused("report", "--route", "billing", code=2)
    noted.route(RIGHT, '    scope: "${NOT_HERE}"\n')
    assert "scope of route orders has a variable" in await refused(
        "report", "--route", "orders", code=2
    )
    noted.route()
    assert "--since: '7 days'" in await refused(
        "report", "--route", "orders", "--since", "7 days", code=2
    )
    assert "--since: '9999999d' is too long" in await refused(
        "report", "--route", "orders", "--since", "9999999d", code=2
    )
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "cannot be asked" in await refused("report", "--route", "orders", code=3)


async def test_a_route_that_passes_everything_on_has_no_key_to_be_wrong(noted: Noted) -> None:
    route = noted.route("    pass_through: its ids come for every change\n")
    await noted.notes(route, [(What.PASSED, "", 300)])
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 0
    assert "there is no key to be right or wrong" in " ".join(ended.stdout.split())


BATCHES: Notes = [
    (What.BATCH, "new", 8),
    (What.BATCH, "mixed", 14),
    (What.BATCH, "durable", 3),
    (What.ITEM, "new", 32),
    (What.ITEM, "durable", 30),
    (What.ITEM, "unkeyed", 8),
    (What.TAKEN_AGAIN, "", 25),
    (What.PASSED, "", 2),
]
OF_BATCHES = """\
duplicates  of the events in batches: 32 new, 30 seen before, 8 without an id
            the consumer took 25 of the events seen before as well: what it did,
            it did twice, as for evt_of_taken_again

enforcing   2 passed on: no events
            14 batches {mixed}
            8 batches forwarded
            3 batches answered by the gateway: all in them was seen

wrong       8 of 70 deliveries and items of batches had no usable id: they would
            not be protected. Another kind of event may have its id elsewhere,
            or none.
"""


MIXED = [
    ("filter", "forwarded without the events that were seen"),
    ("whole", "forwarded whole and marked, for some of their events were\n            seen"),
]


@pytest.mark.parametrize(("on_mixed", "mixed"), MIXED)
async def test_of_batches_their_events_are_told(noted: Noted, on_mixed: str, mixed: str) -> None:
    lines = "    batch: {items: json:/events, event_id: json:/id}\n"
    await noted.notes(noted.route(lines, f"    on_mixed: {on_mixed}\n"), BATCHES)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 1
    assert OF_BATCHES.format(mixed=mixed) in ended.stdout
    assert "json:/id of each item" in ended.stdout
