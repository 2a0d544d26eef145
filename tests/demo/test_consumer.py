"""The sample consumer counts what really happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gateway.demo.consumer import SampleConsumer


@asynccontextmanager
async def running(consumer: SampleConsumer) -> AsyncIterator[str]:
    port = await consumer.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await consumer.stop()


async def test_an_order_sent_twice_is_shipped_twice_because_this_endpoint_has_no_memory() -> None:
    consumer = SampleConsumer({})
    async with running(consumer) as url, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(f"{url}/hooks/orders", json={"event_id": "evt_1"}) as reply:
                assert reply.status == 200
        async with session.get(f"{url}/stats") as reply:
            assert await reply.json() == {
                "requests": 2,
                "events": 1,
                "effects": 2,
                "events_with_two_effects_or_more": 1,
                "marked_effects": 0,
            }


async def test_a_sender_that_hangs_up_does_not_stop_the_effect() -> None:
    consumer = SampleConsumer({"order.slow": 0.2})
    async with running(consumer) as url, aiohttp.ClientSession() as session:
        with pytest.raises(TimeoutError):
            await session.post(
                url,
                json={"event_id": "evt_1", "type": "order.slow"},
                timeout=aiohttp.ClientTimeout(total=0.05),
            )
        assert consumer.effects.total() == 0
        async with asyncio.timeout(5):
            await consumer.at_rest()
        assert consumer.effects == {"evt_1": 1}


async def test_a_marked_request_is_counted_as_marked() -> None:
    consumer = SampleConsumer({})
    async with running(consumer) as url, aiohttp.ClientSession() as session:
        marked = {"Dedup-Possible-Duplicate": "1"}
        await (await session.post(url, json={"event_id": "evt_1"}, headers=marked)).read()
        assert consumer.stats()["marked_effects"] == 1


@pytest.mark.parametrize("body", [b"", b"not json", b"[1]", b'{"id": 1}'])
async def test_a_body_without_an_event_id_is_refused_and_ships_nothing(body: bytes) -> None:
    consumer = SampleConsumer({})
    async with running(consumer) as url, aiohttp.ClientSession() as session:
        async with session.post(url, data=body) as reply:
            assert reply.status == 400
        assert consumer.effects.total() == 0
