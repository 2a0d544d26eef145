"""What the log and the operators' address tell whoever is on call."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.store.migrate import migrations
from tests.rig import certificate
from tests.rig.deadline import eventually
from tests.rig.postgres import Server
from tests.rig.world import World

CHANGES = ("store_up", "store_away")
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database_dsn(server: Server) -> str:
    return await server.database()


async def test_a_store_that_is_migrated_goes_and_comes_back_is_in_the_log(
    world: World, server: Server
) -> None:
    gateway = await world.gateway(world.file(world.route()))
    applied = (await gateway.logged("store_migrated"))["migrations"]
    assert applied == [migration.name for migration in migrations()]
    assert applied[:2] == ["0001_claims", "0002_inbox"]
    await gateway.logged("store_up")
    server.stop()
    assert (await gateway.logged("store_away"))["problem"]
    server.start()
    await gateway.ready()

    def changes() -> list[str]:
        return [line["event"] for line in gateway.log() if line["event"] in CHANGES]

    wanted = ["store_up", "store_away", "store_up"]
    await eventually(lambda: changes() == wanted, within=10, what=str(wanted))


async def test_a_schema_that_is_dropped_under_a_running_gateway_is_an_error_in_the_log(
    world: World,
) -> None:
    gateway = await world.gateway(world.file(world.route()))
    await gateway.logged("store_up")
    assert gateway.log("memory_lost") == []  # what a first start finds missing was never there
    # Every gateway of this store may be the one that finds it gone.
    for earlier in world.gateways[:-1]:
        await earlier.end()
    await world.database.execute("drop schema dedup cascade")
    assert (await gateway.logged("memory_lost"))["level"] == "error"
    await gateway.ready()


async def test_metrics_and_probes_are_served_over_tls_where_the_file_says_so(
    world: World, tmp_path: Path
) -> None:
    cert, key = certificate.self_signed(tmp_path)
    place = {"address": "127.0.0.1:0", "tls": {"cert": str(cert), "key": str(key)}}
    gateway = await world.gateway(world.file(admin={"listen": place}), ready=False)
    trusted = ssl.create_default_context(cafile=str(cert))
    reader, writer = await asyncio.open_connection(
        *gateway.admin, ssl=trusted, server_hostname="localhost"
    )
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    await writer.wait_closed()
