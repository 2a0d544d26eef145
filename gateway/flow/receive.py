"""Receiving in forward mode: a delivery in, an answer out.

    key        where the route says; none: passed through unprotected, or refused
    flight     this process decides the event already: wait for that result
    arrive     one atomic step in the store: won, seen, or held by somebody else
    forward    only when won; the holder checks its own deadline right before the first byte leaves
    settle     completed or released, *then* the provider is answered

What a waiter is told: a success, and a failure that says nothing about the bytes (unreachable, no
answer, 5xx), is mirrored. A refusal before any effect is not: it judged the holder's own bytes, and
a forged copy's 401 must not become the answer to the genuine one. Then the waiter tries for itself.

Between winning and settling nothing raises: an outcome is a value. A process that dies in between
leaves a lease, and the next delivery takes over, marked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from gateway.core import headers
from gateway.core.answer import (
    Answer,
    Answered,
    Busy,
    Duplicate,
    Reason,
    Rejected,
    Unanswered,
    Verdict,
)
from gateway.core.claim import Ask, Ending, Held, Seen, StoreAway, Won
from gateway.core.document import Parse
from gateway.core.event import Delivery
from gateway.core.headers import Marks
from gateway.core.keying import Conflicting, Missing
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused
from gateway.core.route import OnMissingId, OnStoreDown, Route
from gateway.flow.flights import Flight, Flights, Told
from gateway.flow.forward import Sender, answer_to, ending_of
from gateway.flow.needs import Claims, Clock, Counts, Dice, Failpoint, Replies
from gateway.flow.notes import Event, Notes
from gateway.flow.record import Pending, Recorder
from gateway.flow.replays import Replays

# D2 allows two seconds in all; the rest is for reading the body's id and writing the answer.
ARRIVE_WITHIN = 1.8
# How soon a waiter learns of a settlement by another process. Each step is one batched look-up.
POLL_FIRST, POLL_LONGEST = 0.1, 1.0
# Long enough for another process's lease to be settled, short for providers that give up in
# minutes.
RETRY_AFTER = 5


@dataclass(frozen=True, slots=True)
class Shared:
    """What all routes of a process share."""

    claims: Claims
    replies: Replies
    flights: Flights
    recorder: Recorder
    counts: Counts
    clock: Clock
    dice: Dice
    at: Failpoint
    parse: Parse
    log_deliveries: bool


class Landing(NamedTuple):
    """How a flight ends."""

    answer: Answer
    told: Told | None
    """What its waiters are told; None sends each of them to try for itself."""
    pending: Pending | None = None
    """The settlement that the store has not taken yet."""
    later: Told | None = None
    """What those are told who come while it is pending; None has them wait."""


_UNDECIDED = Landing(Busy(RETRY_AFTER), told=None)


class ForwardRoute:
    """`mode: forward`: the consumer's own reply is the acknowledgement."""

    def __init__(self, route: Route, sender: Sender, shared: Shared) -> None:
        self.route = route
        self.decisive = route.decisive
        self._busy_wait = route.busy_wait
        self._sender = sender
        self._shared = shared
        self._flights = shared.flights
        self._clock = shared.clock
        self._notes = Notes(route, shared.counts, shared.parse, each_delivery=shared.log_deliveries)
        self._replays = Replays(route, shared.replies, self._notes)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        began = self._clock()
        found = self._notes.read(delivery, self._shared.dice)
        if isinstance(found, Event):
            answer, event = await self._decide(found), found
        else:
            answer, event = await self._without_key(delivery, found), None
        self._notes.told(answer, event, self._clock() - began)
        return answer

    async def _without_key(self, delivery: Delivery, found: Missing | Conflicting | None) -> Answer:
        match found:
            case None:
                return answer_to(await self._sender.send(delivery), Verdict.PASSED)
            case Missing(where):
                if self.route.missing_id is OnMissingId.REFUSE:
                    return Rejected(Reason.MISSING_ID, 400, f"there is no event id at {where}")
                return answer_to(await self._sender.send(delivery), Verdict.UNKEYED)
            case Conflicting(where, why):
                return Rejected(Reason.CONFLICTING_ID, 400, f"the event id at {where} has {why}")
            case _:
                assert_never(found)

    async def _decide(self, event: Event) -> Answer:
        give_up = self._clock() + self._busy_wait
        while (flight := self._flights.find(event.key.digest)) is not None:
            ended, told = await self._flights.wait(flight, give_up - self._clock())
            if ended and told is None:
                continue
            if event.fingerprint != flight.fingerprint:
                self._notes.mismatch(event)
            return Busy(RETRY_AFTER) if told is None else await self._mirror(event, told)
        # Ours to decide for this process; whoever comes meanwhile waits for it.
        landing = _UNDECIDED
        flight = self._flights.open(event.key.digest, event.fingerprint)
        try:
            landing = await self._resolve(event, give_up)
        finally:
            self._land(event.key.digest, flight, landing)
        return landing.answer

    def _land(self, digest: bytes, flight: Flight, landing: Landing) -> None:
        if landing.pending is None:
            self._flights.close(digest, flight, landing.told)
            return
        rest = self._flights.pend(digest, flight, landing.told, landing.later)
        landing.pending.add_done_callback(lambda _: self._flights.close(digest, rest, None))

    async def _resolve(self, event: Event, give_up: float) -> Landing:
        try:
            arrived = await self._arrive(event, give_up)
        except StoreAway as away:
            return await self._without_store(event, away)
        match arrived:
            case None:
                return _UNDECIDED
            case (Seen() as seen, met_live):
                self._notes.duplicate(event, seen, met_live=met_live)
                answer = await self._replays.duplicate(event)
                return Landing(answer, Told(answer, durable=True))
            case (Won() as won, lease_end):
                return await self._forward(event, won, lease_end)

    async def _arrive(
        self, event: Event, give_up: float
    ) -> tuple[Seen, bool] | tuple[Won, float] | None:
        """Ask until won or seen, or until waiting is no use: then None. Raises StoreAway."""
        ask = Ask(event.key, self.route.name, event.token, self.route.lease, event.fingerprint)
        pause, met_live, differs = POLL_FIRST, False, False
        while True:
            lease_end = self._clock() + self.route.lease
            arrival = await self._shared.claims.arrive(ask, within=ARRIVE_WITHIN)
            if isinstance(arrival, Seen | Held) and not arrival.same_body and not differs:
                differs = True
                self._notes.mismatch(event)
            match arrival:
                case Won():
                    return arrival, lease_end
                case Seen():
                    return arrival, met_live
                case Held():
                    met_live = True
                case _:
                    assert_never(arrival)
            if self._clock() + pause > give_up:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, POLL_LONGEST)

    async def _forward(self, event: Event, won: Won, lease_end: float) -> Landing:
        """Forward as the holder, settle, answer."""
        self._shared.at("after_claim")
        self._notes.won(event, won)
        result: Outcome = Ambiguous("broken_off")  # what a cancelled forward leaves behind
        try:
            result = await self._sender.send(
                event.delivery,
                self._marks(event, won),
                # Never begin what could outlast the lease: from then on another may hold it.
                send_before=lease_end - self.route.upstream.timeout,
            )
        finally:
            pending = await self._settle(event, won, result, lease_end)
        answer = answer_to(result, Verdict.FIRST)
        told = _told(result, answer)
        later = told if isinstance(result, Delivered) else None
        return Landing(answer, told, pending, later)

    def _marks(self, event: Event, won: Won) -> Marks:
        key = None
        if self.route.idempotency_key:
            key = headers.idempotency_key(event.key, len(self.route.recipe.parts))
        doubtful = won.doubtful or self._notes.is_stale(event, won)
        return Marks(event.key.event_id, won.attempt, doubtful, key)

    async def _settle(
        self, event: Event, won: Won, result: Outcome, lease_end: float
    ) -> Pending | None:
        if isinstance(result, Delivered):
            self._notes.accepted(event, won)
            if self._replays.wanted:
                await self._replays.keep(event, result.reply)
        ending = event.ending(self.route, ending_of(result))
        pending = await self._shared.recorder.record(ending, lease_end)
        if pending is None:
            self._shared.at("after_settle")
        return pending

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
            case Busy() | Rejected():
                return answer
            case _:
                assert_never(answer)

    async def _without_store(self, event: Event, away: StoreAway) -> Landing:
        """Refuse, or forward marked, as the route wants.

        A claim that may have been made all the same is given back: at once, or with what became of
        the forward. Until then it keeps other processes from forwarding beside us.
        """
        route, recorder = self.route, self._shared.recorder
        lease_end = self._clock() + route.lease
        if route.on_store_down is OnStoreDown.REFUSE:
            if away.undecided:
                recorder.withdraw(event.ending(route, Ending.RELEASE), lease_end)
            why = "the dedup store is away; send this again later"
            refused = Rejected(Reason.STORE_AWAY, 503, why, RETRY_AFTER)
            return Landing(refused, Told(refused, durable=False))
        marks = Marks(event.key.event_id, 1, possible_duplicate=True)
        result = await self._sender.send(event.delivery, marks)
        answer = answer_to(result, Verdict.BYPASSED)
        ending = event.ending(route, ending_of(result))
        if isinstance(result, Delivered):
            self._notes.accepted(event, None)
            pending = recorder.record_later(ending, float("inf"))
            # Without the reply: of these there may be as many as Recorder has room for.
            later = Told(Duplicate(route.duplicate_reply, None), durable=True)
            return Landing(answer, _told(result, answer), pending, later)
        if away.undecided:
            recorder.withdraw(ending, lease_end)
        return Landing(answer, _told(result, answer))


def _told(result: Outcome, answer: Answer) -> Told | None:
    """What waiters are told of a forward: nothing of a refusal that judged the holder's bytes."""
    if isinstance(result, Refused) and not result.doubtful:
        return None
    return Told(answer, durable=isinstance(result, Delivered))
