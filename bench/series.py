"""The measurements of a run: what is compared takes turns, so that it shares its weather."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from bench.load import Plan, Replies
from bench.measure import CaughtUp, Measured, Target, measure, percentiles
from bench.processes import BenchFailed
from bench.stack import Stack

RUN = 1
RATE = 200.0
"""Events a second at which added latency is measured."""
RATE_CONNECTIONS = 64

Said = Callable[[str], None]
Load = Callable[[int, float], Awaitable[Measured]]
"""Takes connections and seconds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The ratio of two medians over the rounds, and the ends of the rounds' own ratios."""

    ratio: float
    low: float
    high: float


def spread(used: list[float], echoes: list[float]) -> Spread:
    """Of a load against the yardstick; the two took turns, so they come in pairs."""
    ratios = [one / echo for one, echo in zip(used, echoes, strict=True)]
    return Spread(median(used) / median(echoes), min(ratios), max(ratios))


@dataclass(slots=True)
class Series:
    """Measures on one stack, and remembers which events it has used up."""

    stack: Stack
    said: Said
    known: int
    """Completed events that the duplicates repeat."""
    measured: list[Measured] = field(default_factory=list)
    sent: int = 0
    """The number of the first event that was not sent yet."""

    async def acquaint(self, seconds: float) -> None:
        """Let everything warm up, until there are events to repeat."""
        self.said("warming up")
        while self.sent < self.known:
            await self._firsts(64, seconds)
        self.measured.clear()

    async def compare(self, connections: int, rounds: int, seconds: float) -> dict[str, Spread]:
        """Processor time of the gateway's process per event against echo's per request.

        The medians are divided, not each round: single measurements stray by a fifth to either
        side, echo's as far as the gateway's.
        """
        loads: dict[str, Load] = {"forward": self._firsts, "duplicate": self._duplicates}
        if connections > 1:
            loads["doubles"] = self._doubles
        return await self.in_turns(loads, connections, rounds, seconds)

    async def in_turns(
        self, loads: Mapping[str, Load], connections: int, rounds: int, seconds: float
    ) -> dict[str, Spread]:
        """The same for loads of any kind, each beside echo in every round."""
        echoes: list[float] = []
        used: dict[str, list[float]] = {name: [] for name in loads}
        for number in range(rounds):
            self.said(f"{connections} connections, round {number + 1} of {rounds}")
            echo = await self._plain(self.stack.echo, connections, seconds)
            echoes.append(echo.cpu_us["echo"])
            for name, load in loads.items():
                used[name].append((await load(connections, seconds)).cpu_us["gateway"])
        return {name: spread(found, echoes) for name, found in used.items()}

    async def surroundings(self, connections: int, rounds: int, seconds: float) -> None:
        """The consumer without anything in front of it, and behind nginx."""
        for _ in range(rounds):
            for target in (self.stack.consumer, self.stack.nginx):
                if target is not None:
                    self.said(f"{connections} connections, {target.name}")
                    await self._plain(target, connections, seconds)

    async def added_latency(self, rounds: int, seconds: float) -> dict[str, list[float]]:
        """Latencies in seconds at a steady rate, of the consumer directly and of the gateway."""
        found: dict[str, list[float]] = {"consumer": [], "gateway": []}
        for number in range(rounds):
            self.said(f"{RATE:.0f} events a second, round {number + 1} of {rounds}")
            for target in (self.stack.consumer, self.stack.gateway):
                plan = self._plan(target, RATE_CONNECTIONS, seconds, warm_up=0.5, rate=RATE)
                replies = await self._measure(target, "rate", plan)
                found[target.name] += replies.latencies
        return found

    async def _plain(self, target: Target, connections: int, seconds: float) -> Measured:
        await self._measure(target, "request", self._plan(target, connections, seconds))
        return self.measured[-1]

    async def first(
        self, name: str, connections: int, seconds: float, caught_up: CaughtUp | None = None
    ) -> Measured:
        """New events, a load of that name."""
        plan = self._plan(self.stack.gateway, connections, seconds)
        await self._measure(self.stack.gateway, name, plan, caught_up)
        return self._checked({"first"})

    async def _firsts(self, connections: int, seconds: float) -> Measured:
        return await self.first("first", connections, seconds)

    async def _duplicates(self, connections: int, seconds: float) -> Measured:
        before = await self.stack.forwarded()
        plan = self._plan(self.stack.gateway, connections, seconds, first=0, events=self.known)
        await self._measure(self.stack.gateway, "duplicate", plan)
        if await self.stack.forwarded() != before:
            raise BenchFailed("a duplicate was forwarded")
        return self._checked({"duplicate"})

    async def _doubles(self, connections: int, seconds: float) -> Measured:
        before, first = await self.stack.forwarded(), self.sent
        plan = self._plan(self.stack.gateway, connections, seconds, copies=2)
        await self._measure(self.stack.gateway, "doubles", plan)
        if (forwarded := await self.stack.forwarded() - before) != self.sent - first:
            raise BenchFailed(
                f"{self.sent - first} doubled events were forwarded {forwarded} times"
            )
        return self._checked({"first", "duplicate"})

    def _plan(
        self,
        target: Target,
        connections: int,
        seconds: float,
        *,
        warm_up: float = 0.2,
        first: int | None = None,
        events: int | None = None,
        copies: int = 1,
        rate: float | None = None,
    ) -> Plan:
        return Plan(
            port=target.port,
            run=RUN,
            connections=connections,
            seconds=seconds,
            warm_up=warm_up,
            first=self.sent if first is None else first,
            events=events,
            copies=copies,
            rate=rate,
        )

    async def _measure(
        self, target: Target, load: str, plan: Plan, caught_up: CaughtUp | None = None
    ) -> Replies:
        measured, replies = await measure(target, load, plan, caught_up)
        self.measured.append(measured)
        if target is self.stack.gateway:
            self.sent = max(self.sent, replies.next_event if plan.events is None else 0)
        return replies

    def _checked(self, allowed: set[str]) -> Measured:
        measured = self.measured[-1]
        if not set(measured.verdicts) <= allowed:
            raise BenchFailed(f"{measured.load}: the gateway said {measured.verdicts}")
        return measured


def added(latencies: dict[str, list[float]]) -> dict[str, float]:
    """Milliseconds that the gateway's percentiles lie above the consumer's own."""
    directly, through = percentiles(latencies["consumer"]), percentiles(latencies["gateway"])
    return {name: through[name] - directly[name] for name in ("p50", "p90", "p99")}
