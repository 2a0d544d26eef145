"""Demo and sample as one starts them: with a real gateway, and nothing left behind afterwards."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import aiohttp
import pytest
import yaml
from rich.console import Console

from gateway.demo.play import configuration, run_demo
from gateway.demo.program import Program, ProgramFailed
from gateway.demo.room import temporary_room
from gateway.demo.shapes import Scale


async def test_the_demo_shows_doubles_directly_and_none_through_the_gateway() -> None:
    out = io.StringIO()
    code = await run_demo(Console(file=out, width=80), Scale(slow=2, redriven=30, doubled=5))
    assert code == 0, out.getvalue()
    assert max(map(len, out.getvalue().splitlines()[-2:])) <= 80  # a terminal breaks words apart
    rows = re.findall(r"(directly|gateway) +\d+ +\d+ +\d+ +(\d+) +(\d+)", out.getvalue())
    assert rows == [
        ("directly", "2", "0"), ("gateway", "0", "0"),
        ("directly", "30", "0"), ("gateway", "0", "0"),
        ("directly", "5", "0"), ("gateway", "0", "0"),
    ]  # fmt: skip


async def test_a_gateway_that_does_not_start_says_why() -> None:
    with temporary_room() as room:
        program = Program({"routes": "none"}, room / "gateway.yaml")
        try:
            with pytest.raises(ProgramFailed, match="routes"):
                await program.start()
        finally:
            await program.stop()


async def test_settings_for_another_gateway_do_not_reach_the_demos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEDUP__ROUTES__0__MODE", "observe")
    with temporary_room() as room:
        program = Program(configuration(9, room / "store"), room / "gateway.yaml")
        try:
            await program.start()
            async with aiohttp.ClientSession() as session:
                url = "http://{}:{}/hooks/orders".format(*program.deliveries)
                # Nothing listens there: only `forward` adds what it thinks of the delivery.
                async with session.post(url, json={"event_id": "evt_1"}) as reply:
                    assert reply.status == 502
                    assert reply.headers["Dedup-Verdict"] == "first"
        finally:
            await program.stop()


async def test_the_sample_answers_its_own_curl_line_and_ends_on_ctrl_c(unused_port: int) -> None:
    with temporary_room() as room:
        file = room / "sample.yaml"
        config = configuration(unused_port, room / "store")
        _write(file, yaml.safe_dump(config))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "sample", "--config", str(file),
            stdout=PIPE, stderr=PIPE, env={**os.environ, "COLUMNS": "60"},
        )  # fmt: skip
        try:
            url, body = await _printed_line(process)
            replies = [await _post_when_ready(url, body), await _post_when_ready(url, body)]
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(process.communicate(), 30)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
    assert replies == [(200, "first"), (200, "duplicate")]
    assert process.returncode == 0, err.decode()
    assert "1 request and 1 effect." in out.decode()
    assert b'"level": "info"' not in err, "the screen is for the lines that say what to try"
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", unused_port)


async def _printed_line(process: Process) -> tuple[str, bytes]:
    """The curl line, as it would be copied: a shell joins its two halves."""
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(60):
        async for line in process.stdout:
            printed += line.decode()
            assert len(line.rstrip()) <= 80, line
            if found := re.search(r"curl -i (\S+) \\\n +-d '(.*)'", printed):
                return found[1], found[2].encode()
    raise AssertionError("no curl line was printed")


async def _post_when_ready(url: str, body: bytes) -> tuple[int, str]:
    """Like curl. The store may still be coming up: then 503, with Retry-After."""
    assert json.loads(body)["event_id"].startswith("evt_")
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            async with session.post(url, data=body) as reply:
                if reply.status != 503:
                    return reply.status, reply.headers["Dedup-Verdict"]
            await asyncio.sleep(0.1)


def _write(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.fixture
def unused_port() -> int:

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
