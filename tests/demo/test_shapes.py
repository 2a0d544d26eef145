"""Each shape of the demo's script produces doubles where nobody prevents them."""

from __future__ import annotations

import aiohttp
import pytest

from gateway.demo.consumer import SampleConsumer
from gateway.demo.findings import DIRECTLY, Finding, find
from gateway.demo.provider import Provider, Sent
from gateway.demo.shapes import COPIES, WORK, Scale, Shape, script

SMALL = Scale(slow=2, redriven=40, doubled=12)
LONE_RETRY, REDRIVE, DOUBLES = script(SMALL)


async def played(shape: Shape) -> tuple[Finding, int]:
    consumer, sent, steps = SampleConsumer(WORK), Sent(), 0

    def step() -> None:
        nonlocal steps
        steps += 1

    port = await consumer.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            provider = Provider(session, f"http://127.0.0.1:{port}/hooks/orders")
            await shape.play(provider, shape.events, sent, step)
            await consumer.at_rest()
    finally:
        await consumer.stop()
    return find(shape.title, DIRECTLY, shape.events, consumer.effects, sent), steps


async def test_a_consumer_that_outlasts_its_sender_is_sent_the_retry_and_acts_again() -> None:
    finding, _ = await played(LONE_RETRY)
    assert finding.deliveries > finding.events
    assert finding.doubled == finding.events
    assert finding.unanswered == finding.events


async def test_a_redrive_has_every_event_take_effect_a_second_time() -> None:
    finding, _ = await played(REDRIVE)
    assert (finding.deliveries, finding.effects) == (80, 80)
    assert finding.doubled == 40


async def test_copies_that_arrive_together_all_take_effect() -> None:
    finding, _ = await played(DOUBLES)
    assert finding.effects == finding.events * COPIES


@pytest.mark.parametrize("shape", [REDRIVE, DOUBLES], ids=lambda shape: shape.title)
async def test_the_progress_bar_is_told_of_as_many_steps_as_it_was_promised(shape: Shape) -> None:
    _, steps = await played(shape)
    assert steps == shape.steps
