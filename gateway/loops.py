"""Loops that run for as long as the process does, whatever happens in one of their passes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("gateway.app")

# A fault that stays would fill the log if it came back at once.
PAUSE = 5.0


async def for_good(loop: Callable[[], Awaitable[object]], pause: float = PAUSE) -> None:
    """Run a loop, and again after a pause when it breaks.

    What nobody foresaw costs a pass. Ended for good, a loop would leave entries undelivered, or the
    disk filling, while everything else looks well.
    """
    while True:
        try:
            await loop()
        except Exception:  # one pass's crash must not be the last of all passes
            log.error("task_failed", exc_info=True)
        await asyncio.sleep(pause)
