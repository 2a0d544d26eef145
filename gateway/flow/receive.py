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
from typing import assert_never

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
from gateway.core.claim import Arrival, Ask, Ending, Held, Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.headers import Marks
from gateway.core.keying import Conflicting, Missing
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused, Unreached
from gateway.core.route import REPLAY_LIMIT, OnMissingId, OnStoreDown, ReplayReply, Route
from gateway.flow.flights import Flights
from gateway.flow.forward import Sender, answer_to
from gateway.flow.needs import Claims, Clock, Counts, Dice, Failpoint, Replies
from gateway.flow.notes import Event, Notes
from gateway.flow.record import Recorder

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
    log_deliveries: bool


@dataclass(frozen=True, slots=True)
class Landing:
    """How a flight ends."""

    answer: Answer
    told: Answer | None
    """What its waiters are told; None sends each of them to try for itself."""
    recorded: bool = True
    delivered: bool = False


class ForwardRoute:
    """`mode: forward`: the consumer's own reply is the acknowledgement."""

    def __init__(self, route: Route, sender: Sender, shared: Shared) -> None:
        self.route = route
        self._sender = sender
        self._shared = shared
        self._flights = shared.flights
        self._clock = shared.clock
        self._notes = Notes(route, shared.counts, each_delivery=shared.log_deliveries)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        began = self._clock()
        found = self._notes.read(delivery, self._shared.dice)
        answer = await self._answer(delivery, found)
        event = found if isinstance(found, Event) else None
        self._notes.told(answer, event, self._clock() - began)
        return answer

    async def _answer(
        self, delivery: Delivery, found: Event | Missing | Conflicting | None
    ) -> Answer:
        match found:
            case Event():
                return await self._decide(found)
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
        give_up = self._clock() + self.route.busy_wait
        while (flight := self._flights.find(event.key.digest)) is not None:
            ended, answer = await self._flights.wait(flight, give_up - self._clock())
            if not ended:
                return Busy(RETRY_AFTER)
            if answer is not None:
                return self._mirror(event, answer)
        return await self._fly(event, give_up)

    async def _fly(self, event: Event, give_up: float) -> Answer:
        """Decide an event for this process; whoever comes meanwhile waits for it."""
        digest = event.key.digest
        landing = Landing(Busy(RETRY_AFTER), told=None)
        self._flights.open(digest)
        try:
            landing = await self._resolve(event, give_up)
        finally:
            if landing.recorded:
                self._flights.close(digest, landing.told)
            else:
                self._flights.pend(digest, landing.told, lasting=landing.delivered)
        return landing.answer

    async def _resolve(self, event: Event, give_up: float) -> Landing:
        try:
            arrived = await self._arrive(event, give_up)
        except StoreAway:
            answer = await self._without_store(event)
            return Landing(answer, told=answer)
        match arrived:
            case None:
                return Landing(Busy(RETRY_AFTER), told=None)
            case (Seen() as seen, met_live):
                answer = await self._duplicate(event, seen, met_live=met_live)
                return Landing(answer, told=answer)
            case (Won() as won, lease_end):
                return await self._forward(event, won, lease_end)

    async def _arrive(
        self, event: Event, give_up: float
    ) -> tuple[Seen, bool] | tuple[Won, float] | None:
        """Ask until won or seen, or until waiting is no use: then None. Raises StoreAway."""
        pause, met_live = POLL_FIRST, False
        while True:
            lease_end = self._clock() + self.route.lease
            arrival = await self._ask(event, lease_end)
            match arrival:
                case Won():
                    return arrival, lease_end
                case Seen():
                    return arrival, met_live
                case Held():
                    if not met_live:
                        self._notes.held(event, arrival)
                    met_live = True
                case _:
                    assert_never(arrival)
            if self._clock() + pause > give_up:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, POLL_LONGEST)

    async def _ask(self, event: Event, lease_end: float) -> Arrival:
        ask = Ask(event.key, self.route.name, event.token, self.route.lease, event.fingerprint)
        try:
            return await self._shared.claims.arrive(ask, within=ARRIVE_WITHIN)
        except StoreAway as away:
            if away.undecided:
                self._shared.recorder.withdraw(event.ending(self.route, Ending.RELEASE), lease_end)
            raise

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
            recorded = await self._settle(event, won, result, lease_end)
        answer = answer_to(result, Verdict.FIRST)
        return Landing(
            answer,
            told=None if isinstance(result, Refused) and not result.doubtful else answer,
            recorded=recorded,
            delivered=isinstance(result, Delivered),
        )

    def _marks(self, event: Event, won: Won) -> Marks:
        key = None
        if self.route.idempotency_key:
            key = headers.idempotency_key(event.key, len(self.route.recipe.parts))
        doubtful = won.doubtful or self._notes.is_stale(event, won)
        return Marks(event.key.event_id, won.attempt, doubtful, key)

    async def _settle(self, event: Event, won: Won, result: Outcome, lease_end: float) -> bool:
        """Record the outcome; whether the store has it already."""
        if isinstance(result, Delivered):
            self._notes.accepted(event, won)
            await self._keep_reply(event, result)
        digest = event.key.digest
        recorded = await self._shared.recorder.record(
            event.ending(self.route, ending_of(result)),
            lease_end,
            lambda: self._flights.close(digest, None),
        )
        if recorded:
            self._shared.at("after_settle")
        return recorded

    async def _keep_reply(self, event: Event, result: Delivered) -> None:
        reply = result.reply
        if not isinstance(self.route.duplicate_reply, ReplayReply) or not reply.complete:
            return
        if len(reply.body) > REPLAY_LIMIT:
            self._notes.reply_lost(event, f"its body of {len(reply.body)} bytes is over 16 KiB")
            return
        try:
            await self._shared.replies.keep(event.key, reply)
        except StoreAway as away:
            self._notes.reply_lost(event, str(away))

    async def _duplicate(self, event: Event, seen: Seen, *, met_live: bool) -> Duplicate:
        self._notes.duplicate(event, seen, met_live=met_live)
        kept = None
        if isinstance(self.route.duplicate_reply, ReplayReply):
            try:
                kept = await self._shared.replies.recall(event.key)
            except StoreAway as away:
                self._notes.reply_lost(event, str(away))
        return Duplicate(self.route.duplicate_reply, kept)

    def _mirror(self, event: Event, answer: Answer) -> Answer:
        """The result of another delivery's flight, as this delivery's own."""
        match answer:
            case Answered(reply) if reply.status in self.route.status.success:
                self._notes.concurrent(event)
                return Answered(reply, Verdict.DUPLICATE)
            case Answered(reply):
                return Answered(reply, Verdict.BUSY)
            case Unanswered(_, timed_out, sent):
                return Unanswered(Verdict.BUSY, timed_out, sent)
            case Duplicate():
                self._notes.concurrent(event)
                return answer
            case Busy() | Rejected():
                return answer
            case _:
                assert_never(answer)

    async def _without_store(self, event: Event) -> Answer:
        route = self.route
        if route.on_store_down is OnStoreDown.REFUSE:
            why = "the dedup store is away; send this again later"
            return Rejected(Reason.STORE_AWAY, 503, why, RETRY_AFTER)
        marks = Marks(event.key.event_id, 1, possible_duplicate=True)
        result = await self._sender.send(event.delivery, marks)
        if isinstance(result, Delivered):
            self._notes.accepted(event, None)
            complete = event.ending(route, Ending.COMPLETE)
            self._shared.recorder.record_later(complete, float("inf"))
        return answer_to(result, Verdict.BYPASSED)


def ending_of(result: Outcome) -> Ending:
    """What an outcome does to the claim of its holder."""
    match result:
        case Delivered():
            return Ending.COMPLETE
        case Refused(doubtful=True) | Ambiguous():
            return Ending.RELEASE_DOUBTFUL
        case Refused() | Unreached():
            return Ending.RELEASE
        case _:
            assert_never(result)
