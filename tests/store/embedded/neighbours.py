"""Other processes around a server, and what they are asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import asyncpg
import pytest

from gateway.store import cluster, programs
from gateway.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[3]
QUICK = {"fsync": "off"}
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="no /proc")

Make = Callable[..., EmbeddedPostgres]
Events = list[tuple[str, Mapping[str, object]]]


async def ask(dsn: str, *statements: str) -> object:
    """The last statement's value, on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def asked_again(dsn: str, statement: str) -> object:
    """None while the server does not answer."""
    try:
        return await ask(dsn, statement)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None


def who(place: Path) -> programs.Account:
    return programs.account(None, place / "store" / "cluster")


def programs_for(place: Path) -> Path:
    """Where the user who runs Postgres can reach them."""
    copies = cluster.Layout(place / "store").programs
    return programs.reachable(programs.find(), who(place), copies).bin


def living(place: Path) -> dict[int, bool] | None:
    return cluster.inhabitants(cluster.Layout(place / "store"))


def gateway(place: Path, before: str = "") -> subprocess.Popen[str]:
    """Another process that supervises the same directory until it is killed; says its dsn."""
    script = f"""
import sys, time
from pathlib import Path
from gateway.store import parting
from gateway.store.embedded import EmbeddedPostgres
{before}
server = EmbeddedPostgres(Path(sys.argv[1]), settings={QUICK}, log=lambda *_, **__: None)
print(server.start(), server.pid, flush=True)
time.sleep(600)
"""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(place / "store")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def popen(command: list[str], place: Path) -> subprocess.Popen[bytes]:
    """A process of the user who runs Postgres."""
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, **who(place).popen())


def kill(server: EmbeddedPostgres) -> int:
    """kill -9 of the postmaster; gives the process id it had."""
    assert server.pid is not None
    killed = server.pid
    os.kill(killed, signal.SIGKILL)
    return killed


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def said_by(process: subprocess.Popen[str]) -> tuple[str, int]:
    assert process.stdout is not None
    dsn, _, pid = process.stdout.readline().strip().rpartition(" ")
    return dsn, int(pid)
