"""Ingress: providers' requests in, as deliveries; answers out.

    head       counted once; what HTTP or we do not allow is refused before the body is read
    body       whole, within time and memory; a sender that breaks off has left no trace
    lines      hop-by-hop ones end here, before an id is read
    receive    runs to its end whether or not the sender still listens
    reply      one write

What `receive` answers it has counted itself; counted here is what never got to it, and its crashes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext
from typing import Protocol

from aiohttp import hdrs
from aiohttp.http import HttpVersion10
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from gateway.core import headers
from gateway.core.answer import Answer, Reason, Rejected
from gateway.core.event import Delivery
from gateway.core.headers import BadNomination
from gateway.core.route import Route
from gateway.web import admission, listener, reply
from gateway.web.body import Bodies
from gateway.web.connection import Connection, Connections, Exchange, Sent
from gateway.web.limits import Limits

# How long a connection that was opened just before the end may take to bring its head.
GRACE = 1.0

_MALFORMED = Rejected(Reason.MALFORMED, 400, "this is not a well-formed HTTP/1.1 request")
_HEAD_TOO_LARGE = Rejected(
    Reason.HEADERS_TOO_LARGE, 431, "the request line or the headers are too large"
)
_NOMINATION = Rejected(
    Reason.NOMINATION, 400, "Connection names a header that must not be dropped on the way"
)
_INTERNAL = Rejected(Reason.INTERNAL, 500, "the gateway failed; it may have forwarded the request")


class Receiver(Protocol):
    """One route, ready to receive."""

    @property
    def route(self) -> Route: ...
    @property
    def decisive(self) -> frozenset[bytes]:
        """Of the route, worked out once."""
        ...

    async def receive(self, delivery: Delivery) -> Answer: ...


class Counts(Protocol):
    """What arrived, and what was turned away."""

    def request(self, route: str) -> None: ...
    def rejection(self, route: str, reason: Reason) -> None: ...


Find = Callable[[str, bytes | None], Receiver | None]
"""The route for a raw target and a Host; looked up per request, so a reload is a swap."""


class Ingress:
    """The provider's side of a process, over any number of listeners. Made inside a running loop.

    Raises UnfitServer.
    """

    def __init__(self, find: Find, *, limits: Limits, counts: Counts, log: logging.Logger) -> None:
        self._find = find
        self._limits = limits
        self._counts = counts
        self._log = log
        self._bodies = Bodies(limits)
        self._connections = Connections(self, limits)
        self._listeners: list[listener.Listener] = []
        self._in_flight = 0
        self._closing = False

    async def listen(self, host: str, port: int, ssl: SSLContext | None = None) -> tuple[str, int]:
        """Take requests at one more address, whose bound form is returned. Raises OSError."""
        opened = await listener.open_listener(self._connections, host, port, ssl)
        self._listeners.append(opened)
        return opened.address

    def drain(self) -> None:
        """Requests are still taken; each reply ends its connection, so that balancers move on."""
        self._closing = True

    async def stop_listening(self) -> None:
        """Refuse new connections, close idle ones. What has connected already is served once."""
        self.drain()
        for opened in self._listeners:
            await opened.close()
        for connection in self._connections.all:
            if connection.idle and not connection.fresh:
                connection.force_close()
        asyncio.get_running_loop().call_later(GRACE, self._close_idle)

    async def wait_idle(self, timeout: float) -> bool:
        """After `stop_listening`: whether nothing is in flight any more within `timeout` s."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._in_flight or any(connection.fresh for connection in self._connections.all):
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    async def close(self) -> None:
        """Break off what is still in flight and close all connections."""
        await self.stop_listening()
        # aiohttp takes zero for "for ever"; whoever calls this has waited already.
        await self._connections.shutdown(0.05)

    def admit(self) -> bool:
        """Whether one more connection may stay."""
        if len(self._connections) < self._limits.connections:
            return True
        # One request that nobody will read: requests stay the sum of verdicts and rejections.
        self._counts.request("")
        self._counts.rejection("", Reason.OVERLOADED)
        return False

    async def handle(self, exchange: Exchange) -> Sent:
        """One request, from its head to the last byte of the reply."""
        self._in_flight += 1
        try:
            try:
                answer = await self._answer(exchange)
            finally:
                self._bodies.release(exchange)
            message = exchange.message
            unread = not exchange.payload.is_eof()
            if unread:
                exchange.connection.linger(exchange.payload)
            # Behind a hoped-for upgrade (Java's client hopes for h2c) aiohttp's parser drops the
            # rest of the same read: where the next request begins is lost.
            lost = unread or exchange.spoiled or message.upgrade
            close = self._closing or message.should_close or lost
            return await self._reply(
                exchange.connection,
                answer,
                head=message.method == hdrs.METH_HEAD,
                close=close,
                old=message.version is HttpVersion10,
            )
        finally:
            self._in_flight -= 1

    async def refuse(self, connection: Connection, fault: BaseException) -> Sent:
        """Answer what does not parse and end the connection: where the next begins is lost."""
        too_large = isinstance(fault, LineTooLong) or (
            isinstance(fault, BadHttpMessage) and fault.message == "Too many headers received"
        )
        self._counts.request("")
        answer = self._turn_away("", _HEAD_TOO_LARGE if too_large else _MALFORMED)
        return await self._reply(connection, answer, head=False, close=True, old=False)

    async def _answer(self, exchange: Exchange) -> Answer:
        message = exchange.message
        refused = admission.refusal(message)
        host = message.headers.get(hdrs.HOST)
        receiver = None
        if refused is None:
            receiver = self._find(
                message.path, None if host is None else host.encode("utf-8", "surrogateescape")
            )
        name = "" if receiver is None else receiver.route.name
        self._counts.request(name)
        if receiver is None:
            return self._turn_away("", refused or admission.NO_ROUTE)
        body = await self._bodies.read(exchange, receiver.route.body_limit)
        if isinstance(body, Rejected):
            return self._turn_away(name, body)
        try:
            lines = headers.end_to_end(message.raw_headers, receiver.decisive)
        except BadNomination:
            return self._turn_away(name, _NOMINATION)
        peer, scheme = exchange.connection.peer, exchange.connection.scheme
        delivery = Delivery(message.method, message.path, lines, body, peer, scheme)
        try:
            return await receiver.receive(delivery)
        except Exception:  # noqa: BLE001  # one delivery's crash must not reach another's
            self._log.exception("request_failed", extra={"route": name})
            return self._turn_away(name, _INTERNAL)

    async def _reply(
        self, connection: Connection, answer: Answer, *, head: bool, close: bool, old: bool
    ) -> Sent:
        # HTTP/1.0 ends a connection unless told otherwise, HTTP/1.1 the other way round.
        said = b"close" if close else b"keep-alive" if old else None
        if not connection.write(reply.put(answer, head=head).encode(said)):
            await connection.taken(self._limits.body_timeout)
        return Sent(keep_alive=not close)

    def _turn_away(self, route: str, refused: Rejected) -> Rejected:
        self._counts.rejection(route, refused.reason)
        return refused

    def _close_idle(self) -> None:
        for connection in self._connections.all:
            if connection.idle:
                connection.force_close()
