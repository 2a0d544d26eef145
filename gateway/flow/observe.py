"""Receiving in observe mode: the same claims, and nothing that a provider or a consumer could
notice.

Everything is forwarded, at most a quarter of a second late, whatever the store does; nothing is
answered by us, no header is added, no delivery waits for another. The claims are those of forward
mode, so switching over is a reload that keeps the memory. Without a won claim only success is
settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from gateway.core import batch
from gateway.core.answer import Answer, Greeted, Verdict
from gateway.core.claim import Arrival, Held, Seen, StoreAway, Won
from gateway.core.event import Delivery
from gateway.core.outcome import Ambiguous, Delivered, Outcome
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.flow.events import Event
from gateway.flow.forward import Sender, answer_to, ending_of
from gateway.flow.landing import Landing
from gateway.flow.notes import Notes
from gateway.flow.shared import Shared

# An observer must be harmless: this is all the delay that the store may cause. It takes longer over
# some thousand items of a batch, and may go on with them while the consumer has them already.
OBSERVE_WITHIN = 0.25

Met = Sequence[Arrival] | StoreAway


class ObserveRoute:
    """`mode: observe`: forward everything, learn who would have been a duplicate."""

    def __init__(self, route: Route, sender: Sender, notes: Notes, shared: Shared) -> None:
        self.route = route
        self.decisive = route.decisive
        self._sender = sender
        self._shared = shared
        self._notes = notes
        self._observer = shared.observations.of(route)

    async def receive(self, delivery: Delivery) -> Answer:
        """Forward one delivery as it came, and count it once."""
        began = self._shared.clock()
        found = self._notes.read(delivery, self._shared.dice)
        if isinstance(found, Event):
            landing = await self._observed(found)
        else:
            passed = found is None or isinstance(found, Greeted)
            verdict = Verdict.PASSED if passed else Verdict.UNKEYED
            landing = _landing(await self._sender.send(delivery), verdict)
            self._observer.keyless(None if isinstance(found, Greeted) else found)
        seconds = self._shared.clock() - began
        self._notes.told(landing.answer, found, seconds, landing.shape, landing.taken)
        return landing.answer

    async def _observed(self, event: Event) -> Landing:
        lease_end = self._shared.clock() + self.route.lease
        meeting = asyncio.ensure_future(self._meet(event))
        result: Outcome = Ambiguous("broken_off")  # what a cancelled forward leaves behind
        try:
            await asyncio.wait({meeting}, timeout=OBSERVE_WITHIN)
            result = await self._sender.send(event.delivery)
        finally:
            met = _so_far(meeting)
            judged = self._judge(event, met)
            self._settle(event, met, judged, result, lease_end)
            self._observer.saw(event, met, accepted=isinstance(result, Delivered))
        return _landing(result, judged.verdict)._replace(shape=judged.shape, taken=judged.new)

    async def _meet(self, event: Event) -> Met:
        claims, asks = self._shared.claims, event.asks(self.route)
        try:
            if event.items:
                return await claims.arrive_all(asks, within=OBSERVE_WITHIN)
            return [await claims.arrive(asks[0], within=OBSERVE_WITHIN)]
        except StoreAway as away:
            return away

    def _judge(self, event: Event, met: Met) -> _Judged:
        """What the delivery would have been told."""
        if isinstance(met, StoreAway):
            return _Judged(Verdict.BYPASSED, new=event)
        won = [one for one in met if isinstance(one, Won)]
        seen = [one for one in met if isinstance(one, Seen)]
        for one in met:
            if not isinstance(one, Won):
                self._notes.differs(event, one)
        if won:
            return self._won(event, met, batch.won_together(won))
        if event.batch is not None and event.batch.unkeyed:
            return _Judged(Verdict.UNKEYED)
        if len(seen) == len(met):
            together = batch.seen_together(seen)
            shape = self._notes.duplicate(event, together, met_live=False)
        else:
            is_same = all(one.same_event for one in met if isinstance(one, Held))
            shape = self._notes.concurrent(event, same_event=is_same)
        return _Judged(Verdict.DUPLICATE, shape)

    def _won(self, event: Event, met: Sequence[Arrival], won: Won) -> _Judged:
        new = event
        if event.items:
            pairs = zip(event.items, met, strict=True)
            new = event.of({item for item, one in pairs if isinstance(one, Won)})
        self._notes.won(new, won)
        self._notes.is_stale(new, won.attempt, won.now)
        return _Judged(Verdict.FIRST, None, new, won)

    def _settle(
        self,
        event: Event,
        met: Met,
        judged: _Judged,
        result: Outcome,
        lease_end: float,
    ) -> None:
        """In the background: an observer does not delay the reply.

        Where the store's answer was lost, the claim may have been made all the same.
        """
        delivered, won = isinstance(result, Delivered), judged.won
        if delivered and judged.new is not None:  # a duplicate is no other event
            attempt, doubtful = (1, False) if won is None else (won.attempt, won.doubtful)
            self._notes.accepted(judged.new, attempt, doubtful=doubtful)
        ending = event.ending(self.route, ending_of(result))
        if won is not None or (delivered and _is_undecided(met)):
            self._shared.recorder.record_later(ending, lease_end)
        elif isinstance(met, StoreAway) and met.undecided:
            self._shared.recorder.withdraw(ending, lease_end=lease_end)


class _Judged(NamedTuple):
    verdict: Verdict
    shape: Shape | None = None
    new: Event | None = None
    """What nobody is known to have brought before."""
    won: Won | None = None


def _landing(result: Outcome, verdict: Verdict) -> Landing:
    return Landing(answer_to(result, verdict, visible=False))


def _so_far(meeting: asyncio.Future[Met]) -> Met:
    """What the store has said by the time of the reply, which does not wait for it either."""
    if meeting.done():
        return meeting.result()
    meeting.cancel()
    return StoreAway("no answer before the consumer's", undecided=True)


def _is_undecided(met: Met) -> bool:
    """Whether something of it is not known to be completed."""
    if isinstance(met, StoreAway):
        return True
    return any(isinstance(one, Held) or (isinstance(one, Seen) and one.stored) for one in met)
