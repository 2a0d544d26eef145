"""Settings about deliveries that the gateway stores, acknowledges and then owes."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from gateway.config import check, report
from gateway.core.retry import RetryPolicy
from gateway.core.route import Mode, OnDoubt, OnStale, Route
from tests.config.conftest import Mistakes, Read, whole, without_place

URL = "http://127.0.0.1:3000/known?id={event_id}"
PROBE = f'on_doubt: probe\nprobe: {{url: "{URL}"}}'
SPANS = "timeout: 8s, retry_horizon: 3d, redrive_window: 1d"
PROMISE = f"promise: {{{SPANS}, source: s, checked: 2026-08-25}}"
HOLD_OLD = "on_stale: hold\nevent_time: json:/at"


def route_of(read: Read, lines: str = "") -> Route:
    return read(whole(route=lines)).routes[0]


def warnings_of(read: Read, lines: str) -> list[str]:
    return without_place(list(read(whole(route=lines)).warnings))


def test_a_route_that_says_nothing_acknowledges_nothing_by_itself(read: Read) -> None:
    route = route_of(read)
    assert (route.on_doubt, route.probe, route.on_stale) == (OnDoubt.RETRY, None, OnStale.FORWARD)
    assert route.acknowledge_after is None
    assert route.retry == RetryPolicy(base=5.0, cap=3600.0, give_up=3 * 86400.0)
    assert route.keep_payload == timedelta(days=7)
    assert route.high_water == 100_000
    assert route.own_replay == timedelta(0)


def test_what_is_written_is_what_the_route_has(read: Read) -> None:
    route = route_of(
        read,
        "mode: inbox\nretry: {base: 1s, cap: 5m, give_up: 12h}\nkeep_payload: 0s\nhigh_water: 9",
    )
    assert route.mode is Mode.INBOX
    assert route.retry == RetryPolicy(base=1.0, cap=300.0, give_up=43200.0)
    assert (route.keep_payload, route.high_water) == (timedelta(0), 9)
    assert route_of(read, "acknowledge_after: 1500ms").acknowledge_after == 1.5
    assert route_of(read, HOLD_OLD).on_stale is OnStale.HOLD
    assert route_of(read, "on_doubt: hold").on_doubt is OnDoubt.HOLD


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        ("mode: inbox", 3),
        ("mode: inbox\nretry: {give_up: 10d}", 10),
        ("mode: inbox\nown_replay: 20d", 20),
        ("retry: {give_up: 10d}", 0),
    ],
)
def test_an_inbox_replays_for_as_long_as_it_tries(read: Read, lines: str, days: int) -> None:
    route = route_of(read, f"{PROMISE}\n{lines}")
    assert route.own_replay == timedelta(days=days)
    assert route.floor == timedelta(days=4 + days)
    assert route.retention == timedelta(days=4 + days) * 1.25


WRONG = [
    ("mode: inbox\nacknowledge_after: 6s",
     "routes.0.acknowledge_after: is for mode: forward; an inbox acknowledges at once; "
     "remove it, or write mode: forward"),
    ("acknowledge_after: 30s",
     "routes.0.acknowledge_after: 30s is not less than upstream.timeout (30s), which ends the "
     "forward; write less, or remove it"),
    ("acknowledge_after: 0s",
     "routes.0.acknowledge_after: is zero, which would never let anything finish; "
     "write a longer time"),
    ("retry: {base: 2h}",
     "routes.0.retry.base: 2h is longer than retry.cap (1h); write 1h or less, or raise cap"),
    ("retry: {give_up: 30m}",
     "routes.0.retry.cap: 1h is longer than retry.give_up (30m), so a pause could outlast it; "
     "write cap: 30m or less, or raise give_up"),
    ("retry: {base: 5, give_up: 1s}",
     "routes.0.retry.base: '5' has no unit; write 5s if seconds are meant"),
    ("retry: 3d", 'routes.0.retry: is not a mapping; write retry: {give_up: "3d"}'),
    ("on_doubt: probe",
     "routes.0.on_doubt: does not say where to ask; "
     'write probe: {url: "http://HOST:PORT/known?id={event_id}"} beside it'),
    (PROBE.replace("on_doubt: probe", "on_doubt: hold"),
     "routes.0.probe: is never asked with on_doubt: hold; write on_doubt: probe, or remove it"),
    (PROBE.replace("on_doubt: probe", ""),
     "routes.0.probe: is never asked with on_doubt: retry; write on_doubt: probe, or remove it"),
    ("on_stale: hold",
     "routes.0.on_stale: needs the event's own time to tell what is old; "
     "write event_time: json:/created or its kin"),
    ("mode: inbox\nduplicate_reply: replay",
     "routes.0.duplicate_reply: repeats the consumer's first reply, and an inbox answers before "
     "there is one; write standard, or a reply of your own"),
    ("high_water: 0",
     "routes.0.high_water: '0' is not a whole number from 1; write one, as in 64"),
    ("on_doubt: probe\nprobe: {}",
     "routes.0.probe.url: missing; "
     'write url: "http://127.0.0.1:3000/known?id={event_id}"'),
    (f"on_doubt: probe\nprobe: {URL}",
     f'routes.0.probe: is not a mapping; write probe: {{url: "{URL}"}}'),
    ("on_doubt: ask", "routes.0.on_doubt: 'ask' means nothing here; write retry or hold or probe"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), WRONG)
def test_what_contradicts_is_refused_with_a_remedy(
    mistakes: Mistakes, lines: str, message: str
) -> None:
    assert without_place(mistakes(whole(route=lines))) == [message]


def test_a_mode_that_nobody_knows_is_no_reason_to_find_a_retention_short(
    mistakes: Mistakes,
) -> None:
    none = "promise: {retry_horizon: 0s, redrive_window: 0s}"
    assert len(mistakes(whole(route=f"mode: inbx\n{none}"))) == 1


ADVICE = [
    (f"{PROMISE}\nacknowledge_after: 7500ms",
     "routes.0.acknowledge_after: the provider hangs up after 8s, so the acknowledgement comes too "
     "late or barely in time, and the retry is provoked all the same; write 6s"),
    ("retry: {base: 1s}",
     "routes.0.retry: concerns stored deliveries, and as it is this route stores no new ones"),
    ("keep_payload: 1d", "routes.0.keep_payload: concerns stored deliveries"),
    ("mode: observe\nhigh_water: 5", "routes.0.high_water: concerns stored deliveries"),
    ("mode: inbox\nown_replay: 2d",
     "routes.0.own_replay: 2d is shorter than retry.give_up, for which the gateway itself sends "
     "again; remove it, or write 3d or more"),
    ("mode: inbox\nretention: 2d",
     "routes.0.retention: 2d is shorter than own_replay (3d), so such replays count as new; "
     "write 3d or more"),
    (f"{PROMISE}",
     "routes.0.upstream.timeout: the provider hangs up after 8s; a slower success is recorded, and "
     "its retry answered as a duplicate, but the provider counts a failure; watch "
     "dedup_slow_forwards_total; if it rises, acknowledge_after: 6s in mode: forward answers in "
     "time"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), ADVICE)
def test_what_has_not_the_wished_effect_is_said(read: Read, lines: str, message: str) -> None:
    said = warnings_of(read, lines)
    assert len(said) == 1
    assert said[0].startswith(message)


@pytest.mark.parametrize(
    ("setting", "lines"),
    [("acknowledge_after", "acknowledge_after: 6s"), ("on_doubt", "on_doubt: hold"),
     ("on_doubt", PROBE), ("on_stale", HOLD_OLD)],
)  # fmt: skip
def test_the_panic_switch_is_taken_and_says_what_it_switches_off(
    read: Read, setting: str, lines: str
) -> None:
    assert warnings_of(read, lines) == []
    assert warnings_of(read, f"{lines}\nmode: observe") == [
        f"routes.0.{setting}: concerns no new delivery in observe, which stores none and answers "
        "none; it will once the mode is forward"
    ]


def test_an_observer_answers_nobody_in_time(read: Read) -> None:
    said = warnings_of(read, f"{PROMISE}\nmode: observe\nacknowledge_after: 7500ms")
    assert [line.partition(":")[0] for line in said] == [
        "routes.0.upstream.timeout",
        "routes.0.acknowledge_after",
    ]


@pytest.mark.parametrize("lines", ["mode: inbox", "acknowledge_after: 7s", "acknowledge_after: 6s"])
def test_a_provider_that_is_answered_in_time_need_not_wait_for_the_consumer(
    read: Read, lines: str
) -> None:
    assert warnings_of(read, f"{PROMISE}\n{lines}") == []


@pytest.mark.parametrize("lines", ["mode: inbox", "acknowledge_after: 6s", "on_doubt: hold", PROBE,
                                   HOLD_OLD])  # fmt: skip
def test_a_route_that_stores_says_what_it_keeps_and_for_how_long(read: Read, lines: str) -> None:
    assert warnings_of(read, f"{lines}\nretry: {{base: 1s}}\nhigh_water: 5") == []
    said = " ".join(report.as_text(check(read(whole(route=lines)))).split())
    assert "stored tried every 5s to 1h for 3d, kept 7d once delivered" in said
    assert "keep_payload: stored deliveries are whole ones, with the personal data in them" in said
    bounded = lines == "mode: inbox"
    assert ("high_water: with 100000 pending or leased events" in said) is bounded
    assert ("100000 at most" in said) is bounded


def test_a_delivery_that_is_not_kept_goes_as_soon_as_it_is_delivered(read: Read) -> None:
    remarks = check(read(whole(route="mode: inbox\nkeep_payload: 0s"))).routes[0].remarks
    assert any("they go as soon as they were delivered or dropped" in one for one in remarks)


@pytest.mark.parametrize("lines", ["mode: forward", "mode: observe\non_doubt: hold"])
def test_a_route_that_stores_nothing_says_nothing_of_it(read: Read, lines: str) -> None:
    findings = check(read(whole(route=lines)))
    assert findings.routes[0].stored is None
    assert "keep_payload" not in report.as_text(findings)


REMARKS = [
    ("mode: inbox", "inbox: the provider is told success before the consumer has seen the event"),
    ("acknowledge_after: 6s", "acknowledge_after: once a delivery was acknowledged the provider"),
    ("on_doubt: hold", "on_doubt hold: an event whose earlier attempt may have had its effect is "
     "acknowledged, which ends the provider's retries, and is sent again only by a person"),
    (PROBE, "one that stays undecided is acknowledged after probe.give_up, which ends the "
     "provider's retries, and waits for a person"),
    (HOLD_OLD, "on_stale hold: a new event older than the retention is acknowledged, which ends "
     "the provider's retries"),
    ("on_doubt: retry", "set true if the consumer knows Idempotency-Key"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "remark"), REMARKS)
def test_check_says_what_ends_the_retries_of_the_provider(
    read: Read, lines: str, remark: str
) -> None:
    assert remark in " ".join(report.as_text(check(read(whole(route=lines)))).split())
    plain = " ".join(report.as_text(check(read(whole(route="mode: observe")))).split())
    assert remark not in plain


def test_an_idempotency_key_is_recommended_where_doubt_means_another_send(read: Read) -> None:
    for lines in ("on_doubt: hold", PROBE, "mode: observe"):
        remarks = check(read(whole(route=lines))).routes[0].remarks
        assert not any("idempotency_key" in remark for remark in remarks)
    remarks = check(read(whole(route="idempotency_key: true"))).routes[0].remarks
    assert not any("set true" in remark for remark in remarks)


def test_check_shows_who_answers_and_what_becomes_of_doubt(read: Read) -> None:
    lines = f"{PROBE}\nacknowledge_after: 6s\nevent_time: json:/at"
    found = json.loads(report.as_json(check(read(whole(route=lines)))))["routes"][0]
    assert found["answered"] == "by the consumer; by the gateway after 6s"
    assert found["doubt"] == f"probe {URL} within 2s, hold after 1h"
    assert found["stale"] == "forward"
    text = report.as_text(check(read(whole(route="mode: inbox"))))
    assert "  mode        inbox\n  answered    by the gateway at once" in text
    assert "  doubt       retry\n" in text


def test_check_says_that_an_inbox_replays_by_itself(read: Read) -> None:
    text = report.as_text(check(read(whole(route=f"{PROMISE}\nmode: inbox"))))
    assert "floor       7d = retry horizon 3d + redrive window 1d + own replay 3d" in text
    assert "own replay: default in inbox: retry.give_up" in text


def test_a_retention_below_what_an_inbox_needs_fails_the_check(read: Read) -> None:
    findings = check(read(whole(route=f"{PROMISE}\nmode: inbox\nretention: 6d")))
    assert findings.unsafe
    assert not check(read(whole(route=f"{PROMISE}\nretention: 6d"))).unsafe
