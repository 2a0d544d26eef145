"""What a test of the provider's side needs: a scripted receiver, a tally and a raw connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from gateway.core.answer import Answer, Answered, Reason, Verdict
from gateway.core.event import Delivery, RawHeaders
from gateway.core.keying import Recipe
from gateway.core.location import Header, Literal
from gateway.core.outcome import Reply
from gateway.core.route import (
    Route,
)
from gateway.web.ingress import Ingress
from gateway.web.limits import Limits
from tests import routes

MIB = 2**20
ACCEPTED = Answered(Reply(200, b"OK", ((b"Content-Length", b"2"),), b"ok"), Verdict.FIRST)

ROUTE = replace(
    routes.ROUTE, recipe=Recipe(scope=(Literal("orders"),), parts=(Header("X-Event-Id"),))
)

LIMITS = Limits(connections=512, body_memory=64 * MIB, body_timeout=20.0)


class ScriptedReceiver:
    """Keeps what it receives and answers from a script; without one, always the same success."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.decisive = route.decisive
        self.deliveries: list[Delivery] = []
        self.script: deque[Answer | BaseException] = deque()
        self.gate = asyncio.Event()
        self.gate.set()
        self.ended = 0

    async def receive(self, delivery: Delivery) -> Answer:
        self.deliveries.append(delivery)
        await self.gate.wait()
        answer = self.script.popleft() if self.script else ACCEPTED
        self.ended += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def last(self) -> Delivery:
        return self.deliveries[-1]


@dataclass
class Tally:
    """What was counted."""

    requests: Counter[str] = field(default_factory=Counter)
    rejections: Counter[tuple[str, Reason]] = field(default_factory=Counter)

    def request(self, route: str) -> None:
        self.requests[route] += 1

    def rejection(self, route: str, reason: Reason) -> None:
        self.rejections[route, reason] += 1

    @property
    def reasons(self) -> Counter[Reason]:
        seen: Counter[Reason] = Counter()
        for (_, reason), number in self.rejections.items():
            seen[reason] += number
        return seen


@dataclass(frozen=True)
class Answer11:
    """A reply as it lay on the wire."""

    start: bytes
    lines: RawHeaders
    body: bytes

    @property
    def status(self) -> int:
        return int(self.start.split(b" ")[1])

    def value(self, name: bytes) -> bytes | None:
        found = [value for line, value in self.lines if line.lower() == name.lower()]
        return found[0] if found else None

    @property
    def closes(self) -> bool:
        return self.value(b"connection") == b"close"


class Sender:
    """One connection to the gateway; bytes are sent as they are given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def reply(self, *, bodiless: bool = False) -> Answer11:
        async with asyncio.timeout(15):
            start = (await self.reader.readline()).rstrip(b"\r\n")
            assert start, "the connection ended without a reply"
            lines = []
            while line := (await self.reader.readline()).rstrip(b"\r\n"):
                name, _, value = line.partition(b": ")
                lines.append((name, value))
            answer = Answer11(start, tuple(lines), b"")
            length = int(answer.value(b"content-length") or 0)
            if not bodiless and length:
                answer = replace(answer, body=await self.reader.readexactly(length))
            return answer

    async def rest(self) -> bytes:
        """All up to the end; b"" too for a reset."""
        async with asyncio.timeout(15):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def half_close(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def reset(self) -> None:
        """Close with RST, as a crashed peer's kernel does."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Stage:
    """An ingress on a free port, and the connections that a test opens to it."""

    def __init__(self, ingress: Ingress, receiver: ScriptedReceiver, tally: Tally) -> None:
        self.ingress, self.receiver, self.tally = ingress, receiver, tally
        self.address = ("", 0)
        self._senders: list[Sender] = []

    async def connect(self) -> Sender:
        sender = Sender(*await asyncio.open_connection(*self.address))
        self._senders.append(sender)
        return sender

    async def ask(self, *parts: bytes) -> Answer11:
        """One request on a connection of its own."""
        sender = await self.connect()
        await sender.send(*parts)
        return await sender.reply(bodiless=parts[0].startswith(b"HEAD"))

    async def close(self) -> None:
        # The gateway first: a sender may still have bytes to send that nobody will read.
        await self.ingress.close()
        for sender in self._senders:
            await sender.close()


MakeStage = Callable[..., Awaitable[Stage]]
"""Takes a route and limits, and ends what it made when the test ends."""


def post(
    body: bytes = b"",
    *,
    target: bytes = b"/hooks/orders",
    headers: tuple[bytes, ...] = (),
    method: bytes = b"POST",
) -> bytes:
    """A plain request with a length."""
    head = [method + b" " + target + b" HTTP/1.1", b"Host: hooks.example.com", *headers]
    head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def chunked_head(*headers: bytes) -> bytes:
    head = [b"POST /hooks/orders HTTP/1.1", b"Host: h", *headers, b"Transfer-Encoding: chunked"]
    return b"\r\n".join(head) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


LAST_CHUNK = b"0\r\n\r\n"
