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
from typing import NamedTuple

from gateway.core.answer import Answer
from gateway.core.event import EventKey

# A storm of one id (a provider's loop, somebody's script) must not fill memory with waiting bodies;
# a provider sends a handful of copies at once, 256 is far above that.
WAITERS_PER_KEY = 256
WAITERS_IN_ALL = 2048


class Told(NamedTuple):
    """What a flight tells its waiters."""

    answer: Answer
    durable: bool
    """Whether the event is done: a waiter of another route, which may take other statuses for
    success, must not find out by itself."""
    first_seen: float | None = None
    """Of the event, in epoch seconds on the database's clock."""
    same_event: bool = True
    """False where another event had its operation key."""


class Flight:
    """One event, being decided. `fingerprint`: of the body that it is decided by."""

    __slots__ = ("_told", "_waker", "ended", "event_id", "fingerprint", "waiting")

    def __init__(self, event_id: str, fingerprint: int) -> None:
        self.event_id = event_id
        self.fingerprint = fingerprint
        self.ended = False
        self.waiting = 0
        self._told: Told | None = None
        self._waker: asyncio.Future[None] | None = None  # most flights have nobody waiting

    async def result(self, within: float) -> Told | None:
        """What became of it. Raises TimeoutError after `within` seconds."""
        if not self.ended:
            if self._waker is None:
                self._waker = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(within):
                await asyncio.shield(self._waker)
        return self._told

    def end(self, told: Told | None) -> None:
        """Tell those who wait. Only the first ending counts."""
        if self.ended:
            return
        self.ended, self._told = True, told
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

    def open(self, key: EventKey, fingerprint: int) -> Flight:
        """Begin one; the caller has seen that there is none."""
        flight = self._by_key[key.digest] = Flight(key.event_id, fingerprint)
        return flight

    def close(self, digest: bytes, flight: Flight, told: Told | None) -> None:
        """End it and forget it; another flight of the same key flies on."""
        flight.end(told)
        if self._by_key.get(digest) is flight:
            del self._by_key[digest]

    def pend(self, digest: bytes, flight: Flight, told: Told | None, later: Told | None) -> Flight:
        """End it while its settlement is not recorded yet: the key stays taken until the flight
        that is given back is closed.

        Those who come from now on get `later` at once, and wait where it is None.
        """
        self.close(digest, flight, told)
        successor = self.open(EventKey(digest, flight.event_id), flight.fingerprint)
        if later is not None:
            successor.end(later)
        return successor

    async def wait(self, flight: Flight, within: float) -> tuple[bool, Told | None]:
        """Whether it ended in time, and how. Too many waiters count as out of time."""
        full = flight.waiting >= WAITERS_PER_KEY or self._waiting >= WAITERS_IN_ALL
        if not flight.ended and (within <= 0 or full):
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
