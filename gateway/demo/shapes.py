"""The three shapes in which duplicates come, as a script that runs the same against any address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from gateway.demo.provider import TIMEOUT, Provider, Sent

# Slower than the provider waits, and done before its first retry has waited as long again.
SLOW_WORK = TIMEOUT + 0.6
# Long enough for every copy of a double to arrive while the first is being worked on.
DOUBLE_WORK = 0.05
WORK: Mapping[str, float] = {"order.slow": SLOW_WORK, "order.doubled": DOUBLE_WORK}
"""Seconds that the consumer takes, by the event's type."""

SENDERS = 32
COPIES = 5
# Doubled events in flight at once: below the gateway's 64 slots per route, so that the demo shows
# doubles and not queueing.
DOUBLES_AT_ONCE = 10

Step = Callable[[], None]
"""Told after each step of the script, for the progress bar."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many events each shape has."""

    slow: int
    redriven: int
    doubled: int


# Enough for the counts to speak, and over within a minute on two cores.
FULL = Scale(slow=20, redriven=2_000, doubled=200)


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which an event comes twice."""

    title: str
    events: tuple[str, ...]
    """Their ids."""
    steps: int
    """How often `play` calls its `step`."""
    play: Callable[[Provider, tuple[str, ...], Sent, Step], Awaitable[None]]


def script(scale: Scale) -> tuple[Shape, ...]:
    """The three shapes, in the order in which they are played."""
    return (
        Shape("time-out, then retry", _ids("slow", scale.slow), scale.slow, _lone_retry),
        Shape("bulk redrive", _ids("old", scale.redriven), 2 * scale.redriven, _redrive),
        Shape("concurrent doubles", _ids("twin", scale.doubled), scale.doubled, _doubles),
    )


async def _lone_retry(provider: Provider, events: tuple[str, ...], sent: Sent, step: Step) -> None:
    """The consumer outlasts the time-out; the provider gives up and sends again."""

    async def one(event: str) -> None:
        await provider.deliver(event, "order.slow", sent)
        step()

    async with asyncio.TaskGroup() as group:
        for event in events:
            group.create_task(one(event))


async def _redrive(provider: Provider, events: tuple[str, ...], sent: Sent, step: Step) -> None:
    """Everything is delivered, and then somebody has it all sent again."""

    async def sender(queue: Iterator[str]) -> None:
        for event in queue:
            await provider.deliver(event, "order.paid", sent)
            step()

    for _ in range(2):
        queue = iter(events)
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(sender(queue))


async def _doubles(provider: Provider, events: tuple[str, ...], sent: Sent, step: Step) -> None:
    """Several copies of one event arrive in the same moment."""

    async def copies(queue: Iterator[str]) -> None:
        for event in queue:
            async with asyncio.TaskGroup() as group:
                for _ in range(COPIES):
                    group.create_task(provider.deliver(event, "order.doubled", sent))
            step()

    queue = iter(events)
    async with asyncio.TaskGroup() as group:
        for _ in range(DOUBLES_AT_ONCE):
            group.create_task(copies(queue))


def _ids(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"evt_{word}_{number:05d}" for number in range(count))
