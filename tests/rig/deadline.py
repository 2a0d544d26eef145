"""Waiting for a condition, with an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

# Often enough that a test loses no time, rarely enough that a hundred waits cost nothing.
INTERVAL = 0.02


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]], *, within: float, what: str = ""
) -> T: ...
@overload
async def eventually(condition: Callable[[], T | None], *, within: float, what: str = "") -> T: ...
async def eventually(
    condition: Callable[[], T | Awaitable[T | None] | None], *, within: float, what: str = ""
) -> T:
    """The first truthy value of `condition`. Raises AssertionError when none comes in time."""
    end = time.monotonic() + within
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s: {what or condition}; last: {value!r}")
        await asyncio.sleep(INTERVAL)
