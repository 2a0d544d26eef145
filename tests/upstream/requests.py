"""What the tests of the hop send, and how their hops are made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.event import RawHeaders
from gateway.core.outcome import (
    REFUSED_BEFORE_EFFECT,
    SUCCESS,
    Delivered,
    Outcome,
    StatusPolicy,
)
from gateway.core.route import Tls, Upstream
from gateway.upstream.hop import Hop
from tests.routes import UPSTREAM
from tests.upstream.scripted import Peer, ScriptedConsumer

POLICY = StatusPolicy(SUCCESS, REFUSED_BEFORE_EFFECT)
NO_TLS = Tls(None, None, None)
# Longer than anything takes here, shorter than a test may last: where a test is not about time.
LONG = 20.0


def upstream(port: int, **changes: Any) -> Upstream:
    """An upstream on this machine with limits that nobody meets unless the test says so."""
    plain = replace(
        UPSTREAM,
        port=port,
        concurrency=8,
        slot_timeout=LONG,
        connect_timeout=LONG,
        write_timeout=LONG,
        first_byte_timeout=LONG,
        timeout=LONG,
    )
    return replace(plain, **changes)


def hop_to(
    port: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    at: Callable[[str], None] = lambda step: None,
    **changes: Any,
) -> Hop:
    """A hop to this machine."""
    return Hop(upstream(port, **changes), POLICY, clock=clock, at=at)


@dataclass(frozen=True, slots=True)
class Request:
    """A delivery as the hop gets it."""

    body: bytes
    method: str = "POST"
    target: str = "/hooks/orders?a=%7E&b=%2f#x"[:-2]

    @property
    def headers(self) -> RawHeaders:
        """In an order and spelling that a client library would change."""
        lines = [(b"host", b"hooks.example.com"), (b"X-Sig", b"a"), (b"x-sig", b"b")]
        if self.body:
            lines.append((b"content-length", str(len(self.body)).encode()))
        return tuple(lines)

    @property
    def wire(self) -> bytes:
        """The bytes that have to arrive, written down by hand."""
        head = f"{self.method} {self.target} HTTP/1.1\r\nhost: hooks.example.com\r\n".encode()
        length = b"content-length: %d\r\n" % len(self.body) if self.body else b""
        return head + b"X-Sig: a\r\nx-sig: b\r\n" + length + b"\r\n" + self.body

    async def over(self, hop: Hop, *, send_before: float | None = None) -> Outcome:
        """Send it."""
        return await hop.send(
            self.method, self.target, self.headers, self.body, send_before=send_before
        )


BODY = Request(b'{"event_id": "evt_1"}')
NO_BODY = Request(b"")
BIG = Request(bytes(20 * 2**20))
"""More than the kernel's buffers take when nobody reads."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def answers_ok(peer: Peer) -> None:
    """A consumer as one wishes it."""
    await peer.read_request()
    await peer.write(OK)


async def never_answers(peer: Peer) -> None:
    """Reads and says nothing."""
    await peer.read_request()
    await peer.until_closed()


class Gate:
    """A consumer that answers when it is told to."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.read_request()
        await self.opened.wait()
        await peer.write(OK)


async def warmed(hop: Hop, consumer: ScriptedConsumer, *, pooled: bool) -> None:
    """Leaves one idle connection if `pooled`."""
    if pooled:
        consumer.plays(answers_ok)
        await NO_BODY.over(hop)
        assert hop.idle == 1


def is_ok(outcome: Outcome) -> bool:
    """Delivered, and whole."""
    return isinstance(outcome, Delivered) and outcome.reply.body == b"ok"
