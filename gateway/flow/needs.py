"""What the flow needs of the edges. They satisfy these by shape and import none of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.core.answer import Reason, Verdict
from gateway.core.claim import Arrival, Ask, Settled, Settlement
from gateway.core.event import EventKey, RawHeaders
from gateway.core.outcome import Outcome, Reply
from gateway.core.retention import Shape

Clock = Callable[[], float]
"""Monotonic seconds."""
Dice = Callable[[], int]
"""A fresh token: 63 random bits."""
Failpoint = Callable[[str], None]
"""Told the name of each step that a test may crash at; does nothing in production."""


class Claims(Protocol):
    """The claims table. There is nothing here that reads a claim before a decision."""

    def arrive(self, ask: Ask, *, within: float) -> Awaitable[Arrival]:
        """One delivery meets the table. Raises StoreAway after `within` seconds at the latest."""
        ...

    def settle(self, settlement: Settlement) -> Awaitable[Settled]:
        """A holder ends its claim. Raises StoreAway after about a second at the latest.

        Repeating a settlement is harmless.
        """
        ...


class Replies(Protocol):
    """First replies, kept for routes that replay them."""

    async def keep(self, key: EventKey, reply: Reply) -> None:
        """Raises StoreAway."""
        ...

    async def recall(self, key: EventKey) -> Reply | None:
        """None when none was kept. Raises StoreAway."""
        ...


class Consumer(Protocol):
    """The hop to one route's consumer."""

    async def send(
        self,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes,
        *,
        send_before: float | None,
    ) -> Outcome:
        """Send one request, complete headers given. Never raises for what the network does.

        `send_before`: monotonic seconds; past it nothing is sent any more (Unreached `lease_over`).
        """
        ...


class Counts(Protocol):
    """What happened, told once and when it happened."""

    def delivery(self, route: str, verdict: Verdict) -> None: ...
    def rejection(self, route: str, reason: Reason) -> None: ...
    def duplicate(self, route: str, event_type: str | None, shape: Shape, age: float) -> None: ...
    def event(self, route: str, event_type: str | None) -> None: ...
    def forward(self, route: str, outcome: str, seconds: float, *, slow: bool) -> None: ...
    def takeover(self, route: str) -> None: ...
    def late_success(self, route: str) -> None: ...
    def possible_double(self, route: str) -> None: ...
    def stale(self, route: str) -> None: ...
    def mismatch(self, route: str) -> None: ...
