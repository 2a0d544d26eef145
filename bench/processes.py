"""Processes of the bench, and the processor time that they have used."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says; times in seconds."""

    name: str
    parent: int
    own: float
    """User and system time of all its threads."""
    reaped: float
    """The same of its children that have ended and were waited for, and of theirs."""


def stat(pid: int) -> Stat | None:
    """None when there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()  # from the state on, which is the third
    user, system, children_user, children_system = (int(f) / _TICKS for f in fields[11:15])
    return Stat(name, int(fields[1]), user + system, children_user + children_system)


def own_time(pid: int) -> float:
    """Seconds of processor time of one process, without its children."""
    found = stat(pid)
    return 0.0 if found is None else found.own


def tree_time(root: int) -> float:
    """Seconds of a process and everything below it, what has ended included.

    A child that ended is in the `reaped` time of whoever waited for it, so nothing counts twice.
    """
    found = _everything()
    total, todo = 0.0, [root]
    while todo:
        pid = todo.pop()
        if pid in found:
            total += found[pid].own + found[pid].reaped
        todo.extend(child for child, its in found.items() if its.parent == pid)
    return total


def child_named(parent: int, name: str) -> int | None:
    """The child of `parent` that runs the program `name`."""
    for pid, found in _everything().items():
        if found.parent == parent and found.name == name:
            return pid
    return None


def _everything() -> dict[int, Stat]:
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    return {pid: found for pid in pids if (found := stat(pid)) is not None}


class BenchFailed(Exception):
    """Something of the set-up does not run; the message says what."""


@asynccontextmanager
async def server(module: str) -> AsyncIterator[tuple[int, int]]:
    """Run one of our servers; its process id and port. See `bench.serving`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the bench, which ends them by closing their input
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line:
            raise BenchFailed(f"{module} did not start")
        yield process.pid, int(line)
    finally:
        process.stdin.close()
        await process.wait()
