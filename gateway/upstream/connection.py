"""One connection to a consumer, and one exchange on it at a time.

"Bytes left us" means here: `write` was called on a transport that was open. What the kernel did
with them is not known to anybody, so a connection that turns out to be dead one microsecond later
is ambiguous all the same. The bytes of a TLS handshake do not count: they carry nothing of the
request.

There is no task and no stream between the socket and the reply: the protocol feeds the parser and
wakes the sender once. Its timer is lazy. Deadlines only move later while a connection is busy, so
a timer that comes too early just looks again, and the usual exchange neither sets nor cancels one.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from enum import Enum, auto
from typing import cast

from gateway.core.outcome import Ambiguous, Reply
from gateway.core.route import Upstream
from gateway.upstream.cause import Cause
from gateway.upstream.wire import BadReply, ReplyReader

# Below this size one copy is cheaper than a second system call.
JOINED_BODY = 16 * 2**10
# Longer bodies are handed over in pieces. A transport takes whatever it is given, and one over TLS
# encrypts it all and says that it has nothing left; in pieces, at most about 128 KiB are written as
# far as we know and still in this process.
PIECE = 64 * 2**10


class Phase(Enum):
    """What a connection waits for."""

    IDLE = auto()
    HANDING_OVER = auto()
    """Nothing: we are inside `write`, which may pause and resume us on the spot."""
    WRITING = auto()
    WAITING = auto()
    """The request is written, and no byte of the reply has come."""
    READING = auto()


class Connection(asyncio.Protocol):
    """After `connection_made`: `send` while `is_open` (new) or `is_fit` (used before) says so."""

    __slots__ = (
        "_answer",
        "_at",
        "_ends_at",
        "_last_at",
        "_left",
        "_loop",
        "_lost",
        "_paused",
        "_phase",
        "_poll",
        "_reader",
        "_rest",
        "_timer",
        "_transport",
        "_upstream",
        "idle_until",
    )

    def __init__(self, upstream: Upstream, at: Callable[[str], None]) -> None:
        self.idle_until = 0.0
        """Loop time until which this connection may be used again; zero when it may not."""
        self._upstream = upstream
        self._at = at
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader: ReplyReader | None = None
        self._answer: asyncio.Future[Reply | Ambiguous]
        self._phase = Phase.IDLE
        self._lost = False
        self._paused = False
        self._rest = memoryview(b"")
        self._left = 0
        self._ends_at = self._last_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._poll = select.poll()

    def is_open(self) -> bool:
        """Neither side has closed, as far as the loop knows."""
        # Of the other side's end a transport tells before it counts as closing itself.
        return not self._lost and not self._transport.is_closing()

    def is_fit(self) -> bool:
        """Open, not idle for too long, and nothing has arrived meanwhile, not even in the kernel.

        The kernel is asked because the loop may be late: a FIN that waits to be read would turn
        this request into an ambiguous one.
        """
        waits = self._loop.time() < self.idle_until
        return waits and self.is_open() and not self._poll.poll(0)

    def send(
        self, head: bytes, body: bytes, reader: ReplyReader
    ) -> asyncio.Future[Reply | Ambiguous]:
        """Write one request. The future never fails: it is the reply, or why there is none."""
        self._reader, self._answer = reader, self._loop.create_future()
        now = self._loop.time()
        self._last_at, self.idle_until = now + self._upstream.timeout, 0.0
        if len(body) > JOINED_BODY:
            self._rest = memoryview(body)
        self._write_on(head if self._rest else head + body, now)
        if self._phase is Phase.WRITING:
            self._left = self._unwritten()
            self._expect(now + self._upstream.write_timeout)
        return self._answer

    def fail(self, cause: Cause) -> None:
        """End the exchange that may be under way, now; a complete head still counts."""
        self._end_early(cause, timed_out=False)
        self.abort()

    def abort(self) -> None:
        """Drop the connection without ceremony."""
        self.idle_until = 0.0
        self._transport.abort()

    def close(self) -> None:
        """Close a connection on which nothing is under way."""
        self.idle_until = 0.0
        self._transport.close()

    # What follows is called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Any byte that the kernel does not take at once pauses us: so we know what is written.
        # (One for TLS, whose transports pause at "as many as"; plain ones pause at "more than".)
        encrypted = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=int(encrypted), low=0)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._phase is Phase.WRITING:
            self._write_on(b"", self._loop.time())

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.abort()  # nobody asked
            return
        if self._phase is Phase.WAITING:
            self._phase = Phase.READING
            self._ends_at = self._last_at
        try:
            over = self._reader.feed(data)
        except BadReply as error:
            self._end(Ambiguous(error.cause))
            return
        if over:
            self._end(self._reader.reply())

    def eof_received(self) -> None:
        self._lost = True
        self._end_closed(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self.idle_until = True, 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_closed(exc)

    def _write_on(self, first: bytes, now: float) -> None:
        self._phase = Phase.HANDING_OVER
        if first:
            self._transport.write(first)
        while self._rest and not self._paused and self.is_open():
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self._transport.write(piece)
        if self._paused or self._rest:
            self._phase = Phase.WRITING
            return
        self._at("forwarding")
        self._phase = Phase.WAITING
        self._expect(now + self._upstream.first_byte_timeout)

    def _expect(self, by: float) -> None:
        self._ends_at = min(by, self._last_at)
        if self._timer is None or self._timer.when() > self._ends_at:
            self._rearm()

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._ends_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._phase is Phase.IDLE:
            return
        now = self._loop.time()
        if now < self._ends_at:
            self._rearm()
        elif self._ends_at >= self._last_at:
            self._give_up(Cause.TIMEOUT)
        elif self._phase is Phase.WRITING:
            self._look_at_writing(now)
        else:
            self._give_up(Cause.FIRST_BYTE_TIMEOUT)

    def _look_at_writing(self, now: float) -> None:
        left = self._unwritten()
        if left >= self._left:
            self._give_up(Cause.WRITE_TIMEOUT)
            return
        self._left = left
        self._expect(now + self._upstream.write_timeout)

    def _unwritten(self) -> int:
        return len(self._rest) + self._transport.get_write_buffer_size()

    def _give_up(self, cause: Cause) -> None:
        self._end_early(cause, timed_out=True)
        self.abort()

    def _end_closed(self, exc: Exception | None) -> None:
        if self._reader is None:
            return
        reply = self._reader.end(clean=exc is None)
        if reply is not None:
            self._end(reply)
        elif exc is None:
            self._end(Ambiguous(Cause.CLOSED))
        else:
            self._end(Ambiguous(Cause.TLS if isinstance(exc, ssl.SSLError) else Cause.RESET))

    def _end_early(self, cause: Cause, *, timed_out: bool) -> None:
        if self._reader is not None:
            self._end(self._reader.end(clean=False) or Ambiguous(cause, timed_out))

    def _end(self, answer: Reply | Ambiguous) -> None:
        reader, self._reader = self._reader, None
        written = self._phase is not Phase.WRITING
        self._phase, self._rest = Phase.IDLE, memoryview(b"")
        if reader is not None and reader.idle_seconds and written and self.is_open():
            self.idle_until = self._loop.time() + reader.idle_seconds
        if not self._answer.done():
            self._answer.set_result(answer)
