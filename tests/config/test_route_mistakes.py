"""Mistakes in a route: each with its place and with what to write instead, word for word."""

from __future__ import annotations

from datetime import date

import pytest

from tests.config.conftest import Mistakes, Read, whole, without_place

IN_A_ROUTE = [
    ("upstrem: 3", "routes.0.upstrem: unknown setting; did you mean upstream?"),
    ("timeout: 3s", "routes.0.timeout: unknown setting; did you mean routes.upstream.timeout?"),
    (
        "mode: forwards",
        "routes.0.mode: 'forwards' is not one of observe, forward, inbox; did you mean forward?",
    ),
    (
        "mode: off",
        "routes.0.mode: 'off' means nothing here; write observe or forward or inbox",
    ),
    (
        "retention: 30",
        "routes.0.retention: '30' has no unit; write 30s if seconds are meant",
    ),
    (
        "retention: 1:30:00",
        "routes.0.retention: '1:30:00' is not a duration; "
        "write a number with a unit, as in 8s, 5m, 72h, 45d",
    ),
    (
        "retention: 0s",
        "routes.0.retention: is zero, so no event would be remembered; write a time, as in 30d",
    ),
    ("body_limit: 25", "routes.0.body_limit: '25' has no unit; write 25B if bytes are meant"),
    (
        "body_limit: 25MB",
        "routes.0.body_limit: '25MB' is not a size; "
        "write a whole number with a unit, as in 512B, 64KiB, 25MiB",
    ),
    (
        "body_limit: 1GiB",
        "routes.0.body_limit: is more than limits.body_memory, so such a body would never fit; "
        "lower it, or raise limits.body_memory",
    ),
    (
        "idempotency_key: yes",
        "routes.0.idempotency_key: 'yes' is neither yes nor no here; write true or false",
    ),
    (
        "idempotency_key: 1",
        "routes.0.idempotency_key: '1' is neither yes nor no here; write true or false",
    ),
    ("hosts: hooks.example.com:8443",
     "routes.0.hosts: 'hooks.example.com:8443' is more than a name; "
     "write the bare name, as in hooks.example.com"),
    *((f"hosts: ['{host}']",
       f"routes.0.hosts.0: '{shown}' is more than a name; write the bare name, as in {bare}")
      for host, shown, bare in (
          ("https://shop.example", "https://shop.example", "shop.example"),
          ("https://u:p@shop.example:8443/x?y#z", "https://***@shop.example:8443/x?y#z",
           "shop.example"),
          ("//shop.example/", "//shop.example/", "shop.example"),
          ("[::1]:80", "[::1]:80", "[::1]"),
          ("shop.example/hooks", "shop.example/hooks", "shop.example"),
          ("https://", "https://", "hooks.example.com"),
      )),
    ('hosts: ["*.example.com"]',
     "routes.0.hosts.0: '*.example.com' has a wildcard; write each name, or no hosts for any"),
    ("success_status: [409, 601]",
     "routes.0.success_status.1: '601' is not a final HTTP status; write one from 200 to 599"),
    ("refused_status: [400, 201]",
     "routes.0.refused_status: has 201, which means success on this route; "
     "keep each status in one of the two lists"),
    ("refused_status: [202, 201]",
     "routes.0.refused_status: has 201, 202, which mean success on this route; "
     "keep each status in one of the two lists"),
    ("methods: []", "routes.0.methods: is an empty list; remove it for the usual methods"),
    ("methods: [PO ST]",
     "routes.0.methods.0: 'PO ST' is not a method that carries events; did you mean POST?"),
    ("methods: [PSOT]",
     "routes.0.methods.0: 'PSOT' is not a method that carries events; did you mean POST?"),
    ("methods: [POST, CONNECT]",
     "routes.0.methods.1: 'CONNECT' is not a method that carries events; "
     "write one of GET HEAD POST PUT PATCH DELETE OPTIONS"),
    ("duplicate_reply: {status: 409}",
     "routes.0.duplicate_reply.status: 409 would make the provider send the event again; "
     "write one from 200 to 299"),
    ("duplicate_reply: {status: 204, body: ok}",
     "routes.0.duplicate_reply.body: a 204 has no body; write 200, or no body"),
    ("duplicate_reply: {stauts: 204}",
     "routes.0.duplicate_reply.stauts: unknown setting; did you mean status?"),
    ('duplicate_reply: {body: {"received": true}}',
     "routes.0.duplicate_reply.body: is a mapping here; "
     'write one value, in "quotes" if it has {, [ or ": " in it'),
    ("duplicate_reply: xyz",
     "routes.0.duplicate_reply: 'xyz' means nothing here; write standard or replay, "
     "or {status: 200, content_type: text/plain, body: TEXT}"),
    ("duplicate_reply: repeat",
     "routes.0.duplicate_reply: 'repeat' is not one of standard, replay; did you mean replay? "
     "Or write {status: 200, content_type: text/plain, body: TEXT}"),
    ("duplicate_reply: {content_type: text}",
     "routes.0.duplicate_reply.content_type: 'text' is not a media type; "
     "write one, as in text/plain"),
    ("duplicate_reply: {status: 600}",
     "routes.0.duplicate_reply.status: '600' is not a final HTTP status; "
     "write one from 200 to 299"),
    ('scope: "a\\0b"', "routes.0.scope: has a NUL in it, which nothing takes; remove it"),
    *((f"accept_short_retention: {word}",
       f"routes.0.accept_short_retention: '{word}' is no reason; "
       "say why in words, as in nobody redrives test events")
      for word in ("true", "Yes", "1")),
    ("event_type: type",
     "routes.0.event_type: 'type' does not say where to look; "
     "write json:/type, header:type, form:type or query:type"),
    ("event_type: json:type",
     "routes.0.event_type: the JSON pointer 'type' must start with a slash; write json:/type"),
    ("scope: headr:X-Shop",
     "routes.0.scope: 'headr:X-Shop' does not say where to look; write header:X-Shop"),
    ("scope: header:Connection",
     "routes.0.scope: header:Connection ends at the gateway and never carries an id; "
     "write another header"),
    ("promise: {checked: 25.8.2026}",
     "routes.0.promise.checked: '25.8.2026' is not a day; write it as in 2026-08-25"),
    ("promise: 3d", "routes.0.promise: is not a mapping; "
     "write its settings as name: value, indented below it"),
    ("promise: {retry_horizon: 0s, redrive_window: 0s, source: x}",
     "routes.0.retention: is zero, so no event would be remembered; write a time, as in 30d"),
    ("hosts:", "routes.0.hosts: has no value; give it one or remove the line; "
     'an empty text is written as ""'),
    ('accept_short_retention: " "',
     "routes.0.accept_short_retention: is empty; write a text or remove the line"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), IN_A_ROUTE)
def test_a_mistake_in_a_route_is_reported_with_its_line_and_a_remedy(
    mistakes: Mistakes, line: str, message: str
) -> None:
    assert without_place(mistakes(whole(route=line))) == [message]


@pytest.mark.row(21)
@pytest.mark.parametrize("lease", ["0", "0s", "1s", "41999ms"])
def test_a_lease_that_a_slow_forward_would_outlast_is_refused(
    mistakes: Mistakes, lease: str
) -> None:
    assert mistakes(whole(route=f"lease: {lease}")) == [
        f"gateway.yaml:8: routes.0.lease: {_shown(lease)} is less than "
        "slot_timeout + connect_timeout + timeout + 5s, so a slow forward would lose its claim to "
        "the retry that it provoked; write 42s or more, or remove it"
    ]


def _shown(lease: str) -> str:
    return {"0": "0s", "41999ms": "41s999ms"}.get(lease, lease)


def test_the_least_lease_is_accepted(read: Read) -> None:
    assert read(whole(route="lease: 42s")).routes[0].lease == 42.0


@pytest.mark.parametrize(
    "event_id",
    ["literal:x", "[literal:a, literal:b]", "header:X-Id | literal:none", "sha256(literal:x)"],
)
def test_an_id_that_unrelated_deliveries_would_share_is_refused(
    mistakes: Mistakes, event_id: str
) -> None:
    assert mistakes(whole().replace("json:/event_id", event_id)) == [
        "gateway.yaml:7: routes.0.event_id: can be the same for unrelated deliveries, which would "
        "all count as one event; write where the id is; literal: only beside it"
    ]


@pytest.mark.parametrize("name", ["Authorization", "cookie", "Host", "User-Agent", "Date"])
def test_a_header_that_says_nothing_about_the_event_is_no_id(mistakes: Mistakes, name: str) -> None:
    assert mistakes(whole().replace("json:/event_id", f"header:{name}")) == [
        "gateway.yaml:7: routes.0.event_id: can be the same for unrelated deliveries, which would "
        f"all count as one event; write where the id is; header:{name} only beside it"
    ]


@pytest.mark.parametrize("beside", ["literal:v2", "header:Content-Type"])
def test_what_is_the_same_for_many_is_fine_beside_an_id(read: Read, beside: str) -> None:
    read(whole().replace("json:/event_id", f"[{beside}, json:/event_id]"))


def test_two_routes_may_not_share_a_name_or_a_place(mistakes: Mistakes) -> None:
    text = whole() + "\n".join(whole().splitlines()[3:])
    assert without_place(mistakes(text)) == [
        "routes.1.name: 'orders' is the name of routes.0 too; "
        "write another name, or share with scope:",
        "routes.1.path: /hooks/orders belongs to orders too; write another path, or other hosts:",
    ]


def test_routes_of_different_hosts_may_share_a_path(read: Read) -> None:
    other = whole(route="hosts: b.example.com").replace("name: orders", "name: others")
    read(whole(route="hosts: a.example.com") + "\n".join(other.splitlines()[3:]))


def test_tls_goes_with_https_and_a_certificate_with_its_key(mistakes: Mistakes) -> None:
    text = whole().replace(
        '{url: "http://127.0.0.1:3000"}',
        '{url: "http://127.0.0.1:3000", tls: {cert: a.pem, ca: no.pem}}',
    )
    said = "\n".join(mistakes(text))
    assert "routes.0.upstream.tls: is for https only; write an https url, or remove tls" in said
    assert "routes.0.upstream.tls.cert: has no key; write key: FILE beside it" in said
    assert "routes.0.upstream.tls.ca: cannot read" in said


@pytest.mark.parametrize(("day", "taken"), [("2026-08-26", True), ("2026-08-27", False)])
def test_nobody_can_have_looked_at_a_promise_after_tomorrow(
    read: Read, mistakes: Mistakes, day: str, taken: bool
) -> None:
    text, today = whole(route=f"promise: {{checked: {day}}}"), date(2026, 8, 25)
    if taken:
        read(text, today=today)
        return
    assert without_place(mistakes(text, today=today)) == [
        "routes.0.promise.checked: 2026-08-27 is in the future (today is 2026-08-25); "
        "write the day somebody last looked"
    ]
