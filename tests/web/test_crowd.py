"""Bounded memory, measured from outside: idle connections, dripping senders, a burst of bodies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from tests.web.crowd import allow_many_files
from tests.web.stage import MIB, Sender, post

ROOT = Path(__file__).parents[2]
LIMIT_MIB = 400
# What the process has besides the ingress in the whole program: pools, metrics, the hop's copies.
SET_ASIDE_MIB = 150
IDLE, DRIPPING, LARGE = 2000, 200, 30


@pytest.fixture
def crowd() -> Iterator[tuple[int, int]]:
    """Process id and port."""
    allow_many_files()
    command = [sys.executable, "-m", "tests.web.crowd"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.terminate()


def peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) // 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.case("B018")
def test_idle_and_dripping_senders_and_a_burst_of_bodies_fit_in_memory(
    crowd: tuple[int, int],
) -> None:
    pid, port = crowd
    statuses, small = uvloop.run(_rush(port))
    assert statuses == {200: LARGE}
    assert set(small) == {200}
    assert len(small) >= 20
    assert peak_mib(pid) < LIMIT_MIB - SET_ASIDE_MIB


async def _rush(port: int) -> tuple[Counter[int], list[int]]:
    async def connect() -> Sender:
        return Sender(*await asyncio.open_connection("127.0.0.1", port))

    idle = [await connect() for _ in range(IDLE)]
    dripping = [await connect() for _ in range(DRIPPING)]
    for sender in dripping:
        await sender.send(post(b"x" * MIB)[:60_000])
    drip = asyncio.create_task(_drip(dripping))
    small: list[int] = []
    other = await connect()
    steady = asyncio.create_task(_steady(other, small))
    whole = post(b"y" * 20 * MIB)

    async def large() -> int:
        sender = await connect()
        sender.writer.write(whole)
        async with asyncio.timeout(60):
            status = int((await sender.reader.readline()).split()[1])
        await sender.close()
        return status

    statuses = Counter(await asyncio.gather(*[large() for _ in range(LARGE)]))
    for task in (drip, steady):
        task.cancel()
    await asyncio.wait((drip, steady))
    for sender in (*idle, *dripping, other):
        await sender.close()
    return statuses, small


async def _drip(senders: list[Sender]) -> None:
    while True:
        await asyncio.sleep(1)
        for sender in senders:
            await sender.send(b"x")


async def _steady(sender: Sender, seen: list[int]) -> None:
    """Small events, about twenty a second."""
    while True:
        await sender.send(post(b"small"))
        seen.append((await sender.reply()).status)
        await asyncio.sleep(0.05)
