"""A sample consumer: a shop that ships one order per request, and counts honestly what it did.

It stands for the endpoint that nobody may change: it has no memory of past events, and a sender
that hangs up does not stop it. An *effect* is a parcel that has left, so it counts when the work is
over, not when the request came.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping

from aiohttp import web


class SampleConsumer:
    """Answers every POST with 200, and GET /stats with its counts.

    `work`: seconds that an event takes, by its `type`; other types take no time.
    """

    def __init__(self, work: Mapping[str, float]) -> None:
        self.effects: Counter[str] = Counter()
        """How often each event id had its effect."""
        self.marked = 0
        """Effects of requests that the gateway had marked as a possible double."""
        self._requests = 0
        self._working = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._work = work
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError where the address is taken."""
        app = web.Application()
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/{path:.*}", self._ship)
        # Said aloud: an endpoint goes on with its work when the sender has left.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=False)
        await runner.setup()
        self._runner = runner
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
        except OSError:
            await self.stop()
            raise
        bound: int = runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Close the listener and what is still connected to it."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def at_rest(self) -> None:
        """Wait until no request is being worked on, those of senders that have left included."""
        await self._idle.wait()

    def stats(self) -> dict[str, int]:
        """The counts as GET /stats shows them."""
        return {
            "requests": self._requests,
            "events": len(self.effects),
            "effects": self.effects.total(),
            "events_with_two_effects_or_more": sum(n > 1 for n in self.effects.values()),
            "marked_effects": self.marked,
        }

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response(self.stats())

    async def _ship(self, request: web.Request) -> web.Response:
        self._requests += 1
        self._working += 1
        self._idle.clear()
        try:
            order = _order(await request.read())
            if order is None:
                return web.json_response({"error": "no event_id in the body"}, status=400)
            event_id, kind = order
            await asyncio.sleep(self._work.get(kind, 0.0))
            self.effects[event_id] += 1
            self.marked += "Dedup-Possible-Duplicate" in request.headers
            return web.json_response({"shipped": event_id, "parcels": self.effects[event_id]})
        finally:
            self._working -= 1
            if self._working == 0:
                self._idle.set()


def _order(body: bytes) -> tuple[str, str] | None:
    """Event id and type, or None where the body names no event."""
    try:
        order = json.loads(body)
    except ValueError:
        return None
    if not isinstance(order, dict) or "event_id" not in order:
        return None
    return str(order["event_id"]), str(order.get("type", ""))
