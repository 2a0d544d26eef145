"""The fakes. The claims in memory are the core model itself, so they cannot drift."""

from __future__ import annotations

from gateway.core import claim
from gateway.core.claim import Arrival, Ask, Claim, Settled, Settlement
from gateway.core.event import EventKey
from gateway.core.outcome import Reply


class MemoryClaims:
    """Claims of all processes, under a clock that moves by assignment."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        """Epoch seconds."""
        self.rows: dict[bytes, Claim] = {}
        self.asked = 0

    async def arrive(self, ask: Ask, *, within: float) -> Arrival:
        self.asked += 1
        row, arrival = claim.arrive(self.rows.get(ask.key.digest), ask, self.now)
        self.rows[ask.key.digest] = row
        return arrival

    async def settle(self, settlement: Settlement) -> Settled:
        digest = settlement.key.digest
        row, settled = claim.settle(self.rows.get(digest), settlement, self.now)
        if row is not None:
            self.rows[digest] = row
        return settled


class MemoryReplies:
    """First replies."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Reply] = {}

    async def keep(self, key: EventKey, reply: Reply) -> None:
        self.kept.setdefault(key.digest, reply)

    async def recall(self, key: EventKey) -> Reply | None:
        return self.kept.get(key.digest)
