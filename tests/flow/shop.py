"""What a world's processes share, and what each of them counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.core.answer import Reason, Verdict
from gateway.core.claim import Arrival, Ask, Held, Seen, Settled, Settlement, StoreAway
from gateway.core.event import EventKey
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
    Waiting,
)
from gateway.core.retention import Shape
from tests.fakes import MemoryClaims


class Failure(Enum):
    """How the store fails one call."""

    AWAY = auto()
    REQUEST_LOST = auto()
    REPLY_LOST = auto()


@dataclass
class Counted:
    """Counts by name and labels."""

    by: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def __getitem__(self, key: tuple[object, ...] | str) -> int:
        return self.by[key if isinstance(key, tuple) else (key,)]

    def delivery(self, route: str, verdict: Verdict) -> None:
        self.by["delivery", verdict] += 1

    def rejection(self, route: str, reason: Reason) -> None:
        self.by["rejection", reason] += 1

    def duplicate(self, route: str, event_type: str | None, shape: Shape, age: float) -> None:
        self.by["duplicate", event_type, shape] += 1

    def event(self, route: str, event_type: str | None) -> None:
        self.by["event", event_type] += 1

    def forward(self, route: str, outcome: str, seconds: float, *, slow: bool) -> None:
        self.by["forward", outcome] += 1
        self.by["slow",] += slow

    def takeover(self, route: str) -> None:
        self.by["takeover",] += 1

    def late_success(self, route: str) -> None:
        self.by["late_success",] += 1

    def possible_double(self, route: str) -> None:
        self.by["possible_double",] += 1

    def stale(self, route: str) -> None:
        self.by["stale",] += 1

    def promise_exceeded(self, route: str) -> None:
        self.by["promise_exceeded",] += 1

    def concluded(self, route: str, ending: EntryEnding) -> None:
        self.by["concluded", ending] += 1

    def mismatch(self, route: str) -> None:
        self.by["mismatch",] += 1

    def signature(self, route: str, result: str, secret: str) -> None:
        self.by["signature", result, secret] += 1

    def items(self, route: str, verdict: Verdict, number: int) -> None:
        self.by["items", verdict] += number


class Shop:
    """The claims and entries of all processes, which can be away, and can lose replies."""

    def __init__(self, claims: MemoryClaims) -> None:
        self.claims = claims
        self.away = False
        self.releases_away = False
        self.settle_away = False
        self.leases_away = False
        self.leases = self.stores = 0
        """Calls so far."""
        self.storing_fails: Failure | None = None
        """How a claim cannot be given to the inbox."""
        self.revivals_away = False
        self.replies_lost = 0
        """So many calls take effect, and nobody learns of it."""
        self.requests_lost = 0
        """So many calls take no effect, and nobody learns of it."""
        self.patience: list[float] = []
        """How long each arrival would have waited, in seconds."""
        self.slowness = 0.0
        """Seconds that an arrival and the reply to a lease take."""

    async def arrive(self, ask: Ask, *, within: float) -> Arrival:
        self.patience.append(within)
        self._here()
        self._lose_request()
        await asyncio.sleep(self.slowness)
        arrival = await self.claims.arrive(ask, within=within)
        self._lose_reply()
        return arrival

    async def arrive_all(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        self.patience.append(within)
        self._here()
        self._lose_request()
        await asyncio.sleep(self.slowness)
        arrivals = await self.claims.arrive_all(asks, within=within)
        self._lose_reply()
        return arrivals

    async def settle(self, settlement: Settlement) -> Settled:
        if self.away or self.settle_away:
            raise StoreAway("away")
        return await self.claims.settle(settlement)

    async def accept(
        self, offer: Offer, *, has_room: bool, within: float
    ) -> Accepted | Seen | Held | Unclaimed:
        self._here()
        self._lose_request()
        told = await self.claims.accept(offer, has_room=has_room, within=within)
        self._lose_reply()
        return told

    async def store(self, offer: Offer, *, within: float) -> bool:
        self._here()
        self.stores += 1
        if self.storing_fails is Failure.AWAY:
            raise StoreAway("away")
        if self.storing_fails is Failure.REQUEST_LOST:
            raise StoreAway("the request was lost", undecided=True)
        stored = await self.claims.store(offer, within=within)
        if self.storing_fails is Failure.REPLY_LOST:
            raise StoreAway("the reply was lost", undecided=True)
        return stored

    async def lease(
        self, route: str, most: int, token: int, seconds: float, *, newest: bool
    ) -> list[Leased]:
        self._here()
        if self.leases_away:
            raise StoreAway("away")
        taken = await self.claims.lease(route, most, token, seconds, newest=newest)
        self.leases += 1
        await asyncio.sleep(self.slowness)
        return taken

    async def conclude(self, conclusion: Conclusion) -> Settled:
        if self.away or self.settle_away:
            raise StoreAway("away")
        return await self.claims.conclude(conclusion)

    async def revive(self, offer: Offer) -> bool:
        self._here()
        if self.revivals_away:
            raise StoreAway("away")
        return await self.claims.revive(offer)

    async def released(self, key: EventKey, attempt: int) -> bool:
        self._here()
        if self.releases_away:
            raise StoreAway("away")
        return await self.claims.released(key, attempt)

    async def due(self, routes: Iterable[str]) -> frozenset[str]:
        self._here()
        return await self.claims.due(routes)

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        return await self.claims.waiting()

    async def forget(self, route: str, kept: float, most: int) -> int:
        return await self.claims.forget(route, kept, most)

    def _here(self) -> None:
        if self.away:
            raise StoreAway("away")

    def _lose_request(self) -> None:
        if self.requests_lost:
            self.requests_lost -= 1
            raise StoreAway("the request was lost", undecided=True)

    def _lose_reply(self) -> None:
        if self.replies_lost:
            self.replies_lost -= 1
            raise StoreAway("the reply was lost", undecided=True)
