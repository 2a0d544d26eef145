"""Flights: the events that this process is deciding right now, one per key.

The store puts deliveries of one event in order across processes. Within a process a flight does it
more cheaply, and better: its waiters learn the result in the same moment, with the consumer's own
reply.

The delivery that opens a flight arrives at the claims; those that come meanwhile wait for it. A
flight ends in an answer that its waiters may give too, or in none: then each of them tries for
itself, and the first of them opens the next flight.
"""

from __future__ import annotations

import asyncio

from gateway.core.answer import Answer

# A storm of one id (a provider's loop, somebody's script) must not fill memory with waiting bodies;
# a provider sends a handful of copies at once, 256 is far above that.
WAITERS_PER_KEY = 256
WAITERS_IN_ALL = 2048


class Flight:
    """One event, being decided."""

    __slots__ = ("_answer", "_ended", "_waker", "waiting")

    def __init__(self) -> None:
        self._ended = False
        self._answer: Answer | None = None
        self._waker: asyncio.Future[None] | None = None  # most flights have nobody waiting
        self.waiting = 0

    async def result(self, within: float) -> Answer | None:
        """What became of it. Raises TimeoutError after `within` seconds."""
        if not self._ended:
            if self._waker is None:
                self._waker = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(within):
                await asyncio.shield(self._waker)
        return self._answer

    def end(self, answer: Answer | None) -> None:
        """Tell those who wait. Only the first ending counts."""
        if self._ended:
            return
        self._ended, self._answer = True, answer
        if self._waker is not None:
            self._waker.set_result(None)


class Flights:
    """All flights of the process. Keys carry their scope: routes that share one share flights."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, Flight] = {}
        self._waiting = 0

    def find(self, digest: bytes) -> Flight | None:
        """The flight of a key, if there is one."""
        return self._by_key.get(digest)

    def open(self, digest: bytes) -> None:
        """Begin one; the caller has seen that there is none."""
        self._by_key[digest] = Flight()

    def close(self, digest: bytes, answer: Answer | None) -> None:
        """End it and forget it."""
        if (flight := self._by_key.pop(digest, None)) is not None:
            flight.end(answer)

    def pend(self, digest: bytes, answer: Answer | None, *, lasting: bool) -> None:
        """End it while its settlement is not recorded yet: the key stays taken until `close`.

        Those who come from now on get the answer at once if it is `lasting`, and wait otherwise.
        """
        self.close(digest, answer)
        successor = self._by_key[digest] = Flight()
        if lasting:
            successor.end(answer)

    async def wait(self, flight: Flight, within: float) -> tuple[bool, Answer | None]:
        """Whether it ended in time, and how. Too many waiters count as out of time."""
        if within <= 0 or flight.waiting >= WAITERS_PER_KEY or self._waiting >= WAITERS_IN_ALL:
            return False, None
        flight.waiting += 1
        self._waiting += 1
        try:
            return True, await flight.result(within)
        except TimeoutError:
            return False, None
        finally:
            flight.waiting -= 1
            self._waiting -= 1

    def __len__(self) -> int:
        return len(self._by_key)
