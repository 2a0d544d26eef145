"""Receiving in observe mode: the same claims, and nothing that a provider or a consumer could
notice.

Everything is forwarded, at most a quarter of a second late when the store is away; nothing is
answered by us, no header is added, no delivery waits for another. The claims are those of forward
mode, so switching over is a reload that keeps the memory. Without a won claim only success is
settled.
"""

from __future__ import annotations

from typing import assert_never

from gateway.core.answer import Answer, Verdict
from gateway.core.claim import Arrival, Ask, Held, Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.outcome import Ambiguous, Delivered, Outcome
from gateway.core.route import Route
from gateway.flow.forward import Sender, answer_to, ending_of
from gateway.flow.notes import Event, Notes
from gateway.flow.shared import Shared

# An observer must be harmless: this is all the delay that an absent store may cause.
OBSERVE_WITHIN = 0.25


class ObserveRoute:
    """`mode: observe`: forward everything, learn who would have been a duplicate."""

    def __init__(self, route: Route, sender: Sender, notes: Notes, shared: Shared) -> None:
        self.route = route
        self.decisive = route.decisive
        self._sender = sender
        self._shared = shared
        self._notes = notes

    async def receive(self, delivery: Delivery) -> Answer:
        """Forward one delivery as it came, and count it once."""
        began = self._shared.clock()
        found = self._notes.read(delivery, self._shared.dice)
        if isinstance(found, Event):
            answer, event = await self._observed(found), found
        else:
            verdict = Verdict.PASSED if found is None else Verdict.UNKEYED
            answer, event = await self._through(delivery, verdict), None
        self._notes.told(answer, event, self._shared.clock() - began)
        return answer

    async def _through(self, delivery: Delivery, verdict: Verdict) -> Answer:
        return answer_to(await self._sender.send(delivery), verdict, visible=False)

    async def _observed(self, event: Event) -> Answer:
        lease_end = self._shared.clock() + self.route.lease
        arrival = await self._arrive(event)
        verdict = self._verdict(event, arrival)
        result: Outcome = Ambiguous("broken_off")  # what a cancelled forward leaves behind
        try:
            result = await self._sender.send(event.delivery)
        finally:
            self._settle(event, arrival, result, lease_end)
        return answer_to(result, verdict, visible=False)

    async def _arrive(self, event: Event) -> Arrival | StoreAway:
        route = self.route
        ask = Ask(event.key, route.name, event.token, route.lease, event.fingerprint)
        try:
            return await self._shared.claims.arrive(ask, within=OBSERVE_WITHIN)
        except StoreAway as away:
            return away

    def _verdict(self, event: Event, arrival: Arrival | StoreAway) -> Verdict:
        if isinstance(arrival, Seen | Held) and not arrival.same_body:
            self._notes.mismatch(event)
        match arrival:
            case StoreAway():
                return Verdict.BYPASSED
            case Won():
                self._notes.won(event, arrival)
                self._notes.is_stale(event, arrival.attempt, arrival.now)
                return Verdict.FIRST
            case Seen():
                self._notes.duplicate(event, arrival, met_live=False)
                return Verdict.DUPLICATE
            case Held():
                self._notes.concurrent(event)
                return Verdict.DUPLICATE
            case _:
                assert_never(arrival)

    def _settle(
        self, event: Event, arrival: Arrival | StoreAway, result: Outcome, lease_end: float
    ) -> None:
        """In the background: an observer does not delay the reply.

        Where the store's answer was lost, the claim may have been made all the same.
        """
        delivered = isinstance(result, Delivered)
        if delivered and isinstance(arrival, Won):
            self._notes.accepted(event, arrival.attempt, doubtful=arrival.doubtful)
        elif delivered and isinstance(arrival, StoreAway):  # a duplicate is no other event
            self._notes.accepted(event)
        ending = event.ending(self.route, ending_of(result))
        match arrival:
            case Won():
                self._shared.recorder.record_later(ending, lease_end)
            case Held() | StoreAway() | Seen(stored=True) if delivered:
                self._shared.recorder.record_later(ending, lease_end)
            case StoreAway(undecided=True):
                self._shared.recorder.withdraw(ending, lease_end=lease_end)
            case Seen() | Held() | StoreAway():
                pass  # durable already, or nothing of ours to end
            case _:
                assert_never(arrival)
