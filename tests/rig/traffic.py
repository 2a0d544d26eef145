"""Traffic that goes on while something happens to the store."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from tests.rig import history, sender
from tests.rig.consumer import Consumer
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.sender import Reply
from tests.rig.world import fresh

PROVIDERS = 10
"""At each gateway."""
ENOUGH = 100


class Traffic:
    """Providers that send one event after another and never the same again, until `end`."""

    def __init__(self, gateways: Sequence[Gateway]) -> None:
        self.sent: list[str] = []
        self.told: dict[str, int | None] = {}
        """The status that each event's delivery got; None without an answer."""
        self._gateways = gateways
        self._goes_on = True
        self._providers = [
            asyncio.create_task(self._provide(one)) for one in gateways for _ in range(PROVIDERS)
        ]

    @property
    def acknowledged(self) -> list[str]:
        return [event for event, status in self.told.items() if status == 200]

    async def flows(self) -> None:
        """Waits for a hundred answers from now on."""
        goal = len(self.told) + ENOUGH
        await eventually(lambda: len(self.told) > goal, within=20, what="traffic")

    async def end(self) -> None:
        self._goes_on = False
        await asyncio.gather(*self._providers)

    async def again(self, consumer: Consumer) -> dict[str, Reply]:
        """Each event once more until it is decided: all succeed, none was lost or doubled."""
        turns = itertools.cycle(self._gateways)
        replies = await asyncio.gather(
            *(
                gateway.decided(sender.event(event))
                for event, gateway in zip(self.sent, turns, strict=False)
            )
        )
        assert {reply.status for reply in replies} == {200}
        history.check(consumer, acknowledged=self.sent, sent=self.sent)
        return dict(zip(self.sent, replies, strict=True))

    async def _provide(self, gateway: Gateway) -> None:
        while self._goes_on:
            event = fresh("traffic")
            self.sent.append(event)
            reply = await gateway.attempt(sender.event(event), within=10)
            self.told[event] = reply.status if reply else None
