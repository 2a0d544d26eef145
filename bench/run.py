"""One run: everything is started, measured in its order and stopped again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import backlog, machine, storage
from bench.backlog import Backlog, Inbox
from bench.figures import Found
from bench.measure import Measured
from bench.series import Series
from bench.stack import stack
from gateway.demo.room import temporary_room
from gateway.store.embedded import EmbeddedPostgres

# Kept over a restart, so it is on a disk; /tmp is memory on many machines, where a durable commit
# costs nothing.
DISK = Path("/var/tmp")


@dataclass(frozen=True, slots=True)
class Scale:
    """How long to measure."""

    known: int
    """Events to repeat. The warm-up lasts until there are as many."""
    rounds: int
    seconds: float
    """Of one load in one round."""
    surrounding_rounds: int
    latency_rounds: int
    latency_seconds: float
    backlog: int
    """Entries in the inbox that drain."""
    claims: int
    rows: tuple[int, ...]
    """Sizes of the growing table."""
    batches: int
    """Of 20 deliveries, at each of those sizes."""


QUICK = Scale(
    known=5_000,
    rounds=5,
    seconds=1.2,
    surrounding_rounds=1,
    latency_rounds=3,
    latency_seconds=4.0,
    backlog=10_000,
    claims=200_000,
    rows=(10_000, 1_000_000),
    batches=300,
)
FULL = Scale(
    known=20_000,
    rounds=7,
    seconds=4.0,
    surrounding_rounds=3,
    latency_rounds=5,
    latency_seconds=12.0,
    backlog=100_000,
    claims=1_000_000,
    rows=(10_000, 1_000_000),
    batches=1_000,
)


async def run(scale: Scale, said: Callable[[str], None]) -> Found:
    """Raises BenchFailed, ProgramFailed or EmbeddedError when something does not run."""
    with temporary_room(DISK) as room:
        said("starting")
        async with stack(room, {}) as running:
            series = Series(running, said, scale.known)
            await series.acquaint(scale.seconds)
            latencies = await series.added_latency(scale.latency_rounds, scale.latency_seconds)
            ratios = await series.compare(64, scale.rounds, scale.seconds)
            ratios_one = await series.compare(1, scale.rounds, scale.seconds)
            for connections in (64, 1):
                await series.surroundings(connections, scale.surrounding_rounds, scale.seconds)
        inbox, inbox_measured = await _inbox(scale, said)
        facts = machine.facts(room)
        # Not the gateway's own server: nothing of the load before shall be in the sizes.
        with EmbeddedPostgres(room / "claims", log=lambda event, /, **facts: None) as server:
            watching = asyncio.ensure_future(server.supervise())
            sizes = await storage.sizes(server, scale.claims, said)
            times = await storage.times(server, scale.rows, scale.batches, said)
            facts["postgres"] = await storage.settings(server)
            watching.cancel()
    return Found(
        ratios=ratios | inbox.ratios,
        ratios_one=ratios_one | inbox.ratios_one,
        latencies=latencies,
        measured=series.measured + inbox_measured,
        inbox=inbox,
        sizes=sizes,
        times=times,
        machine=facts,
    )


async def _inbox(scale: Scale, said: Callable[[str], None]) -> tuple[Inbox, list[Measured]]:
    # A gateway and a store of their own: what a backlog leaves behind is in nobody else's figures.
    with temporary_room(DISK) as room:
        async with stack(room, backlog.ROUTE) as running:
            series = Series(running, said, known=0)
            measuring = Backlog(running, series, said)
            found = await measuring.measure(scale.backlog, scale.rounds, scale.seconds)
    return found, series.measured
