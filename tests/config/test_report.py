"""What `check` says, and what `try` makes of a sample."""

from __future__ import annotations

import gzip
import json
from datetime import date

import pytest

from gateway.config import check, report, sample, try_sample
from tests.config.conftest import Read, whole

PROMISE = "promise: {retry_horizon: 3d, redrive_window: 30d, source: here, checked: 2026-08-25}"


def test_check_shows_the_sum_and_where_each_number_came_from(read: Read) -> None:
    env = {"DEDUP__ROUTES__0__PROMISE__REDRIVE_WINDOW": "10d"}
    printed = report.as_text(check(read(whole(route=PROMISE), env=env)))
    assert "floor       13d = retry horizon 3d +" in printed
    said = " ".join(printed.split())
    assert "floor 13d = retry horizon 3d + redrive window 10d + own replay 0s" in said
    assert "retry horizon: gateway.yaml line 8" in said
    assert "redrive window: environment DEDUP__ROUTES__0__PROMISE__REDRIVE_WINDOW" in said
    assert "own replay: default" in said
    assert "promise here (looked at 2026-08-25)" in said
    assert "retention 16d6h (default: floor + a quarter)" in said


def test_a_retention_below_the_floor_starts_with_a_warning_and_fails_the_check(read: Read) -> None:
    loaded = read(whole(route=f"{PROMISE}\nretention: 20d"))
    message = (
        "gateway.yaml:9: routes.0.retention: 20d is below the floor of 33d, so the latest "
        "duplicates are forwarded as new; write 33d or more, or accept_short_retention: REASON"
    )
    assert loaded.warnings == (message,)
    assert check(loaded).unsafe
    assert message in " ".join(report.as_text(check(loaded)).split())


def test_a_short_retention_with_a_reason_passes_the_check_and_is_shown(read: Read) -> None:
    lines = f"{PROMISE}\nretention: 20d\naccept_short_retention: nobody redrives"
    loaded = read(whole(route=lines))
    assert loaded.warnings == ()
    assert not check(loaded).unsafe
    assert "accepted    nobody redrives" in report.as_text(check(loaded))


def test_the_floor_itself_is_long_enough(read: Read) -> None:
    assert not check(read(whole(route=f"{PROMISE}\nretention: 33d"))).unsafe


WARNINGS = [
    (f"{PROMISE}\naccept_short_retention: why", "routes.0.accept_short_retention: the retention"),
    ("promise: {retry_horizon: 3d, source: s, checked: 2026-01-01}",
     "routes.0.promise.redrive_window: is unknown and counts as 7d"),
    ("promise: {retry_horizon: 3d, redrive_window: 3d}",
     "routes.0.promise: does not say where it is from"),
    (f"{PROMISE[:-1]}, timeout: 8s}}", "routes.0.upstream.timeout: the provider hangs up after 8s"),
    (f"{PROMISE[:-1]}, timeout: 7s}}", "routes.0.upstream.slot_timeout: the provider hangs up"),
    (f"{PROMISE[:-1]}, timeout: 1s}}", "routes.0.promise.timeout: 1s leaves no time to wait"),
    ("methods: [PUT, DELETE]", "routes.0.methods: lacks POST"),
    ("success_status: [208, 409, 429, 500]",
     "routes.0.success_status: has 429, 500, with which consumers say that they failed"),
    ("mode: observe\nmissing_id: refuse", "routes.0.missing_id: has no effect in observe"),
    ("mode: observe\non_store_down: forward", "routes.0.on_store_down: has no effect in observe"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), WARNINGS)
def test_what_is_allowed_and_hardly_meant_is_a_warning(
    read: Read, lines: str, message: str
) -> None:
    assert any(message in warning for warning in read(whole(route=lines)).warnings)


@pytest.mark.parametrize("everybody", ["0.0.0.0/0", '"::/0"'])
def test_a_trust_in_everybody_is_a_warning(read: Read, everybody: str) -> None:
    said = read(whole(top=f"trusted_proxies: [10.0.0.0/8, {everybody}]")).warnings
    assert len(said) == 1
    assert "gateway.yaml:2: trusted_proxies.1: " in said[0]
    assert "trusts everybody" in said[0]


@pytest.mark.parametrize("host", ["keep", "Original"])
def test_a_word_that_people_write_for_preserve_is_a_warning(read: Read, host: str) -> None:
    (said,) = read(whole().replace('3000"}', f'3000", host: {host}}}')).warnings
    assert f"routes.0.upstream.host: '{host}' is sent to the consumer as a host's name" in said


@pytest.mark.parametrize("host", ["preserve", "upstream", "shop", "keep.example"])
def test_other_hosts_are_names_without_a_warning(read: Read, host: str) -> None:
    assert read(whole().replace('3000"}', f'3000", host: {host}}}')).warnings == ()


@pytest.mark.parametrize(("day", "old"), [("2024-08-24", True), ("2024-08-25", False)])
def test_a_promise_that_nobody_has_looked_at_for_two_years_is_a_warning(
    read: Read, day: str, old: bool
) -> None:
    text = whole(route=PROMISE.replace("2026-08-25", day))
    said = "\n".join(read(text, today=date(2026, 8, 25)).warnings)
    assert (f"routes.0.promise.checked: {day} is more than two years ago" in said) is old
    assert read(text).warnings == ()


def test_check_shows_the_methods_that_carry_events(read: Read) -> None:
    said = report.as_text(check(read(whole(route="methods: [GET, PUT, post]"))))
    assert "methods     POST PUT GET\n" in said


def test_a_plain_route_has_no_warnings(read: Read) -> None:
    assert read(whole(route=PROMISE)).warnings == ()


def _two_routes(second: str) -> str:
    other = whole(route=second).replace("orders", "billing")
    return whole() + "\n".join(other.splitlines()[3:]) + "\n"


def test_check_says_once_what_the_choices_of_all_routes_mean(read: Read) -> None:
    said = report.as_text(check(read(_two_routes("missing_id: refuse"))))
    for setting in ("missing_id forward:", "on_store_down refuse:", "idempotency_key false:"):
        assert said.count(setting) == 1
    assert "  - on_store_down refuse:" in said
    assert "  - (orders) missing_id forward:" in said
    assert "  - (billing) missing_id refuse:" in said


def test_what_check_prints_fits_a_terminal(read: Read) -> None:
    lines = "promise: {retry_horizon: 3d}\nretention: 2d\nidempotency_key: true\nmethods: [PUT]"
    text = _two_routes(lines).replace("{embedded: ./data}", '{dsn: "postgresql://h/d"}')
    said = report.as_text(check(read(text)))
    assert "notices:" in said
    assert max(map(len, said.splitlines())) <= 80


def test_check_as_data_has_what_the_text_has(read: Read) -> None:
    found = json.loads(report.as_json(check(read(whole(route=f"{PROMISE}\nretention: 20d")))))
    assert found["ok"] is False
    assert found["wrong"][0]["line"] == 9
    assert found["routes"][0]["floor"] == "33d"
    assert found["routes"][0]["terms"][0] == {
        "what": "retry horizon",
        "span": "3d",
        "origin": "gateway.yaml line 8",
    }


def test_the_report_shows_no_password(read: Read) -> None:
    text = whole().replace("{embedded: ./data}", '{dsn: "postgresql://me:hunter2@h/d?x=hunter2"}')
    findings = check(read(text))
    assert "hunter2" not in report.as_text(findings) + report.as_json(findings)
    assert "postgresql://me@h/d" in report.as_text(findings)


TYPED = "event_type: json:/type\nevent_time: json:/at"
BODY = b'{"event_id": "evt_1", "type": "order.paid", "at": "2026-08-25T12:00:00+02:00"}'


def test_a_body_alone_is_read_as_the_route_would(read: Read) -> None:
    found = try_sample(read(whole(route=TYPED)), "orders", BODY)
    assert (found.verdict, found.event_id, found.event_type) == ("keyed", "evt_1", "order.paid")
    assert found.event_time == "2026-08-25T10:00:00+00:00"
    assert [(part.where, part.value) for part in found.parts] == [("json:/event_id", "evt_1")]
    assert [part.value for part in found.scope] == ["orders"]
    assert found.key is not None
    assert len(found.key) == 32
    assert found.usable


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_whole_request_finds_its_route(read: Read, end: bytes) -> None:
    lines = [b"POST /hooks/orders/x?y=1 HTTP/1.1", b"Host: h", b"", BODY]
    found = try_sample(read(whole()), None, end.join(lines))
    assert (found.route, found.verdict, found.event_id) == ("orders", "keyed", "evt_1")


READ = [
    (b"POST /hooks/orders HTTP/1.1\r\n\r\n{}", "unkeyed", "no usable id at json:/event_id"),
    (b"GET /hooks/orders HTTP/1.1\r\n\r\n", "passed", "GET is not among the route's methods"),
    (b"GET /hooks/orders HTTP/1.1\r\n", "passed", "GET is not among the route's methods"),
    (b"POST /elsewhere HTTP/1.1\r\n\r\n{}", "no_route", "no route takes this host and path"),
]


@pytest.mark.parametrize(("raw", "verdict", "why"), READ)
def test_a_request_that_is_not_claimed_says_why(
    read: Read, raw: bytes, verdict: str, why: str
) -> None:
    found = try_sample(read(whole()), None, raw)
    assert found.verdict == verdict
    assert found.why is not None
    assert why in found.why
    assert found.key is None


UNUSABLE = [
    ("json:/a", b"", "the body is empty"),
    ("json:/a", b"{'a': 1}", "the body is not JSON: expecting property name enclosed in double "
     "quotes in line 1"),
    ("json:/a", b'{"b": 1, "c": 2}', "there is no member 'a', but b, c"),
    ("json:/a", b'{"a": 7.0}', "is 7.0, which is not a whole number"),
    ("json:/a", b'{"a": 1, "a": 1}', "the member 'a' occurs twice"),
    ("json:/a", b'{"a": null}', "is null"),
    ("json:/a", b'{"a": " "}', "is blank"),
    ("json:/a", b'{"a": true}', "is true or false"),
    ("json:/a", b'{"a": {}}', "is an object"),
    ("json:/a", b'{"a": []}', "is a list"),
    ("json:/a/b", b'{"a": 5}', "'b' is looked for inside of what is a number"),
    ("json:/a/b", b'{"a": []}', "'b' is looked for in a list; write an index, as in /0"),
    ("json:/a/1", b'{"a": [1]}', "the list has 1 item"),
    ("form:a", b"b=1&c=2", "there is no field 'a', but b, c"),
    ("form:a", b"a=&c=2", "is blank"),
    ("query:a", b"", "there is no field 'a', but q"),
    ("header:A", b"", "there is no such header"),
    ("sha256(json:/a)", b'{"a": null}', "is null"),
    ("'header:A | json:/a'", b'{"a": null}', "header:A: there is no such header; json:/a: is null"),
]  # fmt: skip


@pytest.mark.parametrize(("event_id", "body", "why"), UNUSABLE)
def test_an_id_that_cannot_be_used_says_why(
    read: Read, event_id: str, body: bytes, why: str
) -> None:
    loaded = read(whole().replace("json:/event_id", event_id))
    found = try_sample(loaded, None, b"POST /hooks/orders?q=1 HTTP/1.1\r\n\r\n" + body)
    assert found.verdict == "unkeyed"
    assert f"({why})" in str(found.why)


def test_a_packed_body_is_looked_into_and_a_broken_one_is_said_to_be(read: Read) -> None:
    head = b"POST /hooks/orders HTTP/1.1\r\nContent-Encoding: gzip\r\n\r\n"
    found = try_sample(read(whole()), None, head + gzip.compress(b'{"event_id": null}'))
    assert "(is null)" in str(found.why)
    assert "(the body cannot be unpacked)" in str(try_sample(read(whole()), None, head + b"x").why)


def test_two_ids_and_a_nominated_header_are_refused(read: Read) -> None:
    loaded = read(whole().replace("json:/event_id", "header:X-Id"))
    head = b"POST /hooks/orders HTTP/1.1\r\nX-Id: a\r\n"
    two = try_sample(loaded, None, head + b"x-id: b\r\n\r\n")
    assert (two.verdict, two.why) == ("refused", "header:X-Id: two different values: 400")
    named = try_sample(loaded, None, head + b"Connection: X-Id\r\n\r\n")
    assert (named.verdict, named.why) == ("refused", "Connection names x-id, which decides: 400")


def test_a_missing_id_is_refused_where_the_route_says_so(read: Read) -> None:
    found = try_sample(read(whole(route="missing_id: refuse")), "orders", b"{}")
    assert (found.verdict, found.usable) == ("refused", False)


def test_a_request_for_another_route_is_read_all_the_same_and_noted(read: Read) -> None:
    raw = b"POST /elsewhere HTTP/1.1\r\nHost: h\r\n\r\n" + BODY
    found = try_sample(read(whole()), "orders", raw)
    assert found.verdict == "keyed"
    assert found.notes == ("by its host and path this request would go to no route",)


def test_a_line_break_that_an_editor_added_is_not_part_of_the_body(read: Read) -> None:
    raw = b"POST /hooks/orders HTTP/1.1\nContent-Length: 2\n\n{}\n"
    found = try_sample(read(whole()), None, raw)
    assert found.notes == ("Content-Length says 2 bytes, the file has 3 after the head",)


def test_an_unknown_route_names_those_that_there_are(read: Read) -> None:
    with pytest.raises(ValueError, match="no route is called 'order'; there is orders"):
        try_sample(read(whole()), "order", b"{}")


def test_a_time_without_an_offset_is_not_used(read: Read) -> None:
    found = try_sample(read(whole(route=TYPED)), "orders", b'{"at": "2026-08-25T12:00:00"}')
    assert found.event_time is not None
    assert "not used" in found.event_time


def test_a_sample_is_text_and_data(read: Read) -> None:
    found = try_sample(read(whole()), "orders", BODY)
    assert "event id                 evt_1" in sample.as_text(found)
    assert json.loads(sample.as_json(found))["event_id"] == "evt_1"
