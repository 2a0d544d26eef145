"""A consumer that does what a script says, byte by byte, and keeps what it really received.

It works on bare sockets, because a stream reads ahead, and whether unread bytes are left when a
socket is closed decides between FIN and RST.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Self

Act = Callable[["Peer"], Awaitable[None]]
"""What the consumer does with one request. It may close the connection or leave it for the next."""


class Peer:
    """The consumer's end of one connection, during one request."""

    def __init__(self, connection: socket.socket) -> None:
        self.received = bytearray()
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    async def arrival(self) -> bool:
        """Wait until something has arrived, without reading it. False when it is the end."""
        while True:
            try:
                return bool(self._connection.recv(1, socket.MSG_PEEK))
            except BlockingIOError:
                await self._readable()
            except ConnectionError:
                return False

    async def read(self, most: int = 2**16) -> bytes:
        """At most so many bytes; none at the end."""
        data = await self._loop.sock_recv(self._connection, most)
        self.received += data
        return data

    async def read_head(self) -> None:
        """Read up to the blank line and not a byte further."""
        while not self.received.endswith(b"\r\n\r\n") and await self.read(1):
            pass

    async def read_request(self) -> None:
        """Read the whole request."""
        await self.read_head()
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", self.received)
        missing = int(length[1]) if length else 0
        while missing and (data := await self.read(missing)):
            missing -= len(data)

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        await self._loop.sock_sendall(self._connection, data)

    async def drip(self, data: bytes, every: float) -> None:
        """Write it byte by byte until the other side has had enough."""
        with contextlib.suppress(ConnectionError):
            for byte in data:
                await self.write(bytes([byte]))
                await asyncio.sleep(every)

    async def until_closed(self) -> None:
        """Read on until the other side closes."""
        with contextlib.suppress(ConnectionError):
            while await self.read():
                pass

    def close(self) -> None:
        """FIN, or RST when unread bytes are left: as close(2) does it."""
        self._connection.close()

    def reset(self) -> None:
        """RST."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    @property
    def closed(self) -> bool:
        """Whether this end is closed."""
        return self._connection.fileno() < 0

    async def _readable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_reader(self._connection.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(self._connection.fileno())


class ScriptedConsumer:
    """Plays one act per request, in the order in which requests arrive, on whichever connection."""

    def __init__(self) -> None:
        self.acts: deque[Act] = deque()
        self.requests: list[bytearray] = []
        """What was really read of each request."""
        self.connections = 0
        self.served_by: list[int] = []
        """Which connection each request came on, counted from 1."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        # A sender must feel that nobody reads, however large this machine's buffers are.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**18)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[socket.socket] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def plays(self, *acts: Act) -> None:
        """What to do with the next requests."""
        self.acts.extend(acts)

    async def stop_listening(self) -> None:
        """New connections are refused from now on."""
        for task in self._tasks:
            if task.get_name() == "accepting":
                task.cancel()
                await asyncio.wait([task])
        self._listener.close()

    def close_connections(self) -> None:
        """Close what is idle, as a consumer's keep-alive time-out does."""
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)

    async def __aenter__(self) -> Self:
        self._begin(self._accept(), "accepting")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()
        for connection in self._open:
            connection.close()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectionError):
                raise result

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._listener)
            connection.setblocking(False)
            self.connections += 1
            self._open.add(connection)
            self._begin(self._serve(connection, self.connections), "serving")

    async def _serve(self, connection: socket.socket, number: int) -> None:
        while True:
            peer = Peer(connection)
            if not await peer.arrival():
                connection.close()
                break
            self.requests.append(peer.received)
            self.served_by.append(number)
            await self.acts.popleft()(peer)
            if peer.closed:
                break
        self._open.discard(connection)

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work, name=name))
