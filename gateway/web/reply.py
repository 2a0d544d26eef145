"""Replies: the one table from an answer to what goes over the wire.

The consumer's reply crosses as it came. What the gateway says by itself is one JSON object whose
`detail` is a constant sentence: nothing that a stranger sent comes back in it. It never says 409,
410 or 3xx, because providers take these for "never send again" or go elsewhere.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, assert_never

from gateway.core import headers
from gateway.core.answer import (
    Acknowledged,
    Answer,
    Answered,
    Busy,
    Duplicate,
    Greeted,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.event import RawHeaders
from gateway.core.handshake import Said
from gateway.core.outcome import Reply
from gateway.core.route import DuplicateReply, FixedReply, ReplayReply, StandardReply

# A consumer that restarts needs a few seconds; no provider's ladder of retries begins lower.
RETRY_AFTER = 5
_JSON = b"application/json"
_DUPLICATE = b'{"received": true, "duplicate": true}'
_STORED = b'{"received": true, "duplicate": false}'
_UNDECIDED = "the same event is being handled; its result is not known yet"
_MAY_HAVE_IT = "the consumer did not answer; it may have received the request"
_HAS_IT_NOT = "the consumer could not be reached; it has not received the request"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_BODILESS = frozenset({204, 304})
_VERDICTS: dict[Verdict, RawHeaders] = {
    verdict: ((b"Dedup-Verdict", verdict.value.encode()),) for verdict in Verdict
}


class Wire(NamedTuple):
    """A reply but for its connection line. `body` is what is sent: empty for HEAD."""

    status: int
    reason: bytes
    headers: RawHeaders
    body: bytes

    def encode(self, connection: bytes | None) -> bytes:
        """The bytes; `connection` is the value of our own Connection line, or None for none."""
        lines = [b"HTTP/1.1 %d %b" % (self.status, self.reason), *map(b": ".join, self.headers)]
        if connection is not None:
            lines.append(b"Connection: " + connection)
        lines += (b"", self.body)
        return b"\r\n".join(lines)


def put(answer: Answer, *, head: bool) -> Wire:
    """An answer in words of HTTP; `head`: to a HEAD request, so without its body."""
    match answer:
        case Answered(reply, verdict, visible, first_seen):
            return _dated(_mirror(reply, verdict if visible else None, head=head), first_seen)
        case Unanswered():
            return _unanswered(answer, head=head)
        case Duplicate(how, kept, first_seen):
            return _dated(_repeated(how, kept, head=head), first_seen)
        case Acknowledged(how):
            return _standing(how, Verdict.FIRST, head=head)
        case Greeted(said):
            return _greeted(said, head=head)
        case Busy(retry_after):
            return _say(503, "busy", _UNDECIDED, retry_after, Verdict.BUSY, head=head)
        case Rejected(reason, status, detail, retry_after):
            return _say(status, reason.value, detail, retry_after, None, head=head)
        case _:
            assert_never(answer)


def _unanswered(answer: Unanswered, *, head: bool) -> Wire:
    verdict = answer.verdict if answer.visible else None
    detail = _MAY_HAVE_IT if answer.sent else _HAS_IT_NOT
    status = 504 if answer.timed_out else 502
    return _say(status, "upstream", detail, RETRY_AFTER, verdict, head=head)


def _greeted(said: Said, *, head: bool) -> Wire:
    bodiless = head or said.status in _BODILESS
    length = () if said.status in _BODILESS else ((b"Content-Length", b"%d" % len(said.body)),)
    lines = (*said.headers, *length, *_verdict(Verdict.PASSED))
    return Wire(said.status, _reason(said.status), lines, b"" if bodiless else said.body)


def _mirror(reply: Reply, verdict: Verdict | None, *, head: bool) -> Wire:
    bodiless = head or reply.status in _BODILESS
    lines = headers.reply_lines(
        reply.headers, body=reply.body, bodiless=bodiless, complete=reply.complete
    )
    body = b"" if bodiless else reply.body
    return Wire(reply.status, reply.reason, lines + _verdict(verdict), body)


def _repeated(how: DuplicateReply, kept: Reply | None, *, head: bool) -> Wire:
    if kept is None:
        return _standing(how, Verdict.DUPLICATE, head=head)
    kind = tuple(line for line in kept.headers if line[0].lower() == b"content-type")
    first = Reply(kept.status, kept.reason or _reason(kept.status), kind, kept.body)
    return _mirror(first, Verdict.DUPLICATE, head=head)


def _dated(wire: Wire, first_seen: float | None) -> Wire:
    """With when the event came first, as RFC 3339 in UTC."""
    if first_seen is None:
        return wire
    at = datetime.fromtimestamp(int(first_seen), UTC).isoformat().replace("+00:00", "Z")
    return wire._replace(headers=(*wire.headers, (b"Dedup-First-Seen", at.encode())))


@lru_cache(maxsize=64)
def _standing(how: DuplicateReply, verdict: Verdict, *, head: bool) -> Wire:
    """What is said of an event that is durable: to its duplicates, or to the first delivery."""
    match how:
        case StandardReply() | ReplayReply():
            status: int = 200
            kind: bytes | None = _JSON
            body = _STORED if verdict is Verdict.FIRST else _DUPLICATE
        case FixedReply(status, content_type, body):
            kind = None if content_type is None else content_type.encode("latin-1")
        case _:
            assert_never(how)
    return _own(status, kind, body, retry_after=None, verdict=verdict, head=head)


def _say(
    status: int,
    error: str,
    detail: str,
    retry_after: int | None,
    verdict: Verdict | None,
    *,
    head: bool,
) -> Wire:
    body = json.dumps({"error": error, "detail": detail}).encode()
    return _own(status, _JSON, body, retry_after=retry_after, verdict=verdict, head=head)


# Few and constant: what duplicates are told, and the refusals.
@lru_cache(maxsize=256)
def _own(
    status: int,
    content_type: bytes | None,
    body: bytes,
    *,
    retry_after: int | None,
    verdict: Verdict | None,
    head: bool,
) -> Wire:
    lines: list[tuple[bytes, bytes]] = []
    if content_type is not None:
        lines.append((b"Content-Type", content_type))
    if status not in _BODILESS:
        lines.append((b"Content-Length", b"%d" % len(body)))
    if retry_after is not None:
        lines.append((b"Retry-After", b"%d" % retry_after))
    sent = b"" if head or status in _BODILESS else body
    return Wire(status, _reason(status), (*lines, *_verdict(verdict)), sent)


def _verdict(verdict: Verdict | None) -> RawHeaders:
    return () if verdict is None else _VERDICTS[verdict]


def _reason(status: int) -> bytes:
    return _REASONS.get(status, b"")
