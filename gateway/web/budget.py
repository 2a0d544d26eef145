"""The byte budget: bodies in memory, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque

# Each of those that wait holds what had arrived of its body before the reading stopped: twice the
# free 64 KiB and what two turns of the loop bring, up to 640 KiB; so 40 MiB for all of them.
MOST_WAITING = 64


class ByteBudget:
    """So many bytes, lent in the order of asking. A large wish is not overtaken by small ones."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int, timeout: float) -> bool:
        """Whether `size` bytes were lent within `timeout` seconds.

        More than `total` never are; the configuration keeps every `body_limit` below it.
        """
        if not self._waiting and size <= self.free:
            self.free -= size
            return True
        if len(self._waiting) >= MOST_WAITING:
            return False
        granted = asyncio.get_running_loop().create_future()
        wish = (size, granted)
        self._waiting.append(wish)
        try:
            await asyncio.wait((granted,), timeout=timeout)
        except asyncio.CancelledError:
            if granted.done():
                self.give_back(size)
            raise
        finally:
            if not granted.done():
                self._waiting.remove(wish)
                self._serve()
        return granted.done()

    def give_back(self, size: int) -> None:
        """Return lent bytes, all or some."""
        self.free += size
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, granted = self._waiting.popleft()
            self.free -= size
            granted.set_result(None)
