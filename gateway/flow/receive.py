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
from gateway.core.claim import Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.keying import Conflicting, Missing
from gateway.core.route import OnMissingId, Route
from gateway.flow.arrive import Arriving
from gateway.flow.bypass import without_store
from gateway.flow.deliver import Deliverer
from gateway.flow.doubt import Doubt
from gateway.flow.flights import Flight, Told
from gateway.flow.forward import Sender, answer_to
from gateway.flow.holder import Holder
from gateway.flow.landing import UNDECIDED, Landing
from gateway.flow.notes import Event, Notes
from gateway.flow.replays import Replays
from gateway.flow.shared import RETRY_AFTER, Shared


async def without_key(
    route: Route, sender: Sender, delivery: Delivery, found: Missing | Conflicting | None
) -> Answer:
    """A delivery that has no key: passed through unclaimed, or refused."""
    match found:
        case None:
            return answer_to(await sender.send(delivery), Verdict.PASSED)
        case Missing(where):
            if route.missing_id is OnMissingId.REFUSE:
                return Rejected(Reason.MISSING_ID, 400, f"there is no event id at {where}")
            return answer_to(await sender.send(delivery), Verdict.UNKEYED)
        case Conflicting(where, why):
            return Rejected(Reason.CONFLICTING_ID, 400, f"the event id at {where} has {why}")
        case _:
            assert_never(found)


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
            answer, event = await self._decide(found, began), found
        else:
            answer, event = await without_key(self.route, self._sender, delivery, found), None
        self._notes.told(answer, event, self._clock() - began)
        return answer

    async def _decide(self, event: Event, began: float) -> Answer:
        give_up = self._clock() + self._busy_wait
        while (flight := self._flights.find(event.key.digest)) is not None:
            ended, told = await self._flights.wait(flight, give_up - self._clock())
            if ended and told is None:
                continue
            if event.fingerprint != flight.fingerprint:
                self._notes.mismatch(event)
            return Busy(RETRY_AFTER) if told is None else await self._mirror(event, told)
        # Ours to decide for this process; whoever comes meanwhile waits for it.
        landing = UNDECIDED
        flight = self._flights.open(event.key.digest, event.fingerprint)
        try:
            landing = await self._resolve(event, began, give_up)
        finally:
            self._land(event.key.digest, flight, landing)
        return landing.answer

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
            case (Seen() as seen, met_live):
                self._notes.duplicate(event, seen, met_live=met_live)
                answer = await self._replays.duplicate(event)
                return Landing(answer, Told(answer, durable=True))
            case (Won() as won, lease_end):
                return await self._holder.forward(event, won, began, lease_end)

    async def _mirror(self, event: Event, told: Told) -> Answer:
        """The result of another delivery's flight, as this delivery's own."""
        answer = told.answer
        match answer:
            case Answered(reply) if told.durable:
                self._notes.concurrent(event)
                return Answered(reply, Verdict.DUPLICATE)
            case Answered(reply):
                return Answered(reply, Verdict.BUSY)
            case Unanswered(_, timed_out, sent):
                return Unanswered(Verdict.BUSY, timed_out, sent)
            case Duplicate(how):
                self._notes.concurrent(event)
                if how == self.route.duplicate_reply:
                    return answer
                return await self._replays.duplicate(event)  # another route of the same scope
            case Acknowledged():
                self._notes.concurrent(event)
                return await self._replays.duplicate(event)
            case Greeted() | Busy() | Rejected():
                return answer
            case _:
                assert_never(answer)
