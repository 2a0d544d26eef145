"""One scrape of a real gateway, of which the rules' tests make everything else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway import config
from gateway.rules import Watched
from gateway.store import migrate
from tests.rig import batches
from tests.rig.certificate import self_signed
from tests.rig.gateway import Samples
from tests.rig.settings import Settings
from tests.rig.stripe_like import BOTH, signed
from tests.rig.world import World, fresh

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HIGH_WATER = 1000


@dataclass(frozen=True, slots=True)
class Scraped:
    """What Prometheus reads of a gateway, and the file that the gateway runs with."""

    samples: Samples
    file: Path

    @property
    def watched(self) -> Watched:
        """What rules that are made from that file are for."""
        loaded = config.load(self.file, env={})
        return Watched(loaded.routes, loaded.accepted_short_retention)


def routes(world: World, encrypted: Settings) -> list[Settings]:
    """One of each kind that a rule is about."""
    return [
        world.route(event_type="json:/type", event_time="json:/at"),
        world.route("short", retention="10d", accept_short_retention="nobody redrives these"),
        world.route("watched", mode="observe"),
        world.route("shipping", mode="inbox", high_water=HIGH_WATER),
        batches.route(world, "mail"),
        world.route("signed", signature=BOTH),
        world.route("tls.eu", path="/hooks/tls", upstream=encrypted),
    ]


@asynccontextmanager
async def over_tls(place: Path) -> AsyncIterator[Settings]:
    """A consumer that accepts everything; gives the `upstream` that leads to it."""
    cert, key = self_signed(place)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(REPLY)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        yield {"url": f"https://localhost:{port}", "tls": {"ca": str(cert)}}


async def scrape(world: World, place: Path) -> Scraped:
    """Of a gateway that has seen an event on each route, and one of them twice."""
    await migrate.migrate(world.database.dsn)
    # The first purge ends half a minute after a start.
    await world.database.execute(
        "update dedup.jobs set ended = now(), until = now() + interval '1 hour'"
    )
    await world.consumer.start()
    try:
        async with over_tls(place) as encrypted:
            gateway = await world.gateway(world.file(*routes(world, encrypted)))
            event = fresh()
            for _ in range(2):
                assert (await world.deliver(event, type="order.paid")).status == 200
            for path in ("/hooks/short", "/hooks/watched", "/hooks/shipping", "/hooks/tls"):
                assert (await world.deliver(fresh(), path=path)).status == 200
            assert (await gateway.send(batches.batch("x", fresh(), fresh()))).status == 200
            assert (await gateway.send(signed(fresh(), "/hooks/signed"))).status == 200
            await gateway.counts("dedup_forwards_total", 7)
            await gateway.counts("dedup_purge_last_success_timestamp_seconds")
            return Scraped(await gateway.scrape(), gateway.file)
    finally:
        await world.close()
