"""The consumer of the bench: answers 200 as cheaply as Python can. `python -m bench.consumer`.

It counts its requests, and says the count to GET: what the gateway let through is the consumer's
word. After `GET /hold` it takes requests and answers none, until `GET /go`.
"""

from __future__ import annotations

import asyncio
import re

import uvloop

from bench.serving import serve_until_told

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
    b'{"received": true}'
)
_COUNT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s"

_count = 0
_held: list[asyncio.Transport] | None = None
"""Connections that wait for their answer; None while it answers."""


class _Connection(asyncio.Protocol):
    """Requests one after another; every one of them has a Content-Length or no body."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        pending = self._pending + data if self._pending else data
        while pending:
            head = pending.find(b"\r\n\r\n")
            if head < 0:
                break
            length = _LENGTH.search(pending, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(pending) < end:
                break
            self._answer(pending)
            pending = pending[end:]
        self._pending = pending

    def _answer(self, request: bytes) -> None:
        global _count
        assert self._transport is not None
        if request.startswith(b"GET "):
            _obey(request)
            text = b"%d" % _count
            self._transport.write(_COUNT % (len(text), text))
            return
        _count += 1
        if _held is None:
            self._transport.write(_REPLY)
        else:
            _held.append(self._transport)


def _obey(request: bytes) -> None:
    global _held
    if request.startswith(b"GET /hold "):
        _held = []
    elif request.startswith(b"GET /go ") and _held is not None:
        for transport in _held:
            transport.write(_REPLY)
        _held = None


async def _main() -> None:
    listener = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    await serve_until_told(listener)


if __name__ == "__main__":
    uvloop.run(_main())
