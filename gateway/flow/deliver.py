"""Delivering what the inbox owes: entries are leased, sent and concluded.

    fresh     the process that stores an event sends it at once, if the route has a slot free
    leased    everything else: looked for every second, and whenever a slot becomes free

A lease is committed before anything is sent. As many entries are leased as there are slots, so none
waits in memory under a lease that runs; every second lease begins with the newest, so a fresh event
never waits for a backlog. A consumer that is down is asked now and then (`core/breaker.py`).

What was acknowledged stays owed: an attempt ends in a conclusion, and a worker that dies leaves a
lease behind, whose next holder sends marked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import assert_never

from gateway.core import retry
from gateway.core.breaker import Breaker
from gateway.core.claim import StoreAway
from gateway.core.inbox import Conclusion, EntryEnding, Leased
from gateway.core.outcome import Delivered, Outcome
from gateway.core.retry import Next
from gateway.core.route import Route
from gateway.flow.doubt import Doubt, Step
from gateway.flow.forward import Sender
from gateway.flow.notes import IN_DOUBT, OLDER, Event, Notes
from gateway.flow.shared import Shared

# How late an entry may be noticed that another process stored or whose pause is over.
LOOK_EVERY = 1.0
# How late the end of the last entry may be noticed when the process stops.
IDLE_LOOKS = 0.02
_CUT_OFF = Next(EntryEnding.RETRY, doubtful=True, pause=0.0, why="cut off")


class Deliverer:
    """One route's entries on their way to its consumer."""

    def __init__(
        self, route: Route, sender: Sender, doubt: Doubt, notes: Notes, shared: Shared
    ) -> None:
        self.route = route
        self._sender = sender
        self._doubt = doubt
        self._notes = notes
        self._shared = shared
        self._clock = shared.clock
        self._breaker = Breaker()
        self._free = route.upstream.concurrency
        self._leasing = False
        self._more = False
        self._newest = True
        self._stopped = False

    @property
    def busy(self) -> int:
        """Slots that are taken."""
        return self.route.upstream.concurrency - self._free

    @property
    def breaker_open(self) -> bool:
        """Whether the consumer counts as down."""
        return self._breaker.is_open

    def take(self) -> bool:
        """A slot for an event that is about to be stored; False where it has to wait its turn."""
        if self._stopped or self._breaker.is_open or self._free <= 0:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        """A slot is free again."""
        self._free += 1
        self._breaker.ended()
        if self._more:
            self.wake()

    def start(self, event: Event, leased: Leased, lease_end: float) -> None:
        """Send one entry, in a slot that was taken for it. `lease_end`: monotonic seconds."""
        self._shared.spawn(self._carry(event, leased, lease_end))

    def wake(self) -> None:
        """There may be entries that are due."""
        self._more = True
        if not self._leasing and self._room():
            self._leasing = True
            self._shared.spawn(self._lease())

    def stop(self) -> None:
        """Lease and take nothing more; what is under way ends."""
        self._stopped = True

    async def conclude(
        self, event: Event, leased: Leased, result: Outcome, began: float, lease_end: float
    ) -> None:
        """End an attempt by what came of it. `began`: when the entry was leased, or stored."""
        if isinstance(result, Delivered):
            self._notes.accepted(event, leased.attempt, doubtful=leased.doubtful)
        await self._end(event, leased, self._after(leased, result, began), lease_end)

    async def concluded(self, event: Event, leased: Leased, result: Outcome) -> bool:
        """The same for an entry that there may not be; whether there is one, as far as we know."""
        after = self._after(leased, result, self._clock())
        try:
            settled = await self._shared.inbox.conclude(_conclusion(leased, after))
        except StoreAway:
            return False
        if settled.changed:
            self._notes.concluded(event, after)
        return settled.changed

    def _after(self, leased: Leased, result: Outcome, began: float) -> Next:
        age = leased.age + self._clock() - began
        jitter = self._shared.jitter()
        return retry.after(result, leased.attempt, age, self.route.retry, jitter)

    def _room(self) -> int:
        return 0 if self._stopped else self._breaker.room(self._free, self._clock())

    async def _lease(self) -> None:
        try:
            while (room := self._room()) > 0:
                if await self._lease_some(room) < room:
                    self._more = False
                    return
        except StoreAway:
            self._more = False  # whoever looks for what is due will find it again
        finally:
            self._leasing = False

    async def _lease_some(self, room: int) -> int:
        shared, seconds = self._shared, self.route.lease
        began, taken = self._clock(), 0
        self._free -= room
        try:
            self._newest = not self._newest
            entries = await shared.inbox.lease(
                self.route.name, room, shared.dice(), seconds, newest=self._newest
            )
            shared.at("after_lease")
            for leased in entries:
                taken += 1
                self._breaker.begun()
                event = self._notes.stored(leased)
                if leased.took_over:
                    self._notes.lapsed(event, leased.attempt)
                self.start(event, leased, began + seconds)
        finally:
            self._free += room - taken
        return taken

    async def _carry(self, event: Event, leased: Leased, lease_end: float) -> None:
        began = self._clock()
        try:
            after = await self._held_back(event, leased)
            if after is not None:
                await self._end(event, leased, after, lease_end)
                return
            result: Outcome | None = None
            try:
                result = await self._send(event, leased, lease_end)
            finally:
                if result is None:
                    await self._end(event, leased, _CUT_OFF, lease_end)
                else:
                    await self.conclude(event, leased, result, began, lease_end)
        finally:
            self.give_back()

    async def _held_back(self, event: Event, leased: Leased) -> Next | None:
        """What doubt makes of an entry; None where it may be sent."""
        stale = self._notes.is_stale(event, leased.attempt, leased.now)
        if leased.by_order:
            return None
        step = await self._doubt.step(
            event.key.event_id, doubtful=leased.doubtful, stale=stale, age=leased.age
        )
        match step:
            case Step.SEND:
                return None
            case Step.HOLD:
                why = OLDER if stale else IN_DOUBT
                return Next(EntryEnding.HOLD, stale, 0.0, why)
            case Step.KNOWN:
                return Next(EntryEnding.DELIVER, False, 0.0, "known to the consumer")
            case Step.UNKNOWN:
                wait = retry.pause(leased.attempt, self.route.retry, self._shared.jitter())
                return Next(EntryEnding.HAND_BACK, False, wait, "the probe did not say")
            case _:
                assert_never(step)

    async def _send(self, event: Event, leased: Leased, lease_end: float) -> Outcome:
        stale = self._notes.looks_stale(event, leased.now)
        marks = self._sender.marks(event.key, leased.attempt, doubtful=leased.doubtful or stale)
        # Never begin what could outlast the lease: from then on another may hold it.
        send_before = lease_end - self.route.upstream.timeout
        result = await self._sender.send(event.delivery, marks, send_before)
        self._breaker.told(result, self._clock())
        return result

    async def _end(self, event: Event, leased: Leased, after: Next, lease_end: float) -> None:
        self._notes.concluded(event, after)
        if after.ending not in (EntryEnding.RETRY, EntryEnding.HAND_BACK):
            self._shared.room.ended(self.route.name)
        conclusion = _conclusion(leased, after)
        if await self._shared.recorder.record(conclusion, lease_end) is None:
            self._shared.at("after_conclude")


def _conclusion(leased: Leased, after: Next) -> Conclusion:
    return Conclusion(
        leased.key, leased.route, leased.token, leased.fingerprint,
        after.ending, after.doubtful, after.pause, after.why,
    )  # fmt: skip


class Deliverers:
    """Those of all routes, and the look for what is due."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._by_route: dict[str, Deliverer] = {}
        self._replaced: list[Deliverer] = []

    def use(self, deliverers: Iterable[Deliverer]) -> None:
        """Those of the configuration in force; others lease nothing more."""
        before = list(self._by_route.values())
        self._by_route = {deliverer.route.name: deliverer for deliverer in deliverers}
        kept = set(map(id, self._by_route.values()))
        for old in before:
            if id(old) not in kept:
                old.stop()
                self._replaced.append(old)
        self._replaced = [old for old in self._replaced if old.busy]

    @property
    def busy(self) -> int:
        """Entries under way."""
        return sum(d.busy for d in (*self._by_route.values(), *self._replaced))

    def open_breakers(self) -> list[str]:
        """The routes whose consumer counts as down."""
        return [name for name, deliverer in self._by_route.items() if deliverer.breaker_open]

    def stop(self) -> None:
        """Lease nothing more."""
        for deliverer in self._by_route.values():
            deliverer.stop()

    async def wait_idle(self, within: float) -> bool:
        """Whether nothing is under way any more, waiting so many seconds for it."""
        end = self._shared.clock() + within
        while self.busy:
            if self._shared.clock() >= end:
                return False
            await asyncio.sleep(IDLE_LOOKS)
        return True

    async def look_once(self) -> frozenset[str]:
        """Wake the deliverers that have something to send; their names. Raises StoreAway."""
        due = await self._shared.inbox.due(tuple(self._by_route))
        for name in due:
            if (deliverer := self._by_route.get(name)) is not None:
                deliverer.wake()
        return due

    async def watch(self) -> None:
        """Forever."""
        while True:
            await asyncio.sleep(LOOK_EVERY * (0.5 + 0.5 * self._shared.jitter()))
            try:
                await self.look_once()
            except StoreAway:
                continue
