"""The whole program in a process of its own, as an operator starts it: `serve --config FILE`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import yaml

from gateway.store import parting

# A cold embedded store needs 1 to 3 s for its initdb on two busy cores; a minute means stuck.
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
# Enough of the log to see why it did not start.
KEPT_LINES = 20


class ProgramFailed(Exception):
    """The gateway did not become ready; the message ends with its last log lines."""


class Program:
    """One `dedup-gateway serve`, from start to stop."""

    def __init__(self, config: Mapping[str, object], file: Path) -> None:
        """`file`: where the configuration is written, as YAML."""
        self._config = config
        self._file = file
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._addresses: dict[str, tuple[str, int]] = {}
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)

    @property
    def pid(self) -> int:
        """Of the gateway itself, not of its store."""
        return self._running().pid

    @property
    def deliveries(self) -> tuple[str, int]:
        """Host and port that take deliveries."""
        return self._addresses["deliveries"]

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises ProgramFailed."""
        self._file.write_text(yaml.safe_dump(dict(self._config), sort_keys=False))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "serve", "--config", str(self._file),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C goes to the demo alone, which then stops its gateway in order.
            start_new_session=True,
            preexec_fn=parting.with_parent(signal.SIGTERM),
            env=_without_settings(os.environ),
        )  # fmt: skip
        self._reading = asyncio.ensure_future(self._read_log())
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._ready()
        except TimeoutError:
            await self.stop()
            raise ProgramFailed(self.last_words(f"not ready after {START_TIMEOUT:.0f} s")) from None

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not end it. Harmless when it has ended."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading
        self._process = self._reading = None

    def last_words(self, what: str) -> str:
        """What the gateway did, and the end of its log."""
        return "\n".join([f"the gateway {what}; its last words:", *self._last_lines])

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ProgramFailed("the gateway is not running")
        return self._process

    async def _is_ready(self) -> bool:
        status = self._running().returncode
        if status is not None:
            raise ProgramFailed(self.last_words(f"ended with exit code {status}"))
        return "admin" in self._addresses and await _answers_ready(*self._addresses["admin"])

    async def _ready(self) -> None:
        while True:
            if await self._is_ready():
                return
            await asyncio.sleep(0.05)

    async def _read_log(self) -> None:
        stream = self._running().stderr
        assert stream is not None
        async for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            self._last_lines.append(line)
            self._note_address(line)

    def _note_address(self, line: str) -> None:
        try:
            facts = json.loads(line)
        except ValueError:
            return
        if isinstance(facts, dict) and facts.get("event") == "listening":
            host, _, port = facts["address"].rpartition(":")
            self._addresses[facts["what"]] = (host, int(port))


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings meant for the operator's own gateway must not reach this one."""
    return {name: value for name, value in environment.items() if not name.startswith("DEDUP_")}


async def _answers_ready(host: str, port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
        reply = await reader.read()
    except OSError:
        return False
    finally:
        writer.close()
    return reply.startswith(b"HTTP/1.1 200")
