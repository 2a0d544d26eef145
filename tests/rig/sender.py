"""A provider: exact bytes to a socket, and what came back."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

Address = tuple[str, int]


class NoReply(Exception):
    """The connection ended without a whole reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        wanted = name.lower().encode()
        return [value.decode("latin-1") for line, value in self.headers if line.lower() == wanted]

    def header(self, name: str) -> str | None:
        values = self.values(name)
        return values[0] if values else None

    @property
    def verdict(self) -> str | None:
        return self.header("Dedup-Verdict")

    @property
    def is_success(self) -> bool:
        return self.status // 100 == 2

    @property
    def retry_after(self) -> int:
        said = self.header("Retry-After")
        return int(said) if said else 0


def request(
    path: str,
    body: bytes = b"",
    *,
    method: str = "POST",
    headers: Sequence[tuple[str, str]] = (),
    host: str = "hooks.example.com",
) -> bytes:
    """A plain HTTP/1.1 request; a Content-Length is added unless the test frames by itself."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    framed = {name.lower() for name, _ in headers} & {"content-length", "transfer-encoding"}
    if not framed and (body or method in ("POST", "PUT", "PATCH")):
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def event(event_id: object, path: str = "/hooks/orders", **more: object) -> bytes:
    """One event as most providers send it."""
    body = json.dumps({"event_id": event_id, **more}).encode()
    return request(path, body, headers=[("Content-Type", "application/json")])


@dataclass
class Connection:
    """One keep-alive connection; requests in order."""

    address: Address
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(*self.address, limit=2**26)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def write(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def reply(self, *, to: str = "POST") -> Reply:
        return await read_reply(self.reader, bodiless=to == "HEAD")

    async def ask(self, raw: bytes) -> Reply:
        await self.write(raw)
        return await self.reply(to=raw.split(b" ", 1)[0].decode("latin-1"))

    def reset(self) -> None:
        """Ends the connection by RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def send(address: Address, raw: bytes, *, within: float = 30.0) -> Reply:
    """One request on a connection of its own. Raises NoReply, TimeoutError."""
    async with asyncio.timeout(within), Connection(address) as connection:
        return await connection.ask(raw)


async def attempt(address: Address, raw: bytes, *, within: float = 30.0) -> Reply | None:
    """As `send`; None when no reply came, for whatever reason."""
    try:
        return await send(address, raw, within=within)
    except (NoReply, OSError, TimeoutError):
        return None


async def volley(
    addresses: Sequence[Address], raws: Sequence[bytes], *, within: float = 30.0
) -> list[Reply]:
    """Concurrent doubles: all connections are open before the first byte leaves any of them."""
    barrier = asyncio.Event()
    ready = asyncio.Semaphore(0)

    async def one(address: Address, raw: bytes) -> Reply:
        async with Connection(address) as connection:
            ready.release()
            await barrier.wait()
            return await connection.ask(raw)

    async with asyncio.timeout(within), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(addresses[number % len(addresses)], raw))
            for number, raw in enumerate(raws)
        ]
        for _ in tasks:
            await ready.acquire()
        barrier.set()
    return [task.result() for task in tasks]


async def sweep(address: Address, raws: Sequence[bytes], *, width: int = 32) -> list[Reply]:
    """Many requests over few connections; the replies in the order of the requests."""
    told: dict[int, Reply] = {}

    async def lane(first: int) -> None:
        async with Connection(address) as connection:
            for number in range(first, len(raws), width):
                told[number] = await connection.ask(raws[number])

    async with asyncio.TaskGroup() as group:
        for first in range(min(width, len(raws))):
            group.create_task(lane(first))
    return [told[number] for number in range(len(raws))]


async def read_reply(reader: asyncio.StreamReader, *, bodiless: bool = False) -> Reply:
    """Raises NoReply when the other side ends early."""
    try:
        return await _read_reply(reader, bodiless=bodiless)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise NoReply(repr(error)) from error


async def _read_reply(reader: asyncio.StreamReader, *, bodiless: bool) -> Reply:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    _, status, reason = (first + b" ").split(b" ", 2)
    if int(status) == 100:
        return await _read_reply(reader, bodiless=bodiless)
    headers = tuple(_split(line) for line in lines)
    named = {name.lower(): value for name, value in headers}
    body = b""
    if bodiless or int(status) in (204, 304):
        pass
    elif b"chunked" in named.get(b"transfer-encoding", b""):
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    elif b"content-length" in named:
        body = await reader.readexactly(int(named[b"content-length"]))
    else:
        body = await reader.read()
    return Reply(int(status), reason.strip().decode("latin-1"), headers, body)


def _split(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")
