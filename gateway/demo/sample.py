"""`dedup-gateway sample`: everything that is needed to send one event twice by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

from rich.console import Console

from gateway.app import Addresses, Gateway
from gateway.config import Loaded
from gateway.core.route import Route
from gateway.demo.consumer import SampleConsumer


async def run_sample(loaded: Loaded, console: Console, new_id: Callable[[], str]) -> int:
    """Run the sample consumer and the gateway in front of it until stopped; returns the exit code.

    The consumer listens where the first route's upstream is. `new_id` names the event of the
    printed line: the store still knows the last run's. Raises OSError and EmbeddedError, as
    `Gateway.start` does.
    """
    upstream = loaded.routes[0].upstream
    consumer = SampleConsumer({})
    async with AsyncExitStack() as stack:
        try:
            await consumer.start(upstream.host, upstream.port)
        except OSError as error:
            console.print(
                f"The sample consumer cannot listen on {upstream.authority}: {error.strerror}. "
                "Stop what listens there, or set DEDUP__ROUTES__0__UPSTREAM__URL to another one.",
                style="red",
                markup=False,
            )
            return 2
        stack.push_async_callback(consumer.stop)
        # No balancer has to notice that this one goes away, and somebody waits at the terminal.
        gateway = Gateway(replace(loaded, drain_delay=0.0))
        stack.push_async_callback(gateway.stop)
        console.print("Starting. The first time takes a few seconds.")
        try:
            addresses = await gateway.start()
        except (KeyboardInterrupt, asyncio.CancelledError):
            with suppress(OSError):
                console.print("Stopped.")
            raise
        _show(loaded.routes[0], addresses, console, new_id())
        await gateway.run_until_stopped()
    stats = consumer.stats()
    requests, effects = (_counted(stats[f"{what}s"], what) for what in ("request", "effect"))
    with suppress(OSError):  # the terminal may have been closed, which is what ended us
        console.print(f"Stopped. The consumer had {requests} and {effects}.")
    return 0


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _show(route: Route, addresses: Addresses, console: Console, event_id: str) -> None:
    hooks = f"http://{addresses.deliveries[0]}{route.path}"
    rows = [
        ("deliveries go to", hooks),
        ("the consumer's counts", f"http://{route.upstream.authority}/stats"),
    ]
    if addresses.admin is not None:
        rows.append(("metrics", f"http://{addresses.admin}/metrics"))
    console.print()
    for what, address in rows:
        console.print(f"  {what:<22} {address}", soft_wrap=True)
    console.print(
        "\nSend this twice: Dedup-Verdict in the reply says first, then duplicate,\n"
        "and the consumer counts one effect:\n",
    )
    # In two lines, because a terminal would break a longer one anywhere; a shell joins them again.
    for line in (
        f"  curl -i {hooks} \\",
        f"""    -d '{{"event_id": "{event_id}", "type": "order.paid"}}'""",
    ):
        console.print(line, soft_wrap=True, markup=False)
    console.print("\nCtrl-C stops everything.")
