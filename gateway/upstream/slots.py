"""Slots: how many forwards of one route may be under way, and who waits for the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque


class Slots:
    """A counter with a queue. A slot that is given back passes to whoever has waited longest."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @property
    def in_use(self) -> int:
        """Slots that are taken."""
        return self._count - self._free

    def take(self) -> bool:
        """A slot without waiting, if one is free. Nobody overtakes: then nobody waits."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def wait(self, seconds: float) -> bool:
        """Wait in line for a slot; False after `seconds`."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(seconds, _answer, turn, False)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.give_back()  # it was ours already, and we shall not use it
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(turn)

    def give_back(self) -> None:
        """End one's use of a slot."""
        while self._waiting:
            if _answer(self._waiting.popleft(), True):
                return
        self._free += 1


def _answer(turn: asyncio.Future[bool], has_slot: bool) -> bool:
    if turn.done():
        return False
    turn.set_result(has_slot)
    return True
