"""What the flow needs of the edges. They satisfy these by shape and import none of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

from gateway.core.answer import Reason, Verdict
from gateway.core.claim import Arrival, Ask, Held, Seen, Settled, Settlement
from gateway.core.event import Delivery, EventKey, RawHeaders
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
)
from gateway.core.inbox import Waiting as Waiting
from gateway.core.outcome import Outcome, Reply
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.core.signature import Checked

Clock = Callable[[], float]
"""Monotonic seconds."""
Dice = Callable[[], int]
"""A fresh token: 63 random bits."""
Jitter = Callable[[], float]
"""A fresh number in [0, 1)."""
Failpoint = Callable[[str], None]
"""Told the name of each step that a test may crash at; does nothing in production."""


Spawn = Callable[[Coroutine[Any, Any, None]], None]
"""Runs work of its own, which is looked after until the process ends."""


class Claims(Protocol):
    """The claims table. There is nothing here that reads a claim before a decision."""

    def arrive(self, ask: Ask, *, within: float) -> Awaitable[Arrival]:
        """One delivery meets the table. Raises StoreAway after `within` seconds at the latest."""
        ...

    async def arrive_all(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        """The items of a batch meet the table in one statement; each key once, one token for all.

        Raises StoreAway as above. After an undecided one, any of them may have been won.
        """
        ...

    def settle(self, settlement: Settlement) -> Awaitable[Settled]:
        """A holder ends its claim, or those of all items of its batch, in one statement.

        Raises StoreAway after about a second at the latest. Repeating a settlement is harmless. Of
        items, `changed` and `late` say whether any of them was.
        """
        ...


class Inbox(Protocol):
    """The entries. One process stores and settles one key one after the other."""

    def accept(
        self, offer: Offer, *, has_room: bool, within: float
    ) -> Awaitable[Accepted | Seen | Held | Unclaimed]:
        """Store an event without a claim, claim included. Raises StoreAway after `within` seconds.

        Unclaimed where its claim is open, or where the inbox has no room and there is none. After
        an undecided StoreAway it may be stored all the same.
        """
        ...

    def store(self, offer: Offer, *, within: float) -> Awaitable[bool]:
        """The holder of a claim gives it to the inbox; False when the claim is lost.

        Of a batch, those of its items' claims that are still held, False when none is. An entry
        that stands for only some of them is doubtful: somebody else sends the others.

        Raises StoreAway after `within` seconds. Repeating it is harmless.
        """
        ...

    async def lease(
        self, route: str, most: int, token: int, seconds: float, *, newest: bool
    ) -> list[Leased]:
        """Take up to `most` due entries, the oldest due or the newest. Raises StoreAway."""
        ...

    def conclude(self, conclusion: Conclusion) -> Awaitable[Settled]:
        """A worker ends its attempt. Raises StoreAway after about a second at the latest.

        Repeating it is harmless.
        """
        ...

    async def revive(self, offer: Offer) -> bool:
        """A delivery meets a dead entry and replaces its bytes. Raises StoreAway.

        A batch's entry is due again with the bytes that it has: other batches may carry the same
        items beside others. `offer.items` are those that are dead; False when none is any more.
        """
        ...

    async def released(self, key: EventKey, attempt: int) -> bool:
        """Whether a person freed the event's claim after that attempt. Raises StoreAway."""
        ...

    async def due(self, routes: Iterable[str]) -> frozenset[str]:
        """The routes among these that have something to send. Raises StoreAway."""
        ...

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        """All undelivered entries, by route and state. Raises StoreAway."""
        ...

    async def forget(self, route: str, kept: float, most: int) -> int:
        """Delete up to `most` entries that ended over `kept` seconds ago. Raises StoreAway."""
        ...


class Room(Protocol):
    """How full the inbox is."""

    def has_room(self, route: Route) -> bool:
        """Whether the route's undelivered entries are below its high-water mark."""
        ...

    def accepted(self, route: str) -> None:
        """One more was stored."""
        ...

    def ended(self, route: str) -> None:
        """One is delivered, dead or held: it fills the inbox no more."""
        ...


class Replies(Protocol):
    """First replies, kept for routes that replay them."""

    async def keep(self, key: EventKey, reply: Reply, *, anew: bool = False) -> None:
        """The first reply stays, unless one is to be kept anew. Raises StoreAway."""
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


class Verifier(Protocol):
    """What a route's deliveries are signed with."""

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether the provider signed it. `now`: epoch seconds of this machine's clock."""
        ...


class Signer(Protocol):
    """Signs anew what goes to the consumer."""

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """With a fresh time stamp, in place of the signature that came. `now`: as above."""
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
    def promise_exceeded(self, route: str) -> None: ...
    def mismatch(self, route: str) -> None: ...
    def signature(self, route: str, result: str, secret: str) -> None: ...
    def items(self, route: str, verdict: Verdict, number: int) -> None: ...
    def concluded(self, route: str, ending: EntryEnding) -> None: ...
