"""The backlog's consumer: it holds back, goes on, and its count is believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.backlog import caught_up
from bench.events import Requests
from bench.measure import Target
from bench.processes import BenchFailed, server
from bench.stack import Stack


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A consumer, and nothing in front of it."""
    async with server("bench.consumer") as (_, port):
        target = Target("consumer", port, {})
        yield Stack(target, target, None, target, Path())


async def send(stack: Stack, number: int) -> bytes:
    """One event; the first line of the answer."""
    port = stack.consumer.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(Requests(run=1, host="127.0.0.1", port=port).build(number))
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line


async def test_a_consumer_that_holds_back_takes_requests_and_answers_when_it_goes_on(
    stack: Stack,
) -> None:
    await stack.hold()
    sent = [asyncio.ensure_future(send(stack, number)) for number in range(3)]
    async with asyncio.timeout(10):
        await caught_up(stack, 3, 10.0)
        assert not any(one.done() for one in sent)
        await stack.go()
        assert set(await asyncio.gather(*sent)) == {b"HTTP/1.1 200 OK\r\n"}
        assert await send(stack, 3) == b"HTTP/1.1 200 OK\r\n"
    assert await stack.forwarded() == 4


async def test_an_entry_that_is_not_delivered_ends_the_bench(stack: Stack) -> None:
    await send(stack, 0)
    with pytest.raises(BenchFailed, match="1 entries are not delivered"):
        await caught_up(stack, 2, 0.1)


async def test_an_event_that_is_delivered_twice_ends_the_bench(stack: Stack) -> None:
    for _ in range(2):
        await send(stack, 0)
    with pytest.raises(BenchFailed, match="forwarded 2 times"):
        await caught_up(stack, 1, 0.1)
