"""What `report` finds wrong with a key, and what it says to do."""

from __future__ import annotations

import pytest

from gateway.core.observing import What
from tests.operating.lines import run, told
from tests.operating.noted import HEALTHY, OTHER_BODIES, RIGHT, Noted, Notes


def delivery_id(header: str) -> str:
    return f"    event_id: header:{header}\n"


NEVER_AGAIN: Notes = [(What.NEW, "", 500), (What.BODY, "", 400), (What.SAME_BODY, "", 80)]
WITHOUT: Notes = [(What.UNKEYED, "json:/evnt_id", 60)]
# The route's lines, what was noted, the finding, and what is said of it.
BY_OPERATION = """\
    event_id: json:/event_id
    operation_key: [json:/order, json:/at]
"""
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
            "make the id of several parts, as in event_id: [json:/order, json:/type]",
            "per_attempt",
            "operation_key",
        ],
    ),
    (
        "    event_id: [json:/order, json:/shop]\n",
        OTHER_BODIES,
        "business_id",
        ["the 2 parts of event_id do not tell them apart: add one that does, or take others."],
    ),
    (
        "    event_id: [json:/order, json:/shop]\n    event_type: json:/kind\n",
        OTHER_BODIES,
        "business_id",
        ["add their type to the id, as in event_id: [json:/order, json:/shop, json:/kind], or"],
    ),
    (
        "    event_id: [json:/order, json:/kind]\n    event_type: json:/kind\n",
        OTHER_BODIES,
        "business_id",
        ["the 2 parts of event_id do not tell them apart"],
    ),
    (
        "    batch: {items: json:/*, event_id: json:/order, event_type: json:/kind}\n",
        [(What.BATCH, "new", 9), (What.ITEM, "durable", 60), (What.MISMATCH, "other_type", 40)],
        "business_id",
        ["add their type to the id, as in batch.event_id: [json:/order, json:/kind], or take"],
    ),
    (
        BY_OPERATION,
        NEVER_AGAIN,
        "delivery_id",
        [
            "80 bodies came again under another operation",
            "json:/order, json:/at looks like another operation every time",
            "operation_key has to be what is the same in both, and in the other events of its",
        ],
    ),
    (
        BY_OPERATION,
        OTHER_BODIES,
        "business_id",
        ["json:/event_id looks like the id of what several events", "name that in per_attempt. so"],
    ),
    (
        BY_OPERATION,
        [(What.UNKEYED, "json:/order", 60)],
        "no_id",
        ["60 of 60 deliveries had no usable operation and no usable id at json:/order"],
    ),
    (
        "    provider: sendgrid\n    batch: {items: json:/*, event_id: json:/smtp-id}\n",
        [
            (What.BATCH, "new", 9),
            (What.ITEM, "new", 99),
            (What.BODY, "", 90),
            (What.SAME_BUT_ID, "", 9),
        ],
        "delivery_id",
        ["json:/smtp-id of each item looks like", "The preset sendgrid has json:/sg_event_id | "],
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


ONE: Notes = [
    (What.NEW, "", 1),
    (What.BODY, "", 1),
    (What.SAME_BODY, "", 1),
    (What.UNKEYED, "json:/event_id", 1),
    (What.BATCH, "new", 1),
]


async def test_one_of_a_kind_is_told_as_one(noted: Noted) -> None:
    await noted.notes(noted.route(), ONE)
    await noted.notes(noted.route("    event_id: json:/other\n"), [(What.NEW, "", 1)], series=2)
    noted.route()
    said = " ".join((await run("report", "--route", "orders")).stdout.split())
    for part in (
        "1 batch forwarded",
        "1 body came again under another id",
        "1 of 2 deliveries had no usable id",
        "Not counted here: 1 delivery under another key",
    ):
        assert part in said
    await noted.notes(noted.route(), [(What.DURABLE, "retry", 1)], series=3)
    said = " ".join((await run("report", "--route", "orders")).stdout.split())
    assert "ids came again 1 time within" in said
