"""What keeps a world's notes, without a database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from gateway.core.claim import StoreAway
from gateway.core.observing import Count, Noted, What


class Notebook:
    """Totals by series; away while a test says so."""

    def __init__(self) -> None:
        self.away = False
        self.reply_lost = False
        self.pages: dict[tuple[int, Count], Noted] = {}
        self.old = 0
        self.forgot: list[int] = []
        self.asked = asyncio.Event()
        self.gates: list[asyncio.Event] = []
        """What the next calls wait for, one each."""

    async def note(self, series: int, noted: Sequence[Noted]) -> None:
        self.asked.set()
        if self.gates:
            await self.gates.pop(0).wait()
        if self.away:
            raise StoreAway("away")
        for one in noted:
            before = self.pages.get((series, one.counted))
            if before is None or before.number < one.number:
                self.pages[series, one.counted] = one
        if self.reply_lost:
            raise StoreAway("no reply in time", undecided=True)

    async def forget_notes(self, most: int) -> int:
        self.forgot.append(min(self.old, most))
        self.old -= self.forgot[-1]
        return self.forgot[-1]

    @property
    def sums(self) -> Counter[tuple[What, str]]:
        """What a report would read."""
        found: Counter[tuple[What, str]] = Counter()
        for (_, counted), noted in self.pages.items():
            found[counted.what, counted.detail] += noted.number
        return found

    def example(self, what: What) -> str | None:
        return next(
            (noted.example for (_, counted), noted in self.pages.items() if counted.what is what),
            None,
        )
