"""A wire that fails on command: TCP in front of Postgres, over TCP or a unix socket."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from enum import Enum
from urllib.parse import parse_qs, urlsplit, urlunsplit


class Wire(Enum):
    """What becomes of bytes."""

    PASS = "pass"
    BLACK_HOLE = "black_hole"
    """Nothing arrives on either side, and nobody is told."""
    HOLD_REPLIES = "hold_replies"
    """Requests arrive; replies are kept until the wire passes again."""
    CUT_REPLIES = "cut_replies"
    """Requests arrive; instead of the reply the connection ends."""


class FaultProxy:
    """Between a client and one server. `dsn` is the server's; `proxied` the one to give away."""

    def __init__(self, dsn: str) -> None:
        self._parts = urlsplit(dsn)
        self._wire = Wire.PASS
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._opened = 0
        self._faulty_up_to = math.inf
        self.replies_held = 0
        self.replies_cut = 0
        self.cut_if: Callable[[], Awaitable[object]] | None = None
        """Asked before a reply is cut: replies pass as long as it says no."""

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def proxied(self) -> str:
        user = f"{self._parts.username}@" if self._parts.username else ""
        return urlunsplit(
            self._parts._replace(netloc=f"{user}127.0.0.1:{self.port}", query="sslmode=disable")
        )

    def set(self, wire: Wire, *, present_only: bool = False) -> None:
        """`present_only`: connections that are opened from now on pass."""
        self._wire = wire
        self._faulty_up_to = self._opened if present_only else math.inf
        if wire is Wire.PASS:
            self._passes.set()
        else:
            self._passes.clear()

    def drop_all(self) -> None:
        """Every connection ends now."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self._opened += 1
        number = self._opened
        try:
            if self._wire is Wire.BLACK_HOLE and number <= self._faulty_up_to:
                await self._passes.wait()
            there, back = await self._dial()
            self._writers.add(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, number, replies=False))
                group.create_task(self._pump(there, writer, number, replies=True))
        except (OSError, ExceptionGroup):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            for end in (writer, locals().get("back")):
                if end is not None:
                    end.transport.abort()
                    self._writers.discard(end)
            self._tasks.discard(task)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        directory = parse_qs(self._parts.query).get("host")
        if directory:
            return await asyncio.open_unix_connection(f"{directory[0]}/.s.PGSQL.5432")
        return await asyncio.open_connection(
            self._parts.hostname or "127.0.0.1", self._parts.port or 5432
        )

    async def _cuts(self) -> bool:
        return self.cut_if is None or bool(await self.cut_if())

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
        *,
        replies: bool,
    ) -> None:
        while chunk := await reader.read(65536):
            if number > self._faulty_up_to:
                pass
            elif self._wire is Wire.BLACK_HOLE:
                await self._passes.wait()
            elif replies and self._wire is Wire.HOLD_REPLIES:
                self.replies_held += 1
                await self._passes.wait()
            elif replies and self._wire is Wire.CUT_REPLIES and await self._cuts():
                self.replies_cut += 1
                raise ConnectionAbortedError
            writer.write(chunk)
            await writer.drain()
        raise ConnectionAbortedError  # one side has ended, so the other does
