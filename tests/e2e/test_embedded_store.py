"""The store that comes along: what a crash leaves of the memory, and of processes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig import sender, settings
from tests.rig.consumer import Consumer
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import fresh


@pytest.fixture
def place() -> Iterator[Path]:
    """As root, Postgres runs as another user, who has to pass here."""
    directory = Path(tempfile.mkdtemp(prefix="dedup-e2e-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)  # after a failure its server may still be leaving


def postmaster(data: Path) -> int:
    (pid_file,) = data.rglob("postmaster.pid")
    return int(pid_file.read_text().splitlines()[0])


def is_alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_the_memory_outlives_a_killed_gateway_and_a_killed_postmaster(place: Path) -> None:
    consumer = Consumer()
    await consumer.start()
    file = settings.file("", settings.route("orders", consumer.port))
    file["store"] = {"embedded": str(place / "data")}
    gateway = Gateway(place, file)
    event = fresh()
    try:
        await gateway.start()
        assert (await gateway.decided(sender.event(event))).verdict == "first"
        server = postmaster(place / "data")
        gateway.kill()
        await eventually(lambda: not is_alive(server), within=20, what="no postmaster left")
        await gateway.start()
        assert (await gateway.decided(sender.event(event))).verdict == "duplicate"

        os.kill(postmaster(place / "data"), signal.SIGKILL)

        # The store comes back without a restart of ours.
        assert (await gateway.decided(sender.event(fresh()))).verdict == "first"
        assert (await gateway.decided(sender.event(event))).verdict == "duplicate"
        server = postmaster(place / "data")
        assert await gateway.stop() == 0
        assert not is_alive(server)
        assert len(consumer.requests(event)) == 1
    finally:
        await gateway.end()
        await consumer.stop()


async def test_a_data_directory_has_one_gateway(place: Path) -> None:
    file = settings.file("", settings.route("orders", 1))
    file["store"] = {"embedded": str(place / "data")}
    first, second = Gateway(place / "1", file), Gateway(place / "2", file)
    try:
        await first.start()
        second.launch()
        assert await second.died() != 0
        assert "in use" in second.log_file.read_text()
        assert (await first.get("/readyz")).status == 200
        assert await first.stop() == 0
    finally:
        await first.end()
        await second.end()


async def test_one_route_can_be_served_without_any_file(place: Path) -> None:
    consumer = Consumer()
    await consumer.start()
    line = {
        "--upstream": f"http://127.0.0.1:{consumer.port}",
        "--path": "/hooks/orders",
        "--event-id": "json:/event_id",
        "--listen": "127.0.0.1:0",
        "--admin": "127.0.0.1:0",
        "--embedded": str(place / "data"),
    }
    arguments = ["serve", *(word for option in line.items() for word in option)]
    gateway = Gateway(place, {}, arguments=arguments)
    event = fresh()
    try:
        await gateway.start()
        assert (await gateway.decided(sender.event(event))).verdict == "first"
        assert (await gateway.decided(sender.event(event))).verdict == "duplicate"
        assert (await gateway.send(sender.event(event, "/elsewhere"))).status == 404
        server = postmaster(place / "data")
        gateway.signal(signal.SIGINT)  # Ctrl-C
        assert await gateway.died() == 0
        assert not is_alive(server)
    finally:
        await gateway.end()
        await consumer.stop()
