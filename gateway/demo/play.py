"""`dedup-gateway demo`: the same script against the consumer directly, then through the gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.demo.consumer import SampleConsumer
from gateway.demo.findings import DIRECTLY, THROUGH, Finding, find, problems, table
from gateway.demo.program import Program, ProgramFailed
from gateway.demo.provider import TIMEOUT, Provider, Sent
from gateway.demo.room import temporary_room
from gateway.demo.shapes import WORK, Scale, Shape, script

PATH = "/hooks/orders"


async def run_demo(console: Console, scale: Scale) -> int:
    """Play the script twice and print what came of it; returns the exit code.

    0: doubles directly, none through the gateway, and nothing lost. 1: anything else, and said.
    """
    shapes = script(scale)
    console.print("The same script twice: against a consumer directly, then through the gateway.\n")
    with temporary_room() as room, _progress(console) as progress:
        directly = await _play(DIRECTLY, shapes, room, progress)
        try:
            through = await _play(THROUGH, shapes, room, progress)
        except ProgramFailed as failure:
            console.print(str(failure), style="red", markup=False)
            return 1
    console.print()
    console.print(table(directly, through))
    found = problems(directly + through)
    for problem in found:
        console.print(problem, style="bold red")
    if not found:
        console.print(
            "Through the gateway each event had exactly one effect,\nand its provider was told so.",
            style="green",
        )
    return 1 if found else 0


def configuration(upstream_port: int, store: Path) -> dict[str, object]:
    """The gateway's configuration for the demo: a front for one consumer, on a store of its own."""
    return {
        "listen": "127.0.0.1:0",
        "admin": {"listen": "127.0.0.1:0"},
        "store": {"embedded": str(store)},
        "drain_delay": "0s",
        "routes": [
            {
                "name": "orders",
                "path": PATH,
                "upstream": {"url": f"http://127.0.0.1:{upstream_port}"},
                "event_id": "json:/event_id",
                "event_type": "json:/type",
                "promise": {
                    "timeout": f"{TIMEOUT:.0f}s",
                    "retry_horizon": "1h",
                    "redrive_window": "1d",
                    "source": "the demo's own script",
                },
            }
        ],
    }


async def _play(
    run: str, shapes: tuple[Shape, ...], room: Path, progress: Progress
) -> list[Finding]:
    task = progress.add_task(run, total=sum(shape.steps for shape in shapes))
    async with AsyncExitStack() as stack:
        consumer = SampleConsumer(WORK)
        port = await consumer.start("127.0.0.1", 0)
        stack.push_async_callback(consumer.stop)
        if run == THROUGH:
            program = Program(configuration(port, room / "store"), room / "gateway.yaml")
            stack.push_async_callback(program.stop)
            await program.start()
            port = program.deliveries[1]
        # No cap on connections: a provider does not queue one delivery behind another.
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        await stack.enter_async_context(session)
        provider = Provider(session, f"http://127.0.0.1:{port}{PATH}")
        return await _findings(run, shapes, provider, consumer, step=lambda: progress.advance(task))


async def _findings(
    run: str,
    shapes: tuple[Shape, ...],
    provider: Provider,
    consumer: SampleConsumer,
    *,
    step: Callable[[], None],
) -> list[Finding]:
    findings = []
    for shape in shapes:
        sent = Sent()
        await shape.play(provider, shape.events, sent, step)
        await consumer.at_rest()
        findings.append(find(shape.title, run, shape.events, consumer.effects, sent))
    return findings


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
