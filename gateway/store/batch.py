"""Client-side group commit: calls are made one by one and leave as batches.

A batch is collected on the next turn of the event loop, so calls of one turn share it, and calls
that come while all lanes are busy share the next one: batches grow with the load, and nobody waits
for a timer. Calls with one key form a *group* and travel together; a statement sees each key once.

What a batch promises about its neighbours:

* A statement that the server refuses because of one element is cut in halves until the culprit is
  alone. A culprit behind a lock then waits in a lane of its own, out of everybody's way.
* A lane whose connection hangs is only one of several. Every call fails at its own deadline,
  wherever it is, and says whether something of it may still take effect.
* A heavy one travels apart, too.
* What is safe to repeat is repeated while a caller still waits: `send` must be idempotent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any, Generic, NamedTuple, TypeVar

from gateway.core.claim import StoreAway
from gateway.store.session import Aborted, Lost, NoSession, Remedy, pause

Item = TypeVar("Item")
Result = TypeVar("Result")

# More keys than this do not get cheaper by the key, and a refused batch takes longer to cut up.
LARGEST = 512
# Bytes that travel together: a tenth of a second's worth on a busy machine of two cores, or less.
# What is larger by itself would have everybody wait, and goes where the locked rows go.
HEAVIEST = 4 * 1024 * 1024
LANES = 2
# How precisely a deadline is kept while calls wait, in seconds. One timer for all of them, since
# one for each call would cost more than its share of the statement.
TICK = 0.05
# lock_timeout of a statement with many keys. Others' locks last for one commit, some milliseconds.
TOGETHER = "100ms"
# While a batch is cut up, nine times for a full one; its neighbours wait all the while.
CUT_UP = "25ms"
# A key that is known to be locked, on its own.
ALONE = "250ms"
# Calls that wait for a locked row beyond this number fail at once.
MOST_ALONE = 256


class Call(Generic[Item, Result]):
    """One caller's item, and what it waits for."""

    __slots__ = ("deadline", "future", "item", "key", "lost", "out", "seen", "took")

    def __init__(
        self, key: bytes, item: Item, deadline: float, future: asyncio.Future[Result]
    ) -> None:
        self.key = key
        self.item = item
        self.deadline = deadline
        self.future = future
        self.out = False
        """It is with the server right now."""
        self.lost = False
        """An earlier try got no reply and may still take effect."""
        self.seen: tuple[int, bytes] | None = None
        """Attempt and state of the open row that it may take over."""
        self.took = False
        """A take-over got no reply: it must not be sent again."""

    def tell(self, result: Result) -> None:
        """Answer the caller, unless it is gone."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, why: str) -> None:
        """Tell the caller that it stays undecided, or that nothing happened."""
        if not self.future.done():
            self.future.set_exception(StoreAway(why, undecided=self.out or self.lost))


Group = list[Call[Item, Result]]


class Trip(NamedTuple):
    """A batch on its way."""

    groups: list[Group[Any, Any]]
    began: float


Send = Callable[[list[Group[Item, Result]], str], Awaitable[None]]
"""Runs statements for groups sorted by key, under a lock_timeout, and tells every call.

Raises NoSession, Lost or Aborted: the calls that were not told are tried again as that demands.
"""


class Batch(Generic[Item, Result]):
    """Concurrent calls of one kind. Made inside the loop that it runs in."""

    def __init__(
        self,
        send: Send[Item, Result],
        clock: Callable[[], float],
        *,
        lanes: int = LANES,
        largest: int = LARGEST,
        apart: Batch[Item, Result] | None = None,
        weigh: Callable[[Item], int] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._clock = clock
        self._free = lanes
        self._weigh = weigh
        self._apart = apart
        self._largest = largest if apart else 1
        self._wait = TOGETHER if apart else ALONE
        self._queue: deque[Call[Item, Result]] = deque()
        self._flying: dict[asyncio.Task[None], Trip] = {}
        self._collecting = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def call(self, key: bytes, item: Item, within: float) -> asyncio.Future[Result]:
        """Queue one item. The future raises StoreAway after `within` seconds at the latest."""
        if self._weigh and self._apart and self._weigh(item) > HEAVIEST:
            return self._apart.call(key, item, within)
        future: asyncio.Future[Result] = self._loop.create_future()
        call = Call(key, item, self._clock() + within, future)
        if self._closed:
            call.fail("the store is closed")
            return future
        self._queue.append(call)
        self._wake()
        return future

    def adopt(self, group: Group[Item, Result]) -> None:
        """Take over calls that another batch could not bring home."""
        if self._closed or len(self._queue) >= MOST_ALONE:
            for call in group:
                call.fail("its row is locked")
            return
        self._queue.extend(group)
        self._wake()

    async def insist(
        self, groups: list[Group[Item, Result]], send: Send[Item, Result], wait: str
    ) -> None:
        """Run `send` until every call is told, has failed or is not waited for any more."""
        pending = [(groups, wait)]
        while pending:
            part, wait = pending.pop()
            if not (part := unanswered(part)):
                continue
            try:
                await send(part, wait)
            except (NoSession, Lost, Aborted) as trouble:
                pending += self._after(trouble, part, wait)
                if not isinstance(trouble, Aborted) or trouble.remedy is Remedy.AGAIN:
                    await pause()

    async def close(self) -> None:
        """Fail what is still here; whoever wants it settled drains before."""
        self._closed = True
        if self._sweeper:
            self._sweeper.cancel()
        tasks = list(self._flying)
        for call in self._everybody():
            call.fail("the store is closed")
        self._queue.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._apart:
            await self._apart.close()

    def _after(
        self,
        trouble: NoSession | Lost | Aborted,
        part: list[Group[Item, Result]],
        wait: str,
    ) -> list[tuple[list[Group[Item, Result]], str]]:
        """What is still to do about groups that were not told."""
        for call in calls_of(part):
            call.out = False
            call.lost |= isinstance(trouble, Lost)
        if not isinstance(trouble, Aborted) or trouble.remedy is Remedy.AGAIN:
            return [(part, wait)]
        if trouble.remedy is Remedy.APART and len(part) > 1:
            half = len(part) // 2
            return [(part[half:], CUT_UP), (part[:half], CUT_UP)]
        if trouble.kind != "lock":
            for call in calls_of(part):
                call.fail(str(trouble))
        elif self._apart is None:
            return [(part, wait)]
        else:
            self._apart.adopt(part[0])
        return []

    def _wake(self) -> None:
        if self._free and not self._collecting:
            self._collecting = True
            self._loop.call_soon(self._collect)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(TICK, self._sweep)

    def _collect(self) -> None:
        self._collecting = False
        while self._is_worth_a_lane() and not self._closed:
            groups = self._gather()
            self._free -= 1
            task = self._loop.create_task(self._carry(groups))
            self._flying[task] = Trip(groups, self._clock())
            task.add_done_callback(self._landed)

    def _is_worth_a_lane(self) -> bool:
        """Whether to send now, or to let the batch grow until a lane comes home.

        A second statement beside a first is sent once it is as large as that one: sent at
        once it would carry one or two calls, and small statements cost the most by the call. But
        nobody waits for a lane that hangs: a statement that takes longer than a tick, as few do,
        is not waited for.
        """
        if not self._free or not self._queue:
            return False
        waiting, late = len(self._queue), self._clock() - TICK
        return all(
            waiting >= len(trip.groups) or trip.began < late for trip in self._flying.values()
        )

    def _gather(self) -> list[Group[Item, Result]]:
        """The next batch, sorted by key: statements that meet then wait in one order."""
        groups: dict[bytes, Group[Item, Result]] = {}
        queue, weigh, weight = self._queue, self._weigh, 0
        while queue and len(groups) < self._largest:
            if weigh:
                weight += weigh(queue[0].item)
                if groups and weight > HEAVIEST:
                    break
            call = queue.popleft()
            group = groups.get(call.key)
            if group is None:
                groups[call.key] = [call]
            else:
                group.append(call)
        return [groups[key] for key in sorted(groups)]

    async def _carry(self, groups: list[Group[Item, Result]]) -> None:
        with ExitStack() as broken:
            broken.callback(_break_off, groups)
            await self.insist(groups, self._send, self._wait)
            broken.pop_all()

    def _landed(self, task: asyncio.Task[None]) -> None:
        del self._flying[task]
        self._free += 1
        if self._queue and not self._closed:
            self._wake()

    def _everybody(self) -> Iterator[Call[Item, Result]]:
        yield from self._queue
        for trip in self._flying.values():
            yield from calls_of(trip.groups)

    def _sweep(self) -> None:
        """Fail the calls whose time is up; go on while there is anybody to look after."""
        now, waiting = self._clock(), False
        for call in self._everybody():
            if call.deadline <= now:
                call.fail("no answer in time")
            waiting = True
        if self._queue:
            self._wake()
        self._sweeper = self._loop.call_later(TICK, self._sweep) if waiting else None


def _break_off(groups: list[Group[Item, Result]]) -> None:
    for call in calls_of(unanswered(groups)):
        call.fail("the batch broke")


def calls_of(groups: list[Group[Item, Result]]) -> Iterator[Call[Item, Result]]:
    """All calls, in order."""
    return (call for group in groups for call in group)


def unanswered(groups: list[Group[Item, Result]]) -> list[Group[Item, Result]]:
    """The groups without the calls that were told, failed or left."""
    waiting: list[Group[Item, Result]] = []
    for group in groups:
        if len(group) > 1:
            group = [call for call in group if not call.future.done()]
        if group and not group[0].future.done():
            waiting.append(group)
    return waiting
