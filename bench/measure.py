"""One measurement: a load against a target, between two looks at the clocks of its processes."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

from bench.load import Plan, Replies
from bench.processes import BenchFailed


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load."""

    name: str
    port: int
    clocks: Mapping[str, Callable[[], float]]
    """Processor seconds used so far, by what uses them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one measurement found. Processor time is per request."""

    target: str
    load: str
    connections: int
    requests: int
    seconds: float
    per_second: float
    cpu_us: dict[str, float]
    latency_ms: dict[str, float]
    verdicts: dict[str, int]


CaughtUp = Callable[[int], Awaitable[None]]
"""Waits until nothing is left to be done for the events below a number."""


async def measure(
    target: Target, load: str, plan: Plan, caught_up: CaughtUp | None = None
) -> tuple[Measured, Replies]:
    """Put a load on a target. Raises BenchFailed when a reply is not as it should be.

    With `caught_up` the clocks run until the work that the load leaves behind is done too.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,  # the result is one line, with every latency in it
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(plan)).encode() + b"\n")
        word, _, next_event = (await process.stdout.readline()).partition(b" ")
        if word != b"warm":
            raise BenchFailed(f"{load} on {target.name}: the load did not get through its warm-up")
        if caught_up is not None:
            await caught_up(int(next_event))
        before = {name: clock() for name, clock in target.clocks.items()}
        process.stdin.write(b"go\n")
        line = await process.stdout.readline()
        if caught_up is not None and line:
            await caught_up(json.loads(line)["next_event"])
        after = {name: clock() for name, clock in target.clocks.items()}
    finally:
        process.stdin.close()
        await process.wait()
    if not line:
        raise BenchFailed(f"{load} on {target.name}: the load broke off")
    replies = Replies(**json.loads(line))
    count = len(replies.latencies)
    return Measured(
        target=target.name,
        load=load,
        connections=plan.connections,
        requests=count,
        seconds=replies.seconds,
        per_second=count / replies.seconds,
        cpu_us={name: (after[name] - before[name]) / count * 1e6 for name in after},
        latency_ms=percentiles(replies.latencies),
        verdicts=replies.verdicts,
    ), replies


def percentiles(latencies: list[float]) -> dict[str, float]:
    """In milliseconds."""
    hundredths = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        "p50": hundredths[49] * 1e3,
        "p90": hundredths[89] * 1e3,
        "p99": hundredths[98] * 1e3,
        "max": max(latencies) * 1e3,
    }
