"""The inbox: what accepting costs, with and without delivering, and how fast a backlog drains.

Acceptance alone is measured while the consumer holds back its answers: every slot is taken then,
and nothing is sent. What was accepted that way is the backlog that drains when it goes on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter

from bench.measure import Measured
from bench.processes import BenchFailed
from bench.series import Said, Series, Spread
from bench.stack import Stack

# Longer than any run, so that a forward that is held back does not time out; and no high-water
# mark, which is for consumers that do not come back.
ROUTE = {"mode": "inbox", "high_water": 100_000_000, "upstream": {"timeout": "1h"}}
CONNECTIONS = 64
LOOK_EVERY = 0.02
# A backlog that has stood still for so long does not drain.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Drain:
    """A backlog on its way to the consumer."""

    entries: int
    seconds: float
    per_second: float
    cpu_us: dict[str, float]
    """Processor time of the gateway and of its Postgres for one entry."""


@dataclass(frozen=True, slots=True)
class Draining:
    """New events while a backlog drains."""

    accepted: Measured
    delivered_per_second: float
    left: int
    """Entries that were still to be delivered when the load ended."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """All that was found. Ratios: `inbox` alone, `inbox_delivered` with all deliveries."""

    ratios: dict[str, Spread]
    ratios_one: dict[str, Spread]
    drain: Drain
    draining: Draining


class Backlog:
    """Measures on a stack whose route is an inbox."""

    def __init__(self, stack: Stack, series: Series, said: Said) -> None:
        self._stack = stack
        self._series = series
        self._said = said

    async def measure(self, entries: int, rounds: int, seconds: float) -> Inbox:
        """`entries`: of the backlog. Raises BenchFailed."""
        series = self._series
        self._said("inbox, warming up")
        await self._delivered(CONNECTIONS, seconds)
        series.measured.clear()
        whole = {"inbox_delivered": self._delivered}
        ratios = await series.in_turns(whole, CONNECTIONS, rounds, seconds)
        await self._stack.hold()
        before = series.sent
        alone = {"inbox": self._accepted}
        ratios |= await series.in_turns(alone, CONNECTIONS, rounds, seconds)
        ratios_one = await series.in_turns(alone, 1, rounds, seconds)
        await self._fill(before + entries, seconds)
        drain = await self._drain(series.sent - before)
        await self._stack.hold()
        await self._fill(series.sent + entries // 2, seconds)
        return Inbox(ratios, ratios_one, drain, await self._draining(seconds))

    async def _accepted(self, connections: int, seconds: float) -> Measured:
        return await self._series.first("inbox", connections, seconds)

    async def _delivered(self, connections: int, seconds: float) -> Measured:
        return await self._series.first("inbox_delivered", connections, seconds, self._caught_up)

    async def _fill(self, sent: int, seconds: float) -> None:
        while (missing := sent - self._series.sent) > 0:
            self._said(f"inbox, {missing:,} entries until the backlog is there")
            await self._series.first("inbox", CONNECTIONS, seconds)

    async def _drain(self, entries: int) -> Drain:
        self._said(f"inbox, a backlog of {entries:,} entries drains")
        clocks = self._stack.gateway.clocks
        before = {name: clock() for name, clock in clocks.items()}
        began = perf_counter()
        await self._stack.go()
        await self._caught_up(self._series.sent)
        seconds = perf_counter() - began
        used = {name: clock() - before[name] for name, clock in clocks.items()}
        return Drain(
            entries=entries,
            seconds=seconds,
            per_second=entries / seconds,
            cpu_us={name: time / entries * 1e6 for name, time in used.items()},
        )

    async def _draining(self, seconds: float) -> Draining:
        self._said("inbox, new events while a backlog drains")
        await self._stack.go()
        before, began = await self._stack.forwarded(), perf_counter()
        accepted = await self._series.first("inbox_draining", CONNECTIONS, seconds)
        forwarded, took = await self._stack.forwarded(), perf_counter() - began
        left = self._series.sent - forwarded
        await self._caught_up(self._series.sent)
        return Draining(accepted, (forwarded - before) / took, left)

    async def _caught_up(self, sent: int) -> None:
        await caught_up(self._stack, sent, PATIENCE)


async def caught_up(stack: Stack, sent: int, patience: float) -> None:
    """Until the consumer had every event; it has no other than those of this stack.

    Raises BenchFailed when it had more, or nothing new for `patience` seconds.
    """
    last, since = -1, perf_counter()
    while (forwarded := await stack.forwarded()) < sent:
        if forwarded > last:
            last, since = forwarded, perf_counter()
        elif perf_counter() - since > patience:
            raise BenchFailed(f"{sent - forwarded} entries are not delivered")
        await asyncio.sleep(LOOK_EVERY)
    if forwarded > sent:
        raise BenchFailed(f"{sent} events were forwarded {forwarded} times")
