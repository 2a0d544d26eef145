"""Holding: what lies between winning a claim and ending it.

    doubt      an earlier attempt may have had its effect: send marked, hold, or ask the consumer
    forward    the holder checks its own deadline right before the first byte leaves
    late       `acknowledge_after`: the consumer is still at it, so the delivery is stored as an
               entry, leased under the claim's own token, and acknowledged; the forward goes on
    settle     completed or released, *then* the provider is answered

Between winning and settling nothing raises: an outcome is a value. A process that dies in between
leaves a lease, of the claim or of the entry, and whoever comes next takes over, marked.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from gateway.core.answer import Acknowledged, Busy, Duplicate, Verdict
from gateway.core.claim import Ending, StoreAway, Won
from gateway.core.inbox import EntryState, Leased, Offer
from gateway.core.outcome import Ambiguous, Delivered, Outcome
from gateway.core.route import Route
from gateway.flow.bypass import REFUSED
from gateway.flow.deliver import Deliverer
from gateway.flow.doubt import Doubt, Step
from gateway.flow.events import Event
from gateway.flow.flights import Told
from gateway.flow.forward import Sender, answer_to, ending_of
from gateway.flow.landing import Landing, told_of
from gateway.flow.notes import Notes
from gateway.flow.record import Pending
from gateway.flow.replays import Replays
from gateway.flow.shared import RETRY_AFTER, Shared

# How long storing may take before the forward is just waited for. Much longer, and the provider,
# whose time-out is why we store at all, is gone.
STORE_WITHIN = 1.0
_CUT_OFF = Ambiguous("broken_off")  # what a cancelled forward leaves behind


class Holder:
    """One route's way from a won claim to its end."""

    def __init__(
        self,
        route: Route,
        sender: Sender,
        doubt: Doubt,
        deliverer: Deliverer,
        notes: Notes,
        replays: Replays,
        shared: Shared,
    ) -> None:
        self._route = route
        self._sender = sender
        self._doubt = doubt
        self._deliverer = deliverer
        self._notes = notes
        self._replays = replays
        self._shared = shared
        self._clock = shared.clock

    async def forward(self, event: Event, won: Won, began: float, lease_end: float) -> Landing:
        """End the claim that was won. `began`: when the delivery came; both monotonic seconds."""
        self._shared.at("after_claim")
        self._notes.won(event, won)
        stale = self._notes.is_stale(event, won.attempt, won.now)
        if won.doubtful or stale:
            landing = await self._hesitate(event, won, lease_end, stale=stale)
            if landing is not None:
                return landing
        doubtful = won.doubtful or stale
        if self._route.acknowledge_after is None:
            return await self._send(event, won, lease_end, doubtful=doubtful)
        return await self._send_patiently(event, won, began, lease_end, doubtful=doubtful)

    async def _send(self, event: Event, won: Won, lease_end: float, *, doubtful: bool) -> Landing:
        result: Outcome = _CUT_OFF
        try:
            result = await self._forward(event, won, lease_end, doubtful=doubtful)
        finally:
            pending = await self._settle(event, won, result, lease_end)
        return _landing(result, won, pending)

    async def _send_patiently(
        self, event: Event, won: Won, began: float, lease_end: float, *, doubtful: bool
    ) -> Landing:
        """The same, until the consumer takes longer than the provider will wait."""
        result: Outcome = _CUT_OFF
        stored: bool | None = False
        sending = asyncio.ensure_future(self._forward(event, won, lease_end, doubtful=doubtful))
        try:
            if not await self._is_in_time(sending, began):
                offer = event.offer(self._route, EntryState.LEASED, doubtful=won.doubtful)
                stored = await self._store(offer)
            if stored:
                self._shared.at("after_store")
                self._shared.room.accepted(self._route.name)
                self._deliverer.begun_beside(len(event.delivery.body))
                self._shared.spawn(self._finish(sending, event, won, lease_end))
                return self._acknowledged(won)
            result = await asyncio.shield(sending)
        finally:
            if not stored:
                sending.cancel()  # of no effect once it has ended
                pending = await self._settle_either(event, won, result, lease_end, stored)
        return _landing(result, won, pending)

    async def _is_in_time(self, sending: asyncio.Future[Outcome], began: float) -> bool:
        left = began + (self._route.acknowledge_after or 0.0) - self._clock()
        done, _ = await asyncio.wait({sending}, timeout=max(left, 0.0))
        return bool(done)

    async def _store(self, offer: Offer) -> bool | None:
        """Whether our claim is an entry now; None where the store did not say."""
        if self._deliverer.retired:
            return False
        try:
            return await self._shared.inbox.store(offer, within=STORE_WITHIN)
        except StoreAway as away:
            return None if away.undecided else False

    async def _finish(
        self, sending: asyncio.Future[Outcome], event: Event, won: Won, lease_end: float
    ) -> None:
        """The rest of a forward whose delivery was acknowledged meanwhile."""
        result: Outcome = _CUT_OFF
        began, leased = self._clock(), _leased(event, won, self._route)
        try:
            result = await sending
            if isinstance(result, Delivered):
                await self._replays.keep(event, result.reply)
        finally:
            try:
                await self._deliverer.conclude(event, leased, result, began, lease_end)
            finally:
                self._deliverer.ended_beside(len(event.delivery.body))

    async def _hesitate(
        self, event: Event, won: Won, lease_end: float, *, stale: bool
    ) -> Landing | None:
        """What doubt makes of the claim; None where it may be sent."""
        age, step = won.now - won.first_seen, None
        try:
            step = await self._doubt.step(
                event, won.attempt, doubtful=won.doubtful, stale=stale, age=age
            )
        finally:
            if step is None:
                await self._release(event, lease_end)
        match step:
            case Step.SEND:
                return None
            case Step.HOLD:
                stale = stale and self._doubt.holds_stale
                return await self._hold(event, won, lease_end, stale=stale)
            case Step.KNOWN:
                return await self._known(event, won, lease_end)
            case Step.UNKNOWN:
                pending = await self._release(event, lease_end)
                busy = Busy(RETRY_AFTER)
                return Landing(busy, Told(busy, durable=False), pending)
            case _:
                assert_never(step)

    async def _hold(self, event: Event, won: Won, lease_end: float, *, stale: bool) -> Landing:
        offer = event.offer(self._route, EntryState.HELD, doubtful=stale or won.doubtful)
        if await self._store(offer):
            self._notes.held(event, stale=stale)
            return self._acknowledged(won)
        pending = await self._release(event, lease_end)  # of no effect if it was stored after all
        return Landing(REFUSED, Told(REFUSED, durable=False), pending)

    async def _known(self, event: Event, won: Won, lease_end: float) -> Landing:
        """The consumer has it: this delivery is a duplicate of the one that nobody recorded."""
        shape = self._notes.known(event, won.now - won.first_seen)
        ending = event.ending(self._route, Ending.COMPLETE)
        pending = await self._shared.recorder.record(ending, lease_end)
        since = self._replays.since(won.first_seen)
        answer = Duplicate(self._route.duplicate_reply, None, since)
        told = Told(answer, durable=True, first_seen=won.first_seen)
        return Landing(answer, told, pending, told, shape)

    def _acknowledged(self, won: Won) -> Landing:
        answer = Acknowledged(self._route.duplicate_reply)
        return Landing(answer, Told(answer, durable=True, first_seen=won.first_seen))

    async def _forward(
        self, event: Event, won: Won, lease_end: float, *, doubtful: bool
    ) -> Outcome:
        return await self._sender.send(
            event.delivery,
            self._sender.marks(event.key, won.attempt, doubtful=doubtful),
            # Never begin what could outlast the lease: from then on another may hold it.
            send_before=lease_end - self._route.upstream.timeout,
        )

    async def _release(self, event: Event, lease_end: float) -> Pending | None:
        ending = event.ending(self._route, Ending.RELEASE)
        return await self._shared.recorder.record(ending, lease_end)

    async def _settle(
        self, event: Event, won: Won, result: Outcome, lease_end: float
    ) -> Pending | None:
        if isinstance(result, Delivered):
            self._notes.accepted(event, won.attempt, doubtful=won.doubtful)
            if self._replays.wanted:
                await self._replays.keep(event, result.reply)
        ending = event.ending(self._route, ending_of(result))
        pending = await self._shared.recorder.record(ending, lease_end)
        if pending is None:
            self._shared.at("after_settle")
        return pending

    async def _settle_either(
        self, event: Event, won: Won, result: Outcome, lease_end: float, stored: bool | None
    ) -> Pending | None:
        """Where it is not known whether the claim is an entry, the entry is looked for first.

        A success needs no looking: it completes the claim and closes the entry, whatever there is.
        """
        if stored is None and not isinstance(result, Delivered):
            leased = _leased(event, won, self._route)
            if await self._deliverer.concluded(leased, result):
                return None
        return await self._settle(event, won, result, lease_end)


def _leased(event: Event, won: Won, route: Route) -> Leased:
    return Leased(
        event.key, route.name, event.token, won.attempt, won.doubtful, event.fingerprint,
        0.0, won.now, event.delivery, items=event.parts,
    )  # fmt: skip


def _landing(result: Outcome, won: Won, pending: Pending | None) -> Landing:
    durable = isinstance(result, Delivered)
    answer = answer_to(result, Verdict.FIRST)
    told = told_of(result, answer, durable=durable, first_seen=won.first_seen)
    return Landing(answer, told, pending, told if durable else None)
