"""Receiving in inbox mode: store the event, acknowledge it, deliver it.

    key      as in forward mode
    accept   claim and entry in one transaction; a duplicate is told so by the same statement
    arrive   batches, and events with an open or a held claim: won like any other, then stored
    answer   200 once it is durable, never before; what is not known to be stored is 503
    send     by this process at once where the route has a slot free, else by whoever is next

Nobody waits for the consumer, so concurrent doubles need no flight: they meet in the store.
"""

from __future__ import annotations

from typing import assert_never

from gateway.core.answer import Acknowledged, Answer, Reason, Rejected
from gateway.core.claim import Ending, Held, Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
)
from gateway.core.route import OnStoreDown, Route
from gateway.flow.arrive import Arriving
from gateway.flow.batches import Loose, Met, Taken
from gateway.flow.bypass import REFUSED, without_store
from gateway.flow.deliver import Deliverer
from gateway.flow.events import Event
from gateway.flow.forward import Sender
from gateway.flow.landing import UNDECIDED, Landing
from gateway.flow.notes import Notes
from gateway.flow.receive import without_claim, without_key
from gateway.flow.replays import Replays
from gateway.flow.shared import ARRIVE_WITHIN, RETRY_AFTER, Shared

FULL = Rejected(
    Reason.INBOX_FULL,
    503,
    "too many events wait to be delivered on this route; send this again later",
    RETRY_AFTER,
)


class InboxRoute:
    """`mode: inbox`: the stored entry is the acknowledgement."""

    def __init__(
        self, route: Route, sender: Sender, deliverer: Deliverer, notes: Notes, shared: Shared
    ) -> None:
        self.route = route
        self.decisive = route.decisive
        self._sender = sender
        self._deliverer = deliverer
        self._notes = notes
        self._shared = shared
        self._clock = shared.clock
        self._replays = Replays(route, shared.replies, notes)
        self._arriving = Arriving(route, shared, notes, deliverer.wake)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        began = self._clock()
        found = self._notes.read(delivery, self._shared.dice)
        if isinstance(found, Event):
            landing = await self._decide(found)
        else:
            landing = await without_key(self.route, self._sender, delivery, found)
        seconds = self._clock() - began
        self._notes.told(landing.answer, found, seconds, landing.shape, landing.taken)
        return landing.answer

    async def _decide(self, event: Event) -> Landing:
        try:
            if event.items:
                return await self._arrive(event, has_room=self._has_room())
            return await self._accept(event)
        except StoreAway as away:
            return await self._without_store(event, away)

    async def _without_store(self, event: Event, away: StoreAway) -> Landing:
        if self.route.on_store_down is OnStoreDown.REFUSE:
            if away.undecided:
                self._withdraw(event)
            return Landing(REFUSED)
        return await without_store(self.route, self._sender, self._notes, self._shared, event, away)

    def _has_room(self) -> bool:
        return not self._deliverer.retired and self._shared.room.has_room(self.route)

    def _withdraw(self, event: Event) -> None:
        """Give back what may be ours without our knowing: a claim, or an entry that nobody sends.

        Nothing was sent under either, so neither is left in doubt.
        """
        claimed = event.ending(self.route, Ending.RELEASE)
        leased = Conclusion(
            event.key, self.route.name, event.token, event.fingerprint,
            EntryEnding.HAND_BACK, False, 0.0, "not begun",
        )  # fmt: skip
        lease_end = self._clock() + self.route.lease
        self._shared.recorder.withdraw(claimed, leased, lease_end=lease_end)

    async def _accept(self, event: Event) -> Landing:
        began = self._clock()
        has_room = self._has_room()
        offer, has_slot = self._offer(event)
        told: Accepted | Seen | Held | Unclaimed | None = None
        try:
            told = await self._shared.inbox.accept(offer, has_room=has_room, within=ARRIVE_WITHIN)
        finally:
            if has_slot and not isinstance(told, Accepted):
                self._deliverer.give_back(len(event.delivery.body))
        match told:
            case Accepted(now):
                return self._owe(event, 1, now, began, offer, doubtful=False)
            case Seen():
                self._notes.differs(event, told)
                await self._arriving.meet(event, told)
                return await self._duplicate(event, told, met_live=False)
            case Held() | Unclaimed():
                return await self._arrive(event, has_room=has_room)
            case _:
                assert_never(told)

    def _offer(self, event: Event, *, doubtful: bool = False) -> tuple[Offer, bool]:
        """The event as it is to be stored, and whether a slot was taken for it."""
        # Of a batch some claims may be lost by the time it is stored: whoever leases the entry
        # learns of that doubt, and whoever stored it would not.
        has_slot = not event.items and self._deliverer.take(len(event.delivery.body))
        state = EntryState.LEASED if has_slot else EntryState.PENDING
        return event.offer(self.route, state, doubtful=doubtful), has_slot

    def _owe(
        self, event: Event, attempt: int, now: float, began: float, offer: Offer, *, doubtful: bool
    ) -> Landing:
        """It is stored: send it if it is ours to send, and acknowledge it."""
        self._shared.room.accepted(self.route.name)
        self._shared.at("after_accept")
        self._notes.is_stale(event, attempt, now)  # counts it
        if offer.state is EntryState.LEASED:
            leased = Leased(
                event.key, self.route.name, event.token, attempt, doubtful, event.fingerprint,
                0.0, now, event.delivery,
            )  # fmt: skip
            self._deliverer.start(event, leased, began + self.route.lease)
        else:
            self._deliverer.wake()
        return Landing(Acknowledged(self.route.duplicate_reply), taken=event)

    async def _arrive(self, event: Event, *, has_room: bool) -> Landing:
        """A batch, or an event that somebody had before: its forward failed, or is under way."""
        if not has_room:
            return Landing(FULL)
        arrived = await self._arriving.arrive(event, self._clock() + self.route.busy_wait)
        match arrived:
            case None:
                return UNDECIDED
            case Met(seen, live):
                return await self._duplicate(event, seen, met_live=live)
            case Taken(won, _, taken):
                try:
                    return await self._store(taken, won)
                except StoreAway as away:
                    return await self._without_store(taken, away)
            case Loose():
                return await without_claim(self._sender, event, arrived)
            case _:
                assert_never(arrived)

    async def _store(self, event: Event, won: Won) -> Landing:
        self._shared.at("after_claim")
        self._notes.won(event, won)
        offer, has_slot = self._offer(event, doubtful=won.doubtful)
        began, stored = self._clock(), False
        try:
            stored = await self._shared.inbox.store(offer, within=ARRIVE_WITHIN)
        except StoreAway as away:
            if not away.undecided:  # else it is done for whatever of it is undecided
                self._withdraw(event)
            raise
        finally:
            if has_slot and not stored:
                self._deliverer.give_back(len(event.delivery.body))
        if not stored:
            return UNDECIDED
        return self._owe(event, won.attempt, won.now, began, offer, doubtful=won.doubtful)

    async def _duplicate(self, event: Event, seen: Seen, *, met_live: bool) -> Landing:
        shape = self._notes.duplicate(event, seen, met_live=met_live)
        return Landing(await self._replays.duplicate(event, seen.first_seen), shape=shape)
