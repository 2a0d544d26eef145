"""The load of batches: so many items in hand at one time, so that nobody else waits for them.

An item costs its process some 15 µs of its loop before it is claimed, the store some 25 µs, and 700
bytes until its delivery is answered. Forty bodies of 10,000 at once would have every other route's
deliveries wait beyond the time in which they have to be answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter

# Items in hand of all routes, 70 MB of them. A provider that sends 500 at a time can have a hundred
# such deliveries under way on a route of its own.
MOST = 100_000
# No route's batches take the room of all others'.
MOST_OF_A_ROUTE = MOST // 2
# So few cost little more than an event, and are not weighed: nobody's single events are refused for
# somebody's batches.
LIGHT = 100


class Load:
    """All of a process. A route that has none in hand may always begin one, whatever its size."""

    def __init__(self) -> None:
        self.taken = 0
        """Items."""
        self._of: Counter[str] = Counter()
        self._reading = asyncio.Lock()

    def take(self, route: str, items: int) -> bool:
        """Whether a batch of so many items may come in; then it is in hand."""
        if items <= LIGHT:
            return True
        own = self._of[route]
        if own and (own + items > MOST_OF_A_ROUTE or self.taken + items > MOST):
            return False
        self._of[route] = own + items
        self.taken += items
        return True

    async def turn(self, items: int) -> None:
        """Wait before one of so many items is read, if another was read just now.

        Five of 10,000 that come together would have the loop for most of a second on end.
        """
        if items > LIGHT:
            async with self._reading:
                await asyncio.sleep(0)

    def give_back(self, route: str, items: int) -> None:
        """It has been answered."""
        if items > LIGHT:
            self._of[route] -= items
            self.taken -= items
