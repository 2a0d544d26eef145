"""The provider of the demo: at-least-once, as they all are."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import aiohttp

# The demo's clock runs faster than life: 2 s stand for the 5 to 30 s that providers wait.
TIMEOUT = 2.0
# Providers pause for minutes; the order of things is the same after a third of a second.
PAUSE = 0.3
# One delivery and two retries. A consumer that is always too slow would otherwise never be let go.
ATTEMPTS = 3


@dataclass(slots=True)
class Sent:
    """What one run of one shape has sent, and how it was answered."""

    deliveries: int = 0
    unanswered: int = 0
    """Deliveries that the provider gave up waiting for."""
    failed: list[str] = field(default_factory=list)
    """Events that no attempt got a 2xx for."""


class Provider:
    """Delivers events to one address."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def deliver(self, event_id: str, kind: str, sent: Sent) -> None:
        """Send an event until it is answered 2xx, or the attempts are spent."""
        for _ in range(ATTEMPTS):
            if await self._attempt(event_id, kind, sent):
                return
            await asyncio.sleep(PAUSE)
        sent.failed.append(event_id)

    async def _attempt(self, event_id: str, kind: str, sent: Sent) -> bool:
        sent.deliveries += 1
        body = json.dumps({"event_id": event_id, "type": kind})
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            ) as reply:
                await reply.read()
                return 200 <= reply.status < 300
        except TimeoutError:
            sent.unanswered += 1
            return False
        except aiohttp.ClientError:
            return False
