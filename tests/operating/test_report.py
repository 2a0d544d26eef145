"""`report` on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.config import load
from gateway.core.observing import What, print_of
from gateway.core.route import Route
from tests.operating.lines import refused, run, told
from tests.operating.rows import ORDERS, Rows

HEAD = """\
store: {dsn: "${DATABASE_URL}"}
routes:
"""
ROUTE = """\
  - name: orders
    path: /hooks/orders
    upstream: {url: "http://127.0.0.1:3000"}
    mode: observe
    promise: {timeout: 8s, retry_horizon: 3d, redrive_window: 30d, source: "https://docs.example.com"}
"""
RIGHT = "    event_id: json:/event_id\n"
Notes = list[tuple[What, str, int]]


class Noted:
    """A configuration, and notes under its key."""

    def __init__(self, file: Path, sql: asyncpg.Connection) -> None:
        self._file = file
        self._sql = sql

    def route(self, *lines: str) -> Route:
        self._file.write_text(HEAD + ROUTE + "".join(lines or (RIGHT,)))
        (route,) = load(self._file, env={}, variables_required=False).routes
        return route

    def set_mode(self, mode: str) -> None:
        text = self._file.read_text()
        self._file.write_text(text.replace("mode: observe", f"mode: {mode}"))

    async def notes(
        self,
        route: Route,
        notes: Notes,
        *,
        series: int = 1,
        days: float = 3.0,
        ago: float = 0.0,
        age: float = 7200.0,
    ) -> None:
        """Over so many days, until so many days ago. `age`: of the oldest duplicate, in seconds."""
        for what, detail, number in notes:
            await self._sql.execute(
                "insert into dedup.observations values ($1, $2, $3, $4, $5,"
                " now() - $6 * interval '1 day', now() - $7 * interval '1 day', $8, $9, $10)",
                series, ORDERS, UUID(print_of(route)), what.value, detail, days + ago, ago, number,
                age if what is What.DURABLE else 0.0, f"evt_of_{what.value}",
            )  # fmt: skip


@pytest.fixture
def noted(file: Path, rows: Rows) -> Noted:
    return Noted(file, rows.sql)


HEALTHY: Notes = [
    (What.NEW, "", 12_345),
    (What.BODY, "", 12_345),
    (What.AGAIN, "", 15),
    (What.AGAIN, "marked", 5),
    (What.DURABLE, "retry", 312),
    (What.DURABLE, "redrive", 40),
    (What.CONCURRENT, "", 3),
    (What.TAKEN_AGAIN, "", 340),
    (What.UNKEYED, "json:/event_id", 10),
    (What.PASSED, "", 7),
]
RIGHT_KEY = """\
route       orders, in observe
key         json:/event_id
noted       THEN to NOW, 3d
deliveries  12,737

duplicates  3 concurrent, 312 retry, 40 redrive
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


def delivery_id(header: str) -> str:
    return f"    event_id: header:{header}\n"


NEVER_AGAIN: Notes = [(What.NEW, "", 500), (What.BODY, "", 400), (What.SAME_BODY, "", 80)]
DIFFERING: Notes = [(What.MISMATCH, "", 12), (What.MISMATCH, "other_type", 40)]
OTHER_BODIES: Notes = [(What.NEW, "", 500), (What.DURABLE, "retry", 60), *DIFFERING]
WITHOUT: Notes = [(What.UNKEYED, "json:/evnt_id", 60)]
# The route's lines, what was noted, the finding, and what is said of it.
WRONG = [
    (
        delivery_id("X-Some-Id"),
        NEVER_AGAIN,
        "delivery_id",
        ["80 bodies came again under another id", "header:X-Some-Id looks like", "same_body."],
    ),
    (
        delivery_id("x-zendesk-webhook-invocation-id"),
        NEVER_AGAIN,
        "delivery_id",
        ["Zendesk webhooks: never header:X-Zendesk-Webhook-Invocation-Id", "Its event id is"],
    ),
    (
        "    provider: stripe\n" + delivery_id("X-Some-Id"),
        NEVER_AGAIN,
        "delivery_id",
        ["The preset stripe has json:/id."],
    ),
    (
        "    event_id: json:/order\n",
        OTHER_BODIES,
        "business_id",
        [
            "52 of 60 duplicates came with another body, at least 40 of them with another type",
            "per_attempt",
            "operation_key",
        ],
    ),
    (
        "    event_id: json:/evnt_id\n",
        WITHOUT,
        "no_id",
        [
            "60 of 60 deliveries",
            "at json:/evnt_id",
            "looks mistyped",
            "dedup-gateway try --route orders FILE",
        ],
    ),
    (
        delivery_id("X-Id"),
        [(What.NEW, "", 9), (What.CONFLICTING, "header:X-Id: two different values", 6)],
        "conflicting",
        ["6 of 15 deliveries would be refused with 400, for header:X-Id: two different values"],
    ),
    (
        RIGHT,
        [(What.NEW, "", 2), (What.UNSIGNED, "wrong", 40), (What.UNSIGNED, "missing", 3)],
        "unsigned",
        ["43 of 45 deliveries would be refused with 401", "a signature that is wrong"],
    ),
]


async def test_signatures_that_came_too_late_are_no_matter_of_the_secret(noted: Noted) -> None:
    notes: Notes = [(What.NEW, "", 2), (What.UNSIGNED, "expired", 40)]
    await noted.notes(noted.route(RIGHT), notes)
    said = " ".join((await run("report", "--route", "orders")).stdout.split())
    assert "signature.tolerance" in said
    assert "Compare secret and scheme" not in said


@pytest.mark.parametrize(("lines", "notes", "kind", "says"), WRONG)
async def test_a_wrong_key_is_exit_code_1_and_its_remedy_is_named(
    noted: Noted, lines: str, notes: Notes, kind: str, says: list[str]
) -> None:
    await noted.notes(noted.route(lines), notes)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 1
    words = " ".join(ended.stdout.split())
    for part in [*says, "Mend this before you enforce anything"]:
        assert part in words
    assert max(map(len, ended.stdout.splitlines())) <= 80
    said = await told("report", "--route", "orders", code=1)
    assert said["standing"] == "wrong"
    assert [finding["kind"] for finding in said["findings"] if finding["sure"]] == [kind]


async def test_a_duplicate_that_is_older_than_the_promise_is_found(noted: Noted) -> None:
    await noted.notes(noted.route(), HEALTHY, age=34 * 86400.0)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 1
    said = " ".join(ended.stdout.split())
    assert "A duplicate came 34d after the first one (evt_of_durable)" in said
    assert "the promise on file ends after 33d: it is too short" in said


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
    assert "560 deliveries were noted under another key, and do not count here" in said


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


async def test_a_route_that_passes_everything_on_has_no_key_to_be_wrong(noted: Noted) -> None:
    route = noted.route("    pass_through: its ids come for every change\n")
    await noted.notes(route, [(What.PASSED, "", 300)])
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 0
    assert "there is no key to be right or wrong" in " ".join(ended.stdout.split())


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
    assert "--since: '7 days'" in await refused(
        "report", "--route", "orders", "--since", "7 days", code=2
    )
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "cannot be asked" in await refused("report", "--route", "orders", code=3)


BATCHES: Notes = [
    (What.BATCH, "new", 8),
    (What.BATCH, "mixed", 14),
    (What.BATCH, "durable", 3),
    (What.ITEM, "new", 32),
    (What.ITEM, "durable", 30),
    (What.ITEM, "unkeyed", 8),
    (What.PASSED, "", 2),
]
OF_BATCHES = """\
duplicates  in batches, by event: 32 new, 30 durable, 8 unkeyed

enforcing   2 passed on: no events
            14 batches of which some events were seen, and some new
            8 batches forwarded
            3 batches answered by the gateway: all in them was seen

wrong       8 of 70 deliveries and items of batches had no usable id: they would
            not be protected. Another kind of event may have its id elsewhere,
            or none.
"""


async def test_of_batches_their_events_are_told(noted: Noted) -> None:
    lines = "    batch: {items: json:/events, event_id: json:/id}\n"
    await noted.notes(noted.route(lines), BATCHES)
    ended = await run("report", "--route", "orders")
    assert ended.exit_code == 1
    assert OF_BATCHES in ended.stdout
    assert "json:/id of each item" in ended.stdout
