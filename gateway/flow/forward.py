"""One route's way to its consumer: what leaves us, and what came of it."""

from __future__ import annotations

from typing import assert_never

from gateway.core import headers, outcome
from gateway.core.addressing import rewritten
from gateway.core.answer import Answer, Answered, Unanswered, Verdict
from gateway.core.claim import Ending
from gateway.core.event import Delivery, EventKey
from gateway.core.headers import Marks, Networks
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused, Unreached
from gateway.core.route import Mode, Route
from gateway.core.signature import VERIFIED
from gateway.flow.needs import Clock, Consumer, Counts, Signer
from gateway.flow.reach import Reach


class Sender:
    """Forwards deliveries of one route and counts what became of them.

    With a `signer`, each that was checked is signed anew: it may be late, or a part of what came.
    `epoch`: seconds since then, on this machine's clock.
    """

    def __init__(
        self,
        route: Route,
        consumer: Consumer,
        trusted: Networks,
        counts: Counts,
        clock: Clock,
        reach: Reach,
        signer: Signer | None,
        epoch: Clock,
    ) -> None:
        self._route = route
        self._consumer = consumer
        self._trusted = trusted
        self._counts = counts
        self._clock = clock
        self._reach = reach
        self._signer = signer
        self._epoch = epoch
        upstream = route.upstream
        self._host = None if upstream.host_header is None else upstream.host_header.encode()
        self._authority = upstream.authority.encode()
        self._slow = patience(route)
        # Of an id that is not what the key is made of, none says what may happen once.
        recipe = route.recipe
        self._parts = 0 if recipe.operation or route.batch is not None else len(recipe.parts)

    def marks(self, key: EventKey, attempt: int, *, doubtful: bool) -> Marks:
        """What a forward of an event says about itself."""
        idempotency_key = None
        if self._route.idempotency_key:
            idempotency_key = headers.idempotency_key(key, self._parts)
        return Marks(key.event_id, attempt, doubtful, idempotency_key)

    async def send(
        self, delivery: Delivery, marks: Marks | None = None, send_before: float | None = None
    ) -> Outcome:
        """One forward. `send_before`: monotonic seconds, see `Consumer.send`."""
        if delivery.headers and delivery.headers[-1] == VERIFIED:
            delivery = self._signed(delivery._replace(headers=delivery.headers[:-1]))
        lines = headers.outbound(
            delivery,
            host=self._host,
            upstream_host=self._authority,
            trusted=self._trusted,
            marks=marks,
            forwarding=self._route.mode is not Mode.OBSERVE,
        )
        started = self._clock()
        result = await self._consumer.send(
            delivery.method,
            rewritten(delivery.target, self._route),
            lines,
            delivery.body,
            send_before=send_before,
        )
        seconds = self._clock() - started
        self._counts.forward(
            self._route.name, outcome.name_of(result), seconds, slow=seconds > self._slow
        )
        self._reach.told(result)
        return result

    def _signed(self, delivery: Delivery) -> Delivery:
        # A reload may have ended it since the delivery was stored.
        return delivery if self._signer is None else self._signer.sign(delivery, self._epoch())


def patience(route: Route) -> float:
    """Seconds that the provider waits for a forward; endless where it is answered before that."""
    promise, after = route.promise, route.acknowledge_after
    if promise is None or promise.timeout is None or route.mode is Mode.INBOX:
        return float("inf")
    timeout = promise.timeout.total_seconds()
    return timeout if after is None or after >= timeout else float("inf")


def answer_to(result: Outcome, verdict: Verdict, *, visible: bool = True) -> Answer:
    """What the provider is told after a forward."""
    match result:
        case Delivered(reply) | Refused(reply):
            return Answered(reply, verdict, visible)
        case Unreached(timed_out=timed_out):
            return Unanswered(verdict, timed_out, sent=False, visible=visible)
        case Ambiguous(timed_out=timed_out):
            return Unanswered(verdict, timed_out, sent=True, visible=visible)


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
