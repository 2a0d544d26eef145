"""What asyncio and aiohttp log instead of raising it, and a loop that looks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

# A busy machine takes a callback off its processor for a second; only one that blocks lasts longer.
BLOCKED = 3.0
"""Seconds."""


def swallowed(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of this test: exceptions nobody fetched, tasks that were dropped, blocks."""
    theirs = [r for r in caplog.get_records("call") if r.name.startswith(("aiohttp", "asyncio"))]
    return [
        record.getMessage()
        for record in theirs
        if record.levelno >= logging.WARNING and not _is_short(record)
    ]


def _is_short(record: logging.LogRecord) -> bool:
    """Whether it is debug mode's line about a callback that took a little long."""
    if not record.msg.startswith("Executing") or not isinstance(record.args, tuple):
        return False
    took = record.args[-1]
    return isinstance(took, float) and took < BLOCKED


@pytest.fixture(autouse=True)
async def watched_loop(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """asyncio's debug mode for each test of the directories whose conftest has this.

    Not for all: it would more than double the time of web's large bodies, and in e2e it is blind,
    because gateways are processes of their own there.
    """
    asyncio.get_running_loop().set_debug(True)
    yield
    assert not swallowed(caplog)
