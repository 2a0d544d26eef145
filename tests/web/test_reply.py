"""The table from answers to replies, row by row."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.core.answer import (
    Acknowledged,
    Answered,
    Busy,
    Duplicate,
    Greeted,
    Reason,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.handshake import Said
from gateway.core.outcome import Reply
from gateway.core.route import FixedReply, ReplayReply, StandardReply
from gateway.web import reply
from gateway.web.reply import Wire

XML = b"<xml><return_code>SUCCESS</return_code></xml>"


def value(wire: Wire, name: bytes) -> bytes | None:
    return next((v for n, v in wire.headers if n == name), None)


@pytest.mark.parametrize("verdict", Verdict)
def test_an_answered_delivery_keeps_the_reply_and_says_the_verdict(verdict: Verdict) -> None:
    said = Reply(201, b"Made", ((b"X-A", b"1"), (b"content-length", b"2")), b"ok")
    wire = reply.put(Answered(said, verdict), head=False)
    verdict_line = (b"Dedup-Verdict", verdict.value.encode())
    lines = ((b"X-A", b"1"), (b"content-length", b"2"), verdict_line)
    assert wire == Wire(201, b"Made", lines, b"ok")


def test_a_reply_that_broke_off_is_a_success_with_an_empty_body() -> None:
    said = Reply(200, b"OK", ((b"Content-Encoding", b"gzip"),), b"", complete=False)
    wire = reply.put(Answered(said, Verdict.FIRST), head=False)
    assert wire.headers == ((b"Content-Length", b"0"), (b"Dedup-Verdict", b"first"))


@pytest.mark.parametrize("timed_out", [False, True])
@pytest.mark.parametrize("sent", [False, True])
def test_a_silent_consumer_is_502_or_504_and_worth_a_retry(timed_out: bool, sent: bool) -> None:
    wire = reply.put(Unanswered(Verdict.FIRST, timed_out, sent), head=False)
    assert wire.status == (504 if timed_out else 502)
    assert int(value(wire, b"Retry-After") or 0) > 0
    assert ("may have received" in json.loads(wire.body)["detail"]) is sent
    assert value(wire, b"Dedup-Verdict") == b"first"
    hidden = reply.put(Unanswered(Verdict.FIRST, timed_out, sent, visible=False), head=False)
    assert value(hidden, b"Dedup-Verdict") is None


def test_a_duplicate_is_told_so() -> None:
    wire = reply.put(Duplicate(StandardReply(), None), head=False)
    assert (wire.status, wire.reason) == (200, b"OK")
    assert json.loads(wire.body) == {"received": True, "duplicate": True}
    assert value(wire, b"Content-Type") == b"application/json"
    assert value(wire, b"Dedup-Verdict") == b"duplicate"


@pytest.mark.case("B020")
def test_a_duplicate_is_told_what_the_route_says() -> None:
    wire = reply.put(Duplicate(FixedReply(202, "text/xml", XML), None), head=False)
    assert (wire.status, wire.body) == (202, XML)
    assert value(wire, b"Content-Type") == b"text/xml"
    assert value(wire, b"Content-Length") == b"%d" % len(XML)


@pytest.mark.case("B020")
def test_a_duplicate_is_told_what_the_first_was_told() -> None:
    lines = ((b"content-type", b"text/plain"), (b"Set-Cookie", b"a=1"), (b"Date", b"then"))
    kept = Reply(201, b"", lines, b"success")
    wire = reply.put(Duplicate(ReplayReply(), kept), head=False)
    assert (wire.status, wire.reason, wire.body) == (201, b"Created", b"success")
    assert wire.headers == (
        (b"content-type", b"text/plain"),
        (b"Content-Length", b"7"),
        (b"Dedup-Verdict", b"duplicate"),
    )


def test_a_first_reply_that_is_no_longer_known_is_a_success_all_the_same() -> None:
    assert reply.put(Duplicate(ReplayReply(), None), head=False) == reply.put(
        Duplicate(StandardReply(), None), head=False
    )


def test_an_empty_first_reply_is_repeated_without_a_length() -> None:
    wire = reply.put(Duplicate(ReplayReply(), Reply(204, b"", (), b"")), head=False)
    assert wire == Wire(204, b"No Content", ((b"Dedup-Verdict", b"duplicate"),), b"")
    assert reply.put(Duplicate(FixedReply(204, None, b""), None), head=False) == wire


@pytest.mark.parametrize("head", [False, True])
def test_an_empty_reply_keeps_the_type_that_a_provider_insists_on(head: bool) -> None:
    wire = reply.put(Duplicate(FixedReply(204, "application/json", b""), None), head=head)
    lines = ((b"Content-Type", b"application/json"), (b"Dedup-Verdict", b"duplicate"))
    assert wire == Wire(204, b"No Content", lines, b"")


REQUIRED = [
    FixedReply(200, "text/plain", b"[accepted]"),
    FixedReply(200, "text/xml", b"<Response/>"),
    FixedReply(204, "application/json", b""),
    FixedReply(202, None, b""),
]


@pytest.mark.parametrize("how", REQUIRED)
def test_what_a_provider_insists_on_acknowledges_a_stored_event_as_it_does_a_duplicate(
    how: FixedReply,
) -> None:
    stored = reply.put(Acknowledged(how), head=False)
    seen = reply.put(Duplicate(how, None), head=False)
    assert (stored.status, stored.body) == (how.status, how.body) == (seen.status, seen.body)
    assert stored.headers[:-1] == seen.headers[:-1]
    assert value(stored, b"Dedup-Verdict") == b"first"


FIRST_SEEN = 1_787_616_000.75
KEPT = Reply(201, b"", ((b"content-type", b"text/plain"),), b"success")


@pytest.mark.parametrize(
    "answer",
    [
        Duplicate(StandardReply(), None, FIRST_SEEN),
        Duplicate(FixedReply(204, None, b""), None, FIRST_SEEN),
        Duplicate(ReplayReply(), KEPT, FIRST_SEEN),
        Answered(KEPT, Verdict.DUPLICATE, first_seen=FIRST_SEEN),
    ],
)
def test_a_duplicate_may_be_told_when_its_event_came_first(answer: Duplicate | Answered) -> None:
    wire = reply.put(answer, head=False)
    assert wire.headers[-1] == (b"Dedup-First-Seen", b"2026-08-25T00:00:00Z")
    silent = reply.put(
        answer._replace(first_seen=None)
        if isinstance(answer, Answered)
        else replace(answer, first_seen=None),
        head=False,
    )
    assert silent == wire._replace(headers=wire.headers[:-1])


def test_a_consumer_cannot_say_in_our_name_when_an_event_came_first() -> None:
    said = Reply(200, b"OK", ((b"dedup-FIRST-seen", b"x"), (b"X-A", b"1")), b"ok")
    wire = reply.put(Answered(said, Verdict.FIRST), head=False)
    assert [name for name, _ in wire.headers] == [b"X-A", b"Content-Length", b"Dedup-Verdict"]


def test_a_greeting_is_in_the_words_that_were_found_for_it() -> None:
    said = Said(200, ((b"Content-Type", b"text/plain"),), b"challenge")
    wire = reply.put(Greeted(said), head=False)
    assert (wire.status, wire.reason, wire.body) == (200, b"OK", b"challenge")
    assert wire.headers == (
        (b"Content-Type", b"text/plain"),
        (b"Content-Length", b"9"),
        (b"Dedup-Verdict", b"passed"),
    )
    assert reply.put(Greeted(said), head=True) == wire._replace(body=b"")
    empty = reply.put(Greeted(Said(204, (), b"")), head=False)
    assert empty == Wire(204, b"No Content", ((b"Dedup-Verdict", b"passed"),), b"")


def test_busy_is_503_and_names_a_time() -> None:
    wire = reply.put(Busy(7), head=False)
    assert (wire.status, value(wire, b"Retry-After")) == (503, b"7")
    assert value(wire, b"Dedup-Verdict") == b"busy"


def test_a_rejection_has_its_status_and_no_verdict() -> None:
    wire = reply.put(Rejected(Reason.STORE_AWAY, 503, "the store is away", 5), head=False)
    assert (wire.status, wire.reason) == (503, b"Service Unavailable")
    assert json.loads(wire.body) == {"error": "store_away", "detail": "the store is away"}
    assert value(wire, b"Retry-After") == b"5"
    assert value(wire, b"Dedup-Verdict") is None


def test_to_head_everything_is_said_but_the_body() -> None:
    for answer in (Busy(5), Duplicate(StandardReply(), None)):
        full, head = reply.put(answer, head=False), reply.put(answer, head=True)
        assert (head.headers, head.body) == (full.headers, b"")


def test_on_the_wire_a_reply_is_its_lines_and_nothing_else() -> None:
    wire = Wire(299, b"", ((b"x-a", b"1"), (b"X-A", b"\xff")), b"body")
    assert wire.encode(None) == b"HTTP/1.1 299 \r\nx-a: 1\r\nX-A: \xff\r\n\r\nbody"
    assert wire.encode(b"close").endswith(b"X-A: \xff\r\nConnection: close\r\n\r\nbody")
