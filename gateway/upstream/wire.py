"""The wire, without I/O: a request as bytes, a reply from bytes, and how far each got.

A request is written from complete header lines; nothing is added, so what the provider signed
stays as it was.

A reply is read by llhttp. Its head decides about the claim, so whatever follows a complete head (a
body that breaks off, bad chunks, bytes too many) changes the body that we pass on and never the
status. The result does not depend on how the bytes were cut into reads.

We are more patient than llhttp's defaults where a consumer's sloppiness is harmless (one exchange
at a time, nothing behind us on this connection): bare line feeds, spaces behind a chunk size,
control characters in a value. A consumer that worked without the gateway must not turn ambiguous
for good because of one odd line; such a line is dropped, since nobody may write it on. Framing is
not among these: two lengths, or a length and chunks, are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter

from httptools import HttpParserError, HttpResponseParser

from gateway.core.event import RawHeaders
from gateway.core.outcome import Reply
from gateway.upstream.cause import Cause

# Raw bytes of all heads of one reply, 1xx included. Node reads at most 16 KiB by default.
HEAD_LIMIT = 64 * 2**10
# One-byte chunks take six bytes each; beyond this are chunk extensions and trailers without end.
RAW_BYTES_PER_BODY_BYTE = 8
# Node closes idle connections after 5 s, gunicorn's threads after 2 s: we must let go first.
IDLE_SECONDS = 1.5
# However long a consumer says it will wait, addresses move and middleboxes forget.
LONGEST_IDLE_SECONDS = 60.0

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_KEEP_ALIVE_TIMEOUT = re.compile(rb"timeout\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


class BadReply(Exception):
    """The bytes cannot become a reply with a known status."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


class _Stop(Exception):
    """Raised in a callback to keep llhttp from reading on."""


def request_head(method: str, target: str, headers: RawHeaders, body: bytes) -> bytes:
    """Request line and header lines as they go out, blank line included.

    Raises ValueError when the consumer could read something else than we mean: a line break inside
    a line, a space in the target, a transfer coding, a Content-Length that is not the body's.
    """
    head = b"%b\r\n%b\r\n\r\n" % (
        f"{method} {target} HTTP/1.1".encode("ascii"),
        b"\r\n".join(map(b": ".join, headers)),
    )
    breaks = len(headers) + 2
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or " " in target:
        raise ValueError("a line break or a space where none may be")
    framed = not body
    for name, value in headers:
        match _framing(name):
            case b"content-length":
                if value != b"%d" % len(body):
                    raise ValueError("Content-Length is not the body's length")
                framed = True
            case b"transfer-encoding":
                raise ValueError("a transfer coding on a body that has none")
    if not framed:
        raise ValueError("a body without Content-Length")
    return head


@lru_cache(maxsize=512)  # both sides use the same few names again and again, and could use others
def _framing(name: bytes) -> bytes | None:
    """The lower-case name of a line that says where a message ends; None for the others."""
    low = name.lower()
    return low if low in (b"content-length", b"transfer-encoding", b"keep-alive") else None


class ReplyReader:
    """Reads the reply to one request.

    `bodiless`: the request was HEAD, so no body follows whatever the head says. `max_body`: bytes;
    a longer body is given up and the reply is not complete.
    """

    __slots__ = (
        "_bad",
        "_bodiless",
        "_complete",
        "_fed",
        "_interim",
        "_lines",
        "_max_body",
        "_over",
        "_parser",
        "_parts",
        "_reason",
        "_size",
        "_until_close",
        "idle_seconds",
        "status",
    )

    def __init__(self, *, bodiless: bool, max_body: int) -> None:
        self.status: int | None = None
        """Of the final reply, once its head is complete."""
        self.idle_seconds = 0.0
        """How long the connection may stay idle after this reply; zero: not to be used again."""
        self._bodiless = bodiless
        self._max_body = max_body
        self._lines: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._fed = 0
        self._interim = self._until_close = self._over = False
        self._complete = True
        self._bad = Cause.BAD_REPLY
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def feed(self, data: bytes) -> bool:
        """Take what was read. True when the reply has ended. Raises BadReply."""
        if self._fed + len(data) <= HEAD_LIMIT:  # the least of all limits
            return self._feed(data)
        room = self._room()
        if len(data) <= room:
            return self._feed(data)
        if self._feed(data[:room]):
            return True
        if self._room() > 0:  # the head ended within its limit, and the body has a limit of its own
            return self.feed(data[room:])
        if self.status is None:
            raise BadReply(Cause.HEAD_TOO_LARGE)
        self._give_up()
        return True

    def end(self, *, clean: bool) -> Reply | None:
        """No more bytes will come: the reply so far, or None without a complete head.

        `clean`: the consumer closed in the regular way, which ends a body that has no length of
        its own.
        """
        if self.status is None:
            return None
        if not self._over and not (clean and self._until_close):
            self._give_up()
        return self.reply()

    def reply(self) -> Reply:
        """The reply that has ended."""
        assert self.status is not None
        body = b"".join(self._parts) if self._complete else b""
        return Reply(self.status, self._reason, tuple(self._lines), body, self._complete)

    def _room(self) -> int:
        limit = HEAD_LIMIT
        if self.status is not None:
            limit = 2 * HEAD_LIMIT + RAW_BYTES_PER_BODY_BYTE * self._max_body
        return limit - self._fed

    def _feed(self, data: bytes) -> bool:
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            if self.status is None:
                raise BadReply(self._bad) from None
            if self._over:
                self.idle_seconds = 0.0  # bytes behind the reply: whose answer would they be?
            else:
                self._give_up()
        if self._over:
            del self._parser  # breaks a reference cycle, so that no collector has to
        return self._over

    def _give_up(self) -> None:
        self._over, self._complete, self.idle_seconds = True, False, 0.0

    # What follows is called by llhttp.

    def on_message_begin(self) -> None:
        if self._over:
            raise _Stop

    def on_status(self, part: bytes) -> None:
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status is None:  # else a trailer
            self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 200 <= status <= 599:
            return self._begin_body(status)
        if status == 101 or not 100 <= status <= 599:
            self._bad = Cause.SWITCHED_PROTOCOLS if status == 101 else Cause.BAD_STATUS
            raise _Stop
        self._interim, self._reason, self._lines = True, b"", []

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_body:
            self._give_up()
            raise _Stop
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
            return
        self._over = True
        if not self._parser.should_keep_alive():
            self.idle_seconds = 0.0

    def _begin_body(self, status: int) -> None:
        self.status = status
        self.idle_seconds, length, codings = IDLE_SECONDS, False, []
        for name, value in self._lines:
            match _framing(name):
                case b"content-length":
                    length = True
                case b"transfer-encoding":
                    codings.append(value.strip().lower())
                case b"keep-alive":
                    self.idle_seconds = _idle_seconds(value)
        self._drop_unwritable()
        if self._bodiless:
            # llhttp cannot be told through httptools that no body follows, so it must not read on.
            self._over, self.idle_seconds = True, 0.0
            raise _Stop
        if codings and codings != [b"chunked"] and status not in (204, 304):
            # Passed on without its Transfer-Encoding, gzip would be taken for the body itself.
            self._give_up()
            raise _Stop
        self._until_close = not length and not codings

    def _drop_unwritable(self) -> None:
        if not _CONTROL.search(b"".join([self._reason, *map(itemgetter(1), self._lines)])):
            return
        self._lines = [line for line in self._lines if not _CONTROL.search(line[1])]
        if _CONTROL.search(self._reason):
            self._reason = b""


def _idle_seconds(value: bytes) -> float:
    match = _KEEP_ALIVE_TIMEOUT.search(value)
    if match is None:
        return IDLE_SECONDS
    return min(max(float(match[1]) - 1, 0.0), LONGEST_IDLE_SECONDS)
