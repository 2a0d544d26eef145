"""Providers that send each event again and again until they are told a 2xx, through every crash."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

from tests.rig import history, sender
from tests.rig.consumer import OK, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

# Real ones wait for minutes. Long enough for a crash to be over sometimes, and sometimes not; each
# try adds as much, so that many of them leave a gateway its time.
PAUSE, LONGEST_PAUSE = 0.05, 1.0
# What no gateway answers: it acknowledges in its own words.
CONSUMERS_OWN = OK.body

Mood = tuple[Says, ...]
"""What the consumer does with one event, delivery by delivery."""
SLOW = Says(delay=0.25)
MOODS: Sequence[Mood] = (
    (OK,),
    (SLOW,),
    (Says(status=500), OK),
    (Says(acts="before", hangs_up="unanswered"), OK),
    (Says(status=500, acts="before", delay=0.15), SLOW),
    (Says(acts="before", delay=0.25),),
)


class Providers:
    """One for each event. They try the gateways in turn; while there are none they wait."""

    def __init__(self, world: World, path: str = "/hooks/orders") -> None:
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.answered: dict[str, float] = {}
        """Monotonic seconds when the consumer's own 2xx had come back."""
        self._world = world
        self._path = path
        self._gateways: Sequence[Gateway] = ()
        self._turn = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []

    def use(self, *gateways: Gateway) -> None:
        """The gateways that can be reached from now on."""
        self._gateways = gateways

    def send(self, *events: str) -> None:
        """Begins; says nothing about when they are done."""
        self.sent += events
        self._tasks += [asyncio.create_task(self._insist(event)) for event in events]

    def send_moody(self, stem: str, *moods: Mood) -> None:
        """The same for a fresh event for each mood of the consumer."""
        events = [fresh(stem) for _ in moods]
        for event, mood in zip(events, moods, strict=True):
            self._world.consumer.script(event, *mood)
        self.send(*events)

    async def satisfied(self, *, within: float) -> None:
        """Waits until each of them has its 2xx."""
        try:
            async with asyncio.timeout(within):
                await asyncio.gather(*self._tasks)
        except TimeoutError:
            waiting = set(self.sent) - self.acknowledged
            raise AssertionError(f"not acknowledged within {within} s: {waiting}") from None

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stories(self) -> list[history.Story]:
        """All that is known of each event."""
        ends = await self._world.database.ends()
        return [
            history.Story(
                event,
                event in self.acknowledged,
                self.answered.get(event),
                *history.seen_by(self._world.consumer, event),
                *ends.get(event, (None, None)),
            )
            for event in self.sent
        ]

    async def _insist(self, event: str) -> None:
        for tries in itertools.count(1):
            if self._gateways:
                gateway = self._gateways[next(self._turn) % len(self._gateways)]
                reply = await gateway.attempt(sender.event(event, self._path), within=10)
                if reply is not None and reply.is_success:
                    if reply.body == CONSUMERS_OWN:
                        self.answered[event] = time.monotonic()
                    self.acknowledged.add(event)
                    return
            await asyncio.sleep(min(tries * PAUSE, LONGEST_PAUSE))


async def nothing_owed(world: World, *, within: float) -> None:
    """Waits until no entry is undelivered and no claim undecided."""

    async def settled() -> bool:
        return not await world.database.owes()

    await eventually(settled, within=within, what="everything stored is delivered")
