"""Ctrl-C, which a terminal sends to its whole group of processes, and the end of the terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import socket
import sys
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

import pytest

from gateway.demo.room import temporary_room
from tests.rig.deadline import eventually

ROUTE = ["--upstream", "http://127.0.0.1:3", "--path", "/", "--event-id", "json:/id"]
SAMPLE_FILE = Path(__file__).parents[2] / "config" / "demo.yaml"
SAMPLE = ("sample", "--config", str(SAMPLE_FILE))
ADDRESSES = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


async def _program(*words: str, **env: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *words,
        stdout=PIPE, stderr=PIPE, start_new_session=True, env=os.environ | env,
    )  # fmt: skip


async def _end(process: Process, sign: signal.Signals) -> tuple[str, str]:
    """The signal to the whole group; what was printed."""
    os.killpg(process.pid, sign)
    try:
        out, err = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return out.decode(), err.decode()


def _working_below(place: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = process.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(place) in command:
            found.append(command.decode().replace("\0", " "))
    return found


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_first_start_that_is_interrupted_ends_at_once_and_leaves_nothing(
    sign: signal.Signals, code: int
) -> None:
    with temporary_room() as room:
        store = room / "store"
        process = await _program("serve", *ROUTE, *ADDRESSES, "--embedded", str(store))
        # initdb is at work: it writes under a name of its own.
        await eventually(lambda: any(store.glob("cluster.new-*/base")), within=30)
        out, err = await _end(process, sign)
        assert process.returncode == code, err
        lines = [json.loads(line)["event"] for line in err.splitlines()]
        assert (out, lines[-1:]) == ("", ["stopped"])
        assert "start_failed" not in lines
        # Root's Postgres needs a copy of programs that lie below a home directory.
        assert {entry.name for entry in store.iterdir()} - {"programs"} == {"lock"}
        assert _working_below(room) == []


async def test_a_reload_that_is_asked_for_during_a_first_start_does_not_end_it() -> None:
    with temporary_room() as room:
        store, file = room / "store", room / "gateway.yaml"
        file.write_text(SAMPLE_FILE.read_text())
        words = ["--config", str(file), *ADDRESSES, "--embedded", str(store)]
        process = await _program("serve", *words)
        await eventually(lambda: any(store.glob("cluster.new-*/base")), within=30)
        os.killpg(process.pid, signal.SIGHUP)
        assert process.stderr is not None
        await asyncio.wait_for(process.stderr.readuntil(b'"started"'), 60)
        await _end(process, signal.SIGTERM)
        assert process.returncode in (0, 143)  # the latter before the loop listens for it


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_the_demo_is_interrupted_without_a_trace_of_it(
    sign: signal.Signals, code: int
) -> None:
    with temporary_room() as room:
        process = await _program("demo", TMPDIR=str(room))
        # The directory of its gateway is made before anything is sent.
        await eventually(lambda: any(room.iterdir()), within=30)
        _, err = await _end(process, sign)
        assert (process.returncode, "Traceback" in err) == (code, False), err
        await eventually(lambda: not any(room.iterdir()) and not _working_below(room), within=5)


def _settings(room: Path) -> dict[str, str]:
    """The sample's, out of the way of whatever runs here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        upstream = f"http://127.0.0.1:{free.getsockname()[1]}"
    return {
        "DEDUP__STORE__EMBEDDED": str(room / "store"),
        "DEDUP__LISTEN": "127.0.0.1:0",
        "DEDUP__ADMIN__LISTEN": "127.0.0.1:0",
        "DEDUP__ROUTES__0__UPSTREAM__URL": upstream,
    }


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
async def test_a_sample_whose_terminal_is_closed_ends_and_leaves_nothing_running() -> None:
    with temporary_room() as room:
        terminal, its_end = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", *SAMPLE,
            stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(its_end, termios.TIOCSCTTY, 0),
            env=os.environ | _settings(room),
        )  # fmt: skip
        os.close(its_end)
        shown = b""
        while b"Ctrl-C stops everything" not in shown:
            shown += await asyncio.to_thread(os.read, terminal, 4096)
        os.close(terminal)
        try:
            await asyncio.wait_for(process.wait(), 30)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        # 129 where it comes so early that the loop does not listen for signals yet.
        assert process.returncode in (0, 129)
        assert _working_below(room) == []


async def test_a_sample_that_ignores_the_end_of_its_terminal_goes_on() -> None:
    with temporary_room() as room:
        process = await asyncio.create_subprocess_exec(
            "nohup", sys.executable, "-m", "gateway", *SAMPLE,
            stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True,
            env=os.environ | _settings(room) | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readuntil(b"Ctrl-C stops everything"), 60)
        os.killpg(process.pid, signal.SIGHUP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 1)
        out, _ = await _end(process, signal.SIGTERM)
        assert (process.returncode, out.splitlines()[-1]) == (
            0,
            "Stopped. The consumer had 0 requests and 0 effects.",
        )
