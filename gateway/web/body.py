"""Bodies: read whole, within time and memory, before anything else happens to a delivery.

free        the first 64 KiB of each body; there are as many as connections
reserved    beyond that the declared length, or the route's limit when chunked; in the order of
            asking, and only once those 64 KiB are here, so that a dripping sender holds nothing
given back  what was not needed when the body is complete, the rest when it has been answered
"""

from __future__ import annotations

import asyncio

from aiohttp import hdrs
from aiohttp.http import HttpVersion11

from gateway.core.answer import Reason, Rejected
from gateway.web.budget import ByteBudget
from gateway.web.connection import READ_BUFFER, BrokenFraming, Exchange, SenderGone
from gateway.web.limits import Limits

FREE = 2 * READ_BUFFER  # what aiohttp lets lie unread before it stops reading: 64 KiB
# Most providers give up within 30 s. Some never send again, so an answer late is better than a no.
LONGEST_WAIT_FOR_ROOM = 20.0
# Other bodies leave in seconds; a provider's own ladder of retries is longer anyway.
RETRY_AFTER = 5
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_TOO_LARGE = Rejected(Reason.BODY_TOO_LARGE, 413, "the body is larger than this route takes")
_TOO_SLOW = Rejected(Reason.BODY_TIMEOUT, 408, "the body did not arrive in time")
_NO_ROOM = Rejected(Reason.OVERLOADED, 503, "there is no room for one more large body", RETRY_AFTER)
_GONE = Rejected(Reason.BODY_INCOMPLETE, 400, "the body is incomplete")
_BROKEN = Rejected(Reason.MALFORMED, 400, "the body is not framed as HTTP/1.1 wants it")


class Bodies:
    """Reads the bodies of a process."""

    def __init__(self, limits: Limits) -> None:
        self._timeout = limits.body_timeout
        self.budget = ByteBudget(limits.body_memory)

    async def read(self, exchange: Exchange, limit: int) -> bytes | Rejected:
        """The whole body, at most `limit` bytes; the exchange notes what it holds of the budget."""
        body: bytes | Rejected
        try:
            if exchange.payload.is_eof():
                # Whole with its head, so within the free part: reading stops beyond that.
                body = exchange.payload.read_nowait()
                if len(body) > limit:
                    body = _TOO_LARGE
            else:
                body = await self._incoming(exchange, limit)
        except SenderGone:
            body = _GONE
        except BrokenFraming:
            exchange.payload.feed_eof()  # or aiohttp would go on reading what it raised for
            body = _BROKEN
        except TimeoutError:
            body = _TOO_SLOW
        if isinstance(body, Rejected):
            exchange.spoiled = True
        return body

    def release(self, exchange: Exchange) -> None:
        """The body is needed no more."""
        if exchange.held:
            self.budget.give_back(exchange.held)
            exchange.held = 0

    async def _incoming(self, exchange: Exchange, limit: int) -> bytes | Rejected:
        declared = exchange.message.headers.get(hdrs.CONTENT_LENGTH)
        if declared is not None and int(declared) > limit:
            return _TOO_LARGE
        self._invite(exchange)
        return await self._arriving(exchange, limit, int(declared or limit))

    async def _arriving(self, exchange: Exchange, limit: int, expected: int) -> bytes | Rejected:
        body = bytearray()
        async with asyncio.timeout(self._timeout) as deadline:
            while chunk := await _next(exchange):
                body += chunk
                if len(body) > limit:
                    return _TOO_LARGE
                if len(body) > FREE and not exchange.held:
                    # The wait for room is ours, not the sender's.
                    deadline.reschedule(None)
                    if not await self._reserve(exchange, expected):
                        return _NO_ROOM
                    deadline.reschedule(asyncio.get_running_loop().time() + self._timeout)
        self._keep_only(exchange, len(body))
        return bytes(body)

    async def _reserve(self, exchange: Exchange, size: int) -> bool:
        if not await self.budget.take(size, LONGEST_WAIT_FOR_ROOM):
            return False
        exchange.held = size
        return True

    def _keep_only(self, exchange: Exchange, size: int) -> None:
        surplus = exchange.held - size
        if surplus > 0:
            exchange.held -= surplus
            self.budget.give_back(surplus)

    def _invite(self, exchange: Exchange) -> None:
        """Answer `Expect: 100-continue`, now that the body is wanted."""
        message, transport = exchange.message, exchange.connection.transport
        if (
            transport is not None
            and message.version is HttpVersion11
            and not exchange.payload.total_bytes
            and message.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        ):
            transport.write(_CONTINUE)


async def _next(exchange: Exchange) -> bytes:
    """More of the body, empty at its end. Raises SenderGone, BrokenFraming."""
    payload, connection = exchange.payload, exchange.connection
    if not payload.is_eof():
        if connection.broken:
            raise BrokenFraming
        if connection.transport is None:
            raise SenderGone
    return await payload.readany()
