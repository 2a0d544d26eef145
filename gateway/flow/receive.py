"""Receiving in forward mode: a delivery in, an answer out.

    key        where the route says; none: passed through unprotected, or refused
    flight     this process decides the event already: wait for that result
    arrive     one atomic step in the store: won, seen, or held by somebody else
    hold       only when won; `holder.py` has what lies between winning and settling
    answer     once the claim is completed, released or given to the inbox

What a waiter is told: a success, and a failure that says nothing about the bytes (unreachable, no
answer, 5xx), is mirrored. A refusal before any effect is not: it judged the holder's own bytes, and
a forged copy's 401 must not become the answer to the genuine one. Then the waiter tries for itself.
"""

from __future__ import annotations

from typing import assert_never

from gateway.core.answer import (
    Acknowledged,
    Answer,
    Answered,
    Busy,
    Duplicate,
    Greeted,
    Reason,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.claim import StoreAway
from gateway.core.event import Delivery
from gateway.core.keying import Conflicting, Missing
from gateway.core.route import OnMissingId, Route
from gateway.flow.arrive import Arriving
from gateway.flow.batches import Loose, Met, Taken
from gateway.flow.bypass import without_store
from gateway.flow.deliver import Deliverer
from gateway.flow.doubt import Doubt
from gateway.flow.events import Event
from gateway.flow.flights import Flight, Told
from gateway.flow.forward import Sender, answer_to
from gateway.flow.holder import Holder
from gateway.flow.landing import UNDECIDED, Landing
from gateway.flow.notes import Notes
from gateway.flow.replays import Replays
from gateway.flow.shared import Shared


async def without_key(
    route: Route,
    sender: Sender,
    delivery: Delivery,
    found: Missing | Conflicting | Greeted | None,
) -> Landing:
    """A delivery that has no key: passed through unclaimed, answered, or refused."""
    match found:
        case Greeted():
            answer: Answer = found
        case None:
            answer = answer_to(await sender.send(delivery), Verdict.PASSED)
        case Missing(where) if route.missing_id is OnMissingId.REFUSE:
            answer = Rejected(Reason.MISSING_ID, 400, f"there is no event id at {where}")
        case Missing():
            answer = answer_to(await sender.send(delivery), Verdict.UNKEYED)
        case Conflicting(where, why):
            answer = Rejected(Reason.CONFLICTING_ID, 400, f"the event id at {where} has {why}")
        case _:
            assert_never(found)
    return Landing(answer)


async def without_claim(sender: Sender, event: Event, loose: Loose) -> Landing:
    """A batch of which nothing new has an id: the rest passes through unprotected."""
    marks = sender.marks(event.key, 1, doubtful=True) if loose.marked else None
    return Landing(answer_to(await sender.send(loose.delivery, marks), Verdict.UNKEYED))


class ForwardRoute:
    """`mode: forward`: the consumer's own reply is the acknowledgement."""

    def __init__(
        self,
        route: Route,
        sender: Sender,
        doubt: Doubt,
        deliverer: Deliverer,
        notes: Notes,
        shared: Shared,
    ) -> None:
        self.route = route
        self.decisive = route.decisive
        self._busy_wait = route.busy_wait
        self._sender = sender
        self._shared = shared
        self._flights = shared.flights
        self._clock = shared.clock
        self._notes = notes
        self._replays = Replays(route, shared.replies, notes)
        self._arriving = Arriving(route, shared, notes, deliverer.wake)
        self._holder = Holder(route, sender, doubt, deliverer, notes, self._replays, shared)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        began = self._clock()
        found = self._notes.read(delivery, self._shared.dice)
        if isinstance(found, Event):
            landing = await self._decide(found, began)
        else:
            landing = await without_key(self.route, self._sender, delivery, found)
        seconds = self._clock() - began
        self._notes.told(landing.answer, found, seconds, landing.shape, landing.taken)
        return landing.answer

    async def _decide(self, event: Event, began: float) -> Landing:
        give_up = self._clock() + self._busy_wait
        while (flight := self._flights.find(event.key.digest)) is not None:
            ended, told = await self._flights.wait(flight, give_up - self._clock())
            if ended and told is None:
                continue
            same_event = event.key.event_id == flight.event_id
            if told is not None and not (told.same_event or same_event):
                continue  # it may be the one that the claim is of
            if same_event and event.fingerprint != flight.fingerprint:
                self._notes.mismatch(event)
            return UNDECIDED if told is None else await self._mirror(event, told, same_event)
        # Ours to decide for this process; whoever comes meanwhile waits for it.
        landing = UNDECIDED
        flight = self._flights.open(event.key, event.fingerprint)
        try:
            landing = await self._resolve(event, began, give_up)
        finally:
            self._land(event.key.digest, flight, landing)
        return landing

    def _land(self, digest: bytes, flight: Flight, landing: Landing) -> None:
        if landing.pending is None:
            self._flights.close(digest, flight, landing.told)
            return
        rest = self._flights.pend(digest, flight, landing.told, landing.later)
        landing.pending.add_done_callback(lambda _: self._flights.close(digest, rest, None))

    async def _resolve(self, event: Event, began: float, give_up: float) -> Landing:
        try:
            arrived = await self._arriving.arrive(event, give_up)
        except StoreAway as away:
            return await without_store(
                self.route, self._sender, self._notes, self._shared, event, away
            )
        match arrived:
            case None:
                return UNDECIDED
            case Met(seen, live):
                shape = self._notes.duplicate(event, seen, met_live=live)
                answer = await self._replays.duplicate(event, seen.first_seen)
                told = Told(answer, True, seen.first_seen, seen.same_event)
                return Landing(answer, told, shape=shape)
            case Taken(won, lease_end, taken):
                landing = await self._holder.forward(taken, won, began, lease_end)
                return landing._replace(taken=taken) if taken.items else landing
            case Loose():
                return await without_claim(self._sender, event, arrived)
            case _:
                assert_never(arrived)

    async def _mirror(self, event: Event, told: Told, same_event: bool) -> Landing:
        """The result of another delivery's flight, as this delivery's own."""
        match told.answer:
            case Answered(reply) if told.durable:
                since = self._replays.since(told.first_seen)
                answer: Answer = Answered(reply, Verdict.DUPLICATE, first_seen=since)
            case Answered(reply):
                answer = Answered(reply, Verdict.BUSY)
            case Unanswered(_, timed_out, sent):
                answer = Unanswered(Verdict.BUSY, timed_out, sent)
            case Duplicate(how, kept) if how == self.route.duplicate_reply:
                answer = Duplicate(how, kept, self._replays.since(told.first_seen))
            case Duplicate() | Acknowledged():  # the former of another route of the same scope
                answer = await self._replays.duplicate(event, told.first_seen)
            case Greeted() | Busy() | Rejected():
                answer = told.answer
            case _:
                assert_never(told.answer)
        if not told.durable:
            return Landing(answer)
        same_event = same_event and told.same_event
        return Landing(answer, shape=self._notes.concurrent(event, same_event=same_event))
