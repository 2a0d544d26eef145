"""`dedup-gateway sample`: everything that is needed to send one event twice by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from rich.console import Console

from gateway.app import Gateway
from gateway.config import Loaded
from gateway.demo.consumer import SampleConsumer


async def run_sample(loaded: Loaded, console: Console, new_id: Callable[[], str]) -> int:
    """Run the sample consumer and the gateway in front of it until stopped; returns the exit code.

    The consumer listens where the first route's upstream is. `new_id` names the event of the
    printed line: the store still knows the last run's.
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
            )
            return 2
        stack.push_async_callback(consumer.stop)
        gateway = Gateway(loaded)
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        _show(loaded, console, new_id())
        await gateway.run_until_stopped()
    stats = consumer.stats()
    console.print(
        f"Stopped. The consumer had {stats['requests']} requests, {stats['effects']} effects."
    )
    return 0


def _show(loaded: Loaded, console: Console, event_id: str) -> None:
    upstream, route = loaded.routes[0].upstream, loaded.routes[0]
    hooks = f"http://{loaded.listen[0].host}:{loaded.listen[0].port}{route.path}"
    rows = [
        ("deliveries go to", hooks),
        ("the consumer counts at", f"http://{upstream.authority}/stats"),
    ]
    if loaded.admin is not None:
        rows.append(
            ("metrics and probes", f"http://{loaded.admin.host}:{loaded.admin.port}/metrics")
        )
    for what, address in rows:
        console.print(f"{what:<24} {address}", highlight=False)
    console.print("\nSend this twice; Dedup-Verdict in the reply says first, then duplicate:\n")
    # soft_wrap: a line that people copy must not be broken.
    console.print(
        f"""  curl -i {hooks} -d '{{"event_id": "{event_id}", "type": "order.paid"}}'""",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    console.print("\nCtrl-C stops everything.")
