"""Loops outlive what nobody foresaw."""

from __future__ import annotations

import asyncio

import pytest

from gateway.loops import for_good
from tests.rig.deadline import eventually


async def test_a_loop_that_breaks_is_said_to_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passes = 0

    async def broken() -> None:
        nonlocal passes
        passes += 1
        raise KeyError("unforeseen")

    running = asyncio.ensure_future(for_good(broken, 0.01))
    await eventually(lambda: passes > 2, within=5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert {record.message for record in caplog.records} == {"task_failed"}
    assert all(record.exc_info for record in caplog.records)


async def test_a_loop_ends_when_it_is_cancelled() -> None:
    running = asyncio.ensure_future(for_good(asyncio.Event().wait, 0.01))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
