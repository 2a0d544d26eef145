"""One provider's connection: aiohttp's protocol, and what it lacks.

aiohttp contributes the strict parser (llhttp), the loop over requests and the idle timer. Added:

    a cap            connections beyond it are closed unread
    terse refusals   what does not parse is answered with a constant; aiohttp echoes it
    broken framing   behind a complete head it ends the body at once; aiohttp lets the reader hang
    raw replies      one write of bytes that are ours to the last letter
    pipelining       few requests wait behind the present one, and so few bodies

The request object is our own and has only what is on the wire: aiohttp's costs time for decoded
views that a proxy must never look at. The settings are proved at start by parsing a sample, because
one mistyped keyword makes `web.Server` fall back to its defaults with no more than a log line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from gateway.web.limits import Limits

# What aiohttp and nginx allow for one line; longer ones are not webhooks.
LONGEST_LINE = 8190
# Half of what may lie unread: a body's first 64 KiB arrive without a reservation.
READ_BUFFER = 32 * 2**10
# Seconds for which a body that nobody wants is still read after the refusal, so that the sender
# reads that instead of a reset.
LINGER = 1.0
QUEUED_REQUESTS = 2


class SenderGone(Exception):
    """The sender closed before its body was complete."""


class BrokenFraming(Exception):
    """What followed the head is not a body."""


class UnfitServer(Exception):
    """aiohttp is not what this program relies on: no C parser, or settings that did not take."""


class Exchange:
    """One request from the connection loop; aiohttp calls the methods with an underscore."""

    __slots__ = ("_task", "connection", "held", "message", "payload", "spoiled")

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        connection: RequestHandler,
        _writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> None:
        self.message = message
        self.payload = payload
        self.connection = cast(Connection, connection)
        self.held = 0
        """Bytes of the budget that the body holds."""
        self.spoiled = False
        """Whether the body was refused: nothing behind it on this connection is looked at."""
        self._task = task

    def _finish(self) -> None:
        pass

    def _cancel(self, _exc: BaseException) -> None:
        # A complete body stays readable: the delivery goes on without its sender.
        if not self.payload.is_eof():
            self.payload.set_exception(SenderGone())


class Sent:
    """A reply that is written already; all that aiohttp's loop still asks is whether to go on."""

    __slots__ = ("keep_alive",)

    def __init__(self, keep_alive: bool) -> None:
        self.keep_alive = keep_alive

    async def prepare(self, _request: object) -> None:
        pass

    async def write_eof(self) -> None:
        pass


class Desk(Protocol):
    """Who answers what connections bring."""

    async def handle(self, exchange: Exchange) -> Sent: ...
    async def refuse(self, connection: Connection, fault: BaseException) -> Sent: ...
    def admit(self) -> bool:
        """Whether one more connection may stay."""
        ...


class Connection(RequestHandler):
    """The server's end of one connection."""

    __slots__ = ("_desk", "_unread", "broken", "peer", "scheme")

    def __init__(
        self, server: Connections, desk: Desk, *, loop: asyncio.AbstractEventLoop, limits: Limits
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_timeout,
            access_log=None,  # type: ignore[arg-type]  # documented as the way to have none
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=limits.header_lines,
            lingering_time=LINGER,
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
        )
        self._max_msg_queue_size = QUEUED_REQUESTS
        self._msg_queue_resume_size = QUEUED_REQUESTS - 1
        self._desk = desk
        self.broken = False
        """Whether the parser has given up; nothing more will come of this connection."""
        self._unread: StreamReader | None = None
        self.peer = ""
        self.scheme = "http"

    @property
    def fresh(self) -> bool:
        """Whether it has not brought a single head yet."""
        return self._request_count == 0 and self.transport is not None

    @property
    def idle(self) -> bool:
        """Whether it waits for a head."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._desk.admit():
            self._force_close = True
            cast(asyncio.Transport, transport).abort()
            return
        super().connection_made(transport)
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        if transport.get_extra_info("sslcontext") is not None:
            self.scheme = "https"

    def connection_lost(self, exc: BaseException | None) -> None:
        factory, handler = self._request_factory, self._request_handler
        super().connection_lost(exc)
        # A complete request whose sender left before the loop came to it is handled all the same;
        # without these the loop would stumble over it.
        self._request_factory, self._request_handler = factory, handler
        if self._unread is not None:
            self._unread.feed_eof()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self.broken = True
            current = cast("Exchange | None", self._current_request)
            if current is not None and not current.payload.is_eof():
                current.payload.set_exception(BrokenFraming())

    def resume_reading(self, resume_parser: bool = True) -> None:
        # Called after every read of a body; only after a pause there is anything to resume.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def linger(self, payload: StreamReader) -> None:
        """Note a body that aiohttp reads away after the reply, to end it with the connection."""
        self._unread = payload

    def write(self, data: bytes) -> bool:
        """Write a reply, which a sender that is gone misses. Whether it is taken already."""
        if self.transport is None:
            return True
        self.transport.write(data)
        return not self._paused

    async def taken(self, timeout: float) -> None:
        """A sender that leaves what was written unread for `timeout` seconds is cut off."""
        try:
            async with asyncio.timeout(timeout):
                await self._drain_helper()
        except (TimeoutError, ConnectionError):
            if self.transport is not None:
                self.transport.abort()
            self.force_close()  # what it has pipelined behind would be answered into the void

    def _make_error_handler(
        self, err_info: _ErrInfo
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def refuse(_request: web.BaseRequest) -> web.StreamResponse:
            return cast(web.StreamResponse, await self._desk.refuse(self, err_info.exc))

        return refuse


class Connections(web.Server):
    """All connections of a process, whatever listener they came by.

    Raises UnfitServer: a broken installation does not start, instead of serving without limits.
    """

    def __init__(self, desk: Desk, limits: Limits) -> None:
        super().__init__(
            cast(Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], desk.handle),
            request_factory=cast("type[web.BaseRequest]", Exchange),
            handler_cancellation=False,
        )
        self._desk = desk
        self._limits = limits
        prove(self(), limits)

    def __call__(self) -> Connection:
        return Connection(self, self._desk, loop=self._loop, limits=self._limits)

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def all(self) -> list[Connection]:
        return cast(list[Connection], self.connections)


# A body of no coding under a name of one: a parser that inflates cannot hand it over unchanged.
_SAMPLE = (
    b"POST /a%2Fb? HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nraw"
)


def prove(connection: Connection, limits: Limits) -> None:
    """Parse a sample and look at the settings of a fresh connection. Raises UnfitServer."""
    parser = connection._parser
    if HttpRequestParser.__module__ != "aiohttp._http_parser" or parser is None:
        raise UnfitServer("aiohttp was built without its C parser; install a wheel of aiohttp")
    found = (
        connection.keepalive_timeout,
        connection.max_headers,
        connection.max_line_size,
        connection.max_field_size,
        connection._lingering_time,
        connection.access_logger,
    )
    wanted = (limits.idle_timeout, limits.header_lines, LONGEST_LINE, LONGEST_LINE, LINGER, None)
    if found != wanted:
        raise UnfitServer(f"aiohttp took the settings {found} instead of {wanted}")
    ((message, payload),), _, _ = parser.feed_data(_SAMPLE)
    if payload.exception() or payload.read_nowait() != b"raw" or message.path != "/a%2Fb?":
        raise UnfitServer("aiohttp changes requests while it parses them")
