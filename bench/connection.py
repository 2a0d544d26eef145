"""One connection of the load: a request, its reply, the next request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_VERDICT = re.compile(rb"\r\ndedup-verdict: *(\w+)", re.IGNORECASE)


class LoadFailed(Exception):
    """A reply that is no 200, or none at all: the figures would mean nothing."""


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, answered: Callable[[Connection, str], None]) -> None:
        self._answered = answered
        self._transport: asyncio.Transport | None = None
        self._pending = b""
        self.failed: Callable[[str], None] = lambda why: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def send(self, request: bytes) -> None:
        """The reply is told to `answered`."""
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        """Without telling anybody."""
        self.failed = lambda why: None
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        pending = self._pending + data if self._pending else data
        head = pending.find(b"\r\n\r\n")
        length = _LENGTH.search(pending, 0, head + 2) if head >= 0 else None
        if length is None or len(pending) < head + 4 + int(length[1]):
            self._pending = pending
            return
        self._pending = b""
        if not pending.startswith(b"HTTP/1.1 200"):
            self.failed(f"a reply that is no 200: {pending[:300]!r}")
            return
        verdict = _VERDICT.search(pending, 0, head + 2)
        self._answered(self, verdict[1].decode() if verdict else "-")

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed(f"the server closed a connection: {exc!r}")
