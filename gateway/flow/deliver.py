"""Delivering what the inbox owes: entries are leased, sent and concluded.

    fresh     the process that stores an event sends it at once, if the route has a slot free
    leased    everything else: looked for every second, and whenever a slot becomes free

A lease is committed before anything is sent. As many entries are leased as there are slots, and
fewer where their bodies are large, so none waits in memory under a lease that runs; every second
lease begins with the newest, so a fresh event never waits for a backlog. A consumer that is down is
asked now and then (`core/breaker.py`).

What was acknowledged stays owed: an attempt ends in a conclusion, and a worker that dies leaves a
lease behind, whose next holder sends marked.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from gateway.core import retry
from gateway.core.breaker import Breaker
from gateway.core.claim import StoreAway
from gateway.core.inbox import Conclusion, EntryEnding, Leased
from gateway.core.outcome import Ambiguous, Delivered, Outcome
from gateway.core.retry import Next
from gateway.core.route import Route
from gateway.flow.doubt import Doubt, Step
from gateway.flow.events import Event
from gateway.flow.forward import Sender
from gateway.flow.notes import IN_DOUBT, OLDER, Notes
from gateway.flow.shared import Shared

_CUT_OFF = Ambiguous("broken_off")  # what a cancelled forward leaves behind


class Deliverer:
    """One route's entries on their way to its consumer."""

    def __init__(
        self,
        route: Route,
        sender: Sender,
        doubt: Doubt,
        notes: Notes,
        shared: Shared,
        *,
        slots: int,
    ) -> None:
        self.route = route
        self._sender = sender
        self._doubt = doubt
        self._notes = notes
        self._shared = shared
        self._clock = shared.clock
        self._bodies = shared.bodies
        self._breaker = Breaker()
        self._slots = self._free = slots
        self._beside = 0
        self._leasing = False
        self._more = False
        self._newest = True
        self._stopped = False
        self.retired = False
        """Its route is not configured any more: what is stored for it now, nobody delivers."""

    @property
    def busy(self) -> int:
        """Entries under way: slots that are taken, and what goes on beside them."""
        return self._slots - self._free + self._beside

    @property
    def breaker_open(self) -> bool:
        """Whether the consumer counts as down."""
        return self._breaker.is_open

    def take(self, size: int) -> bool:
        """A slot for an event that is about to be stored; False where it has to wait its turn.

        `size`: of its body, in bytes.
        """
        if self._stopped or self._breaker.is_open or self._free <= 0:
            return False
        if self.busy and not self._bodies.has_room(size):
            return False
        self._free -= 1
        self._bodies.take(size)
        return True

    def give_back(self, size: int) -> None:
        """The slot is free again, and the body gone."""
        self._free += 1
        self._bodies.give_back(size)
        if self._more:
            self.wake()

    def start(self, event: Event, leased: Leased, lease_end: float) -> None:
        """Send one entry, in a slot that was taken for it. `lease_end`: monotonic seconds."""
        self._shared.spawn(self._carry(event, leased, lease_end, probe=False))

    def begun_beside(self, size: int) -> None:
        """A forward became an entry while it was under way: its end is waited for like others'."""
        self._beside += 1
        self._bodies.take(size)

    def ended_beside(self, size: int) -> None:
        """It has ended."""
        self._beside -= 1
        self._bodies.give_back(size)

    def wake(self) -> None:
        """There may be entries that are due."""
        self._more = True
        if not self._leasing and self._room():
            self._leasing = True
            self._shared.spawn(self._lease())

    def stop(self) -> None:
        """Lease and take nothing more; what is under way ends."""
        self._stopped = True

    def retire(self) -> None:
        """The same, and nothing new is to be stored."""
        self.stop()
        self.retired = True

    async def conclude(
        self, event: Event, leased: Leased, result: Outcome, began: float, lease_end: float
    ) -> None:
        """End an attempt by what came of it. `began`: when the entry was leased, or stored."""
        if isinstance(result, Delivered):
            self._notes.accepted(event, leased.attempt, doubtful=leased.doubtful)
        await self._end(leased, self._after(leased, result, began), lease_end)

    async def concluded(self, leased: Leased, result: Outcome) -> bool:
        """The same for an entry that there may not be; whether there is one, as far as we know."""
        conclusion = _conclusion(leased, self._after(leased, result, self._clock()))
        try:
            settled = await self._shared.inbox.conclude(conclusion)
        except StoreAway:
            return False
        if settled.changed:
            self._notes.concluded(conclusion)
        return settled.changed

    def _after(self, leased: Leased, result: Outcome, began: float) -> Next:
        age = leased.age + self._clock() - began
        jitter = self._shared.jitter()
        return retry.after(result, leased.attempt, age, self.route.retry, jitter)

    def _room(self) -> int:
        if self._stopped:
            return 0
        room = self._breaker.room(self._free, self._clock())
        if self._bodies.has_room():
            return room
        return 0 if self.busy else min(room, 1)

    async def _lease(self) -> None:
        try:
            while self._more and (room := self._room()) > 0:
                self._more = False  # what is stored from now on may not be among them
                if await self._lease_some(room) > 0:
                    self._more = True
        except StoreAway:
            pass  # whoever looks for what is due will find it again
        finally:
            self._leasing = False

    async def _lease_some(self, room: int) -> int:
        shared, seconds = self._shared, self.route.lease
        began, taken = self._clock(), 0
        self._free -= room
        try:
            # While the consumer is down each probe takes another entry: the one due for longest.
            self._newest = not self._newest and not self._breaker.is_open
            entries = await shared.inbox.lease(
                self.route.name, room, shared.dice(), seconds, newest=self._newest
            )
            if entries:
                shared.at("after_lease")
            for leased in entries:
                taken += 1
                self._bodies.take(len(leased.delivery.body))
                probe = self._breaker.begun()
                event = self._notes.stored(leased)
                if leased.took_over:
                    self._notes.lapsed(event, leased.attempt)
                shared.spawn(self._carry(event, leased, began + seconds, probe=probe))
                if leased.items:  # 10,000 take a tenth of a second to read, and others wait
                    await asyncio.sleep(0)
        finally:
            self._free += room - taken
        return taken

    async def _carry(self, event: Event, leased: Leased, lease_end: float, *, probe: bool) -> None:
        try:
            await self._attempt(event, leased, lease_end, probe=probe)
        finally:
            if probe:
                self._breaker.ended()
            self.give_back(len(event.delivery.body))

    async def _attempt(
        self, event: Event, leased: Leased, lease_end: float, *, probe: bool
    ) -> None:
        began = self._clock()
        held: Next | None = Next(EntryEnding.HAND_BACK, False, self.route.retry.base, "not begun")
        try:
            held = await self._held_back(event, leased)
        finally:
            if held is not None:
                await self._end(leased, held, lease_end)
        if held is not None:
            return
        result: Outcome = _CUT_OFF
        try:
            result = await self._send(event, leased, lease_end, probe=probe)
        finally:
            await self.conclude(event, leased, result, began, lease_end)

    async def _held_back(self, event: Event, leased: Leased) -> Next | None:
        """What doubt and earlier workers' deaths make of an entry; None where it may be sent."""
        if leased.by_order:
            return None
        stale = self._is_stale(event, leased)
        step = await self._doubt.step(
            event, leased.attempt, doubtful=leased.doubtful, stale=stale, age=leased.age
        )
        match step:
            case Step.SEND:
                return self._after_a_death(leased) if leased.took_over else None
            case Step.HOLD:
                why = OLDER if stale and self._doubt.holds_stale else IN_DOUBT
                return Next(EntryEnding.HOLD, stale, 0.0, why)
            case Step.KNOWN:
                return Next(EntryEnding.DELIVER, False, 0.0, "known to the consumer")
            case Step.UNKNOWN:
                wait = retry.pause(leased.attempt, self.route.retry, self._shared.jitter())
                return Next(EntryEnding.HAND_BACK, False, wait, "the probe did not say")
            case _:
                assert_never(step)

    def _after_a_death(self, leased: Leased) -> Next | None:
        route, jitter = self.route, self._shared.jitter()
        return retry.after_a_death(leased.attempt, leased.age, route.lease, route.retry, jitter)

    def _is_stale(self, event: Event, leased: Leased) -> bool:
        """Older than our memory when it was stored; since then it has a claim of its own."""
        return self._notes.looks_stale(event, leased.now - leased.age)

    async def _send(
        self, event: Event, leased: Leased, lease_end: float, *, probe: bool
    ) -> Outcome:
        doubtful = leased.doubtful or self._is_stale(event, leased)
        marks = self._sender.marks(event.key, leased.attempt, doubtful=doubtful)
        # Never begin what could outlast the lease: from then on another may hold it.
        send_before = lease_end - self.route.upstream.timeout
        result = await self._sender.send(event.delivery, marks, send_before)
        self._breaker.told(result, self._clock(), probe=probe)
        return result

    async def _end(self, leased: Leased, after: Next, lease_end: float) -> None:
        conclusion = _conclusion(leased, after)
        pending = await self._shared.recorder.record(
            conclusion, lease_end, partial(self._ended, conclusion)
        )
        if pending is None:
            self._shared.at("after_conclude")

    def _ended(self, conclusion: Conclusion) -> None:
        self._notes.concluded(conclusion)
        if conclusion.ending not in (EntryEnding.RETRY, EntryEnding.HAND_BACK):
            self._shared.room.ended(self.route.name)


def _conclusion(leased: Leased, after: Next) -> Conclusion:
    return Conclusion(
        leased.key, leased.route, leased.token, leased.fingerprint,
        after.ending, after.doubtful, after.pause, after.why, leased.items,
    )  # fmt: skip
