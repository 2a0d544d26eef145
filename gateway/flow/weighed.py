"""Weighing: a batch that is too much beside those in hand is refused before it is read.

It is weighed roughly, without parsing it. In `observe`, which refuses nothing, it is forwarded at
once, and nothing is learned of it.
"""

from __future__ import annotations

from gateway.core import batch
from gateway.core.answer import Answer, Reason, Rejected, Verdict
from gateway.core.event import Delivery
from gateway.core.keying import Reading
from gateway.core.route import Mode
from gateway.flow.accept import InboxRoute
from gateway.flow.forward import Sender, answer_to
from gateway.flow.load import MOST_OF_A_ROUTE
from gateway.flow.notes import Notes
from gateway.flow.observe import ObserveRoute
from gateway.flow.receive import ForwardRoute
from gateway.flow.shared import RETRY_AFTER, Shared

CROWDED = Rejected(
    Reason.OVERLOADED, 503, "there is no room for one more batch of this size", RETRY_AFTER
)


class Weighed:
    """Stands before the receiver of a route with batches."""

    def __init__(
        self,
        receiver: ForwardRoute | InboxRoute | ObserveRoute,
        sender: Sender,
        notes: Notes,
        shared: Shared,
    ) -> None:
        self.route = receiver.route
        self.decisive = receiver.decisive
        self._receiver = receiver
        self._sender = sender
        self._notes = notes
        self._clock = shared.clock
        self._load = shared.load
        self._observer = shared.observations.of(receiver.route)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        items = self._weigh(delivery)
        if not self._load.take(self.route.name, items):
            return await self._turn_away(delivery)
        try:
            await self._load.turn(items)
            return await self._receiver.receive(delivery)
        finally:
            self._load.give_back(self.route.name, items)

    def _weigh(self, delivery: Delivery) -> int:
        if delivery.method not in self.route.methods:
            return 0
        # One that is too large for any load has nobody beside it, and leaves others their share.
        return min(batch.weight(Reading(delivery).json_body()), MOST_OF_A_ROUTE)

    async def _turn_away(self, delivery: Delivery) -> Answer:
        began = self._clock()
        answer: Answer = CROWDED
        if self.route.mode is Mode.OBSERVE:
            self._observer.bypassed()
            result = await self._sender.send(delivery)
            answer = answer_to(result, Verdict.BYPASSED, visible=False)
        self._notes.told(answer, None, self._clock() - began)
        return answer
