"""A consumer that misbehaves on script and counts what it did.

Raw sockets, so that a test sees the bytes that arrived and decides over each byte that goes back.
An *effect* is what an order system would call a shipped order: it is counted per event, with
whether the forward was marked.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

Lines = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Received:
    """One request, as its bytes were."""

    method: str
    target: str
    headers: Lines
    body: bytes
    """Empty if it was longer than the consumer keeps."""
    size: int
    at: float
    connection: int
    event: str
    step: int
    """How many requests for this event came before."""

    def values(self, name: str) -> list[bytes]:
        return [value for line, value in self.headers if line.lower() == name.lower().encode()]

    def header(self, name: str) -> str | None:
        values = self.values(name)
        return values[0].decode("latin-1") if values else None

    @property
    def attempt(self) -> int | None:
        said = self.header("Dedup-Attempt")
        return int(said) if said else None

    @property
    def marked(self) -> bool:
        return self.header("Dedup-Possible-Duplicate") == "1"


@dataclass(frozen=True, slots=True)
class Effect:
    """The consumer acted."""

    marked: bool
    attempt: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Says:
    """One scripted behaviour. Without more it answers at once, and acts if the status is a 2xx."""

    status: int = 200
    reason: str = "OK"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b'{"ok":true}'
    delay: float = 0.0
    """Between reading the request and answering."""
    acts: Literal["before", "after", "never", "by_status"] = "by_status"
    """Whether it acts, and on which side of the delay."""
    hangs_up: Literal["no", "unanswered", "mid_head", "mid_body"] = "no"
    resets: bool = False
    """Hang up by RST instead of FIN."""
    until: asyncio.Event | None = None
    """Held back until somebody sets this; after the delay."""
    raw: bytes | None = None
    """Written instead of a well-formed reply."""
    then: Callable[[], Awaitable[None]] | None = None
    """Run after the effect and before the answer."""

    def bytes(self, method: str) -> bytes:
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        named = {name.lower() for name, _ in self.headers}
        bodiless = self.status in (204, 304) or self.status < 200
        if not bodiless and not named & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head if bodiless or method == "HEAD" else head + self.body


OK = Says()


class Consumer:
    """Listens on a port of its own; what has no script gets a plain 200."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.acted: dict[str, list[Effect]] = defaultdict(list)
        self.by_event: dict[str, list[Received]] = defaultdict(list)
        self.otherwise = OK
        self.keeps_up_to = 64 * 2**20
        self.port = 0
        self.connections = 0
        self.inside = 0
        self.most_inside = 0
        """The most requests that were with it at once; a test may set it back."""
        self._scripts: dict[str, list[Says]] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def script(self, event: str, *says: Says) -> None:
        """What `event` is answered, in order; the last one repeats."""
        self._scripts[event] = list(says)

    def requests(self, event: str) -> list[Received]:
        return self.by_event[event]

    def effects(self, event: str) -> list[Effect]:
        return self.acted[event]

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port, limit=2**26, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and drops every connection; what was counted stays."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        number = self.connections
        try:
            while (request := await self._read(reader, number)) is not None:
                self.inside += 1
                self.most_inside = max(self.most_inside, self.inside)
                try:
                    if not await self._answer(request, writer):
                        break
                finally:
                    self.inside -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            if self._server is not None and self._server.is_serving():
                raise
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader, number: int) -> Received | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head[:-4].split(b"\r\n")
        method, target, _ = first.decode("latin-1").split(" ")
        headers = tuple(_split(line) for line in lines)
        body = await _body(reader, headers)
        event = event_of(target, headers, body)
        step = len(self.by_event[event])
        kept = body if len(body) <= self.keeps_up_to else b""
        request = Received(
            method, target, headers, kept, len(body), time.monotonic(), number, event, step
        )
        self.received.append(request)
        self.by_event[event].append(request)
        return request

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        script = self._scripts.get(request.event) or [self.otherwise]
        says = script[min(request.step, len(script) - 1)]
        if says.acts == "before":
            self._act(request)
        if says.delay:
            await asyncio.sleep(says.delay)
        if says.until is not None:
            await says.until.wait()
        if says.acts == "after" or (says.acts == "by_status" and says.status // 100 == 2):
            self._act(request)
        if says.then is not None:
            await says.then()
        reply = says.bytes(request.method)
        if says.hangs_up != "no":
            _hang_up(writer, reply, says)
            return False
        writer.write(reply)
        await writer.drain()
        return says.raw is None

    def _act(self, request: Received) -> None:
        effect = Effect(request.marked, request.attempt, time.monotonic())
        self.acted[request.event].append(effect)


def event_of(target: str, headers: Lines, body: bytes) -> str:
    """What a test calls the event: X-Rig, else the body's event_id, else the raw target."""
    for name, value in headers:
        if name.lower() == b"x-rig":
            return value.decode("latin-1")
    try:
        document = json.loads(body)
    except ValueError:
        return target
    if isinstance(document, dict) and "event_id" in document:
        return str(document["event_id"])
    return target


def _split(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")


async def _body(reader: asyncio.StreamReader, headers: Lines) -> bytes:
    named = {name.lower(): value for name, value in headers}
    if b"transfer-encoding" in named:
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return body
    return await reader.readexactly(int(named.get(b"content-length", b"0")))


def _hang_up(writer: asyncio.StreamWriter, reply: bytes, says: Says) -> None:
    head_end = reply.find(b"\r\n\r\n") + 4
    if says.hangs_up == "mid_head":
        writer.write(reply[: head_end - 6])
    elif says.hangs_up == "mid_body":
        writer.write(reply[: head_end + max(1, (len(reply) - head_end) // 2)])
    if says.resets:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
