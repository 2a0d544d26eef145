"""What is measured, running: echo, consumer, nginx if there is one, the gateway as shipped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from bench import nginx
from bench.measure import Target
from bench.processes import BenchFailed, child_named, own_time, server, tree_time
from gateway.demo.program import Program

SHIPPED = Path(__file__).parent.parent / "config" / "demo.yaml"


@dataclass(frozen=True, slots=True)
class Stack:
    """The targets. `consumer` is the one behind `nginx` and `gateway`."""

    echo: Target
    consumer: Target
    nginx: Target | None
    gateway: Target
    data: Path
    """Where the gateway's store is."""

    async def forwarded(self) -> int:
        """How many requests the consumer says that it had."""
        return await self._tell_consumer(b"count")

    async def hold(self) -> None:
        """From now on the consumer takes requests and answers none."""
        await self._tell_consumer(b"hold")

    async def go(self) -> None:
        """It answers those, and all that follow."""
        await self._tell_consumer(b"go")

    async def _tell_consumer(self, what: bytes) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.consumer.port)
        writer.write(b"GET /%s HTTP/1.1\r\nHost: c\r\n\r\n" % what)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        count = int(await reader.readexactly(length))
        writer.close()
        await writer.wait_closed()
        return count


@asynccontextmanager
async def stack(room: Path, route: Mapping[str, object]) -> AsyncIterator[Stack]:
    """Start everything below `room`, and stop it.

    `route`: settings that the shipped route does not have.
    """
    async with AsyncExitStack() as exits:
        echo_pid, echo_port = await exits.enter_async_context(server("bench.echo"))
        pid, port = await exits.enter_async_context(server("bench.consumer"))
        proxy = await exits.enter_async_context(nginx.proxy(room / "nginx", port))
        data = room / "store"
        program = Program(configuration(port, data, route), room / "gateway.yaml")
        exits.push_async_callback(program.stop)
        await program.start()
        exits.push(partial(_tell_why, program))
        yield Stack(
            echo=Target("echo", echo_port, {"echo": partial(own_time, echo_pid)}),
            consumer=Target("consumer", port, {"consumer": partial(own_time, pid)}),
            nginx=proxy,
            gateway=Target("gateway", program.deliveries[1], _clocks(program.pid)),
            data=data,
        )


def _tell_why(program: Program, _: object, failure: BaseException | None, __: object) -> None:
    """A load that broke says what it met; only the gateway's log says why."""
    if isinstance(failure, BenchFailed):
        failure.add_note(program.last_words("was put under a load that broke"))


def configuration(
    upstream_port: int, data: Path, settings: Mapping[str, object]
) -> dict[str, object]:
    """What is shipped, on ports that are free, and a route with some settings more."""
    shipped = yaml.safe_load(SHIPPED.read_text())
    shipped["listen"] = "127.0.0.1:0"
    shipped["admin"]["listen"] = "127.0.0.1:0"
    shipped["store"] = {"embedded": str(data)}
    (route,) = shipped["routes"]
    route["upstream"]["url"] = f"http://127.0.0.1:{upstream_port}"
    for name, value in settings.items():
        route[name] = {**route.get(name, {}), **value} if isinstance(value, dict) else value
    return dict(shipped)


def _clocks(gateway: int) -> dict[str, partial[float]]:
    postmaster = child_named(gateway, "postgres")
    if postmaster is None:
        raise BenchFailed("the gateway runs no Postgres of its own")
    return {"gateway": partial(own_time, gateway), "postgres": partial(tree_time, postmaster)}
