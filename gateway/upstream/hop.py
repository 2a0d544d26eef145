"""The hop to one route's consumer: a request goes out at most once, and comes back as an outcome.

There is no second try after the first byte: not on a connection that turned out dead, not for
methods that are called idempotent. A connection found dead *before* the first byte costs nothing,
another one is taken.

    no byte left us                       Unreached
    bytes left, no complete reply head    Ambiguous
    a complete head                       what `judge` makes of it, even if the body then broke off

`connection.py` says what "left" means. Nothing is remembered from one exchange to the next but the
open connections; no cookies, no redirects, no decompression, no proxies from the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.core.event import RawHeaders
from gateway.core.outcome import Ambiguous, Outcome, Reply, StatusPolicy, Unreached, judge
from gateway.core.route import Upstream
from gateway.upstream.cause import Cause
from gateway.upstream.connection import Connection
from gateway.upstream.dial import Dialler, NotDialled
from gateway.upstream.slots import Slots
from gateway.upstream.wire import ReplyReader, request_head


class Hop:
    """Sends to one upstream, at most `upstream.concurrency` requests at a time.

    `clock`: monotonic seconds, for `send_before`. `at`: told `before_send`, `forwarding` (the
    whole request is written) and `after_answer` (the outcome is known). Raises OSError
    (ssl.SSLError is one) when a TLS file cannot be used.
    """

    def __init__(
        self,
        upstream: Upstream,
        policy: StatusPolicy,
        *,
        clock: Callable[[], float],
        at: Callable[[str], None],
    ) -> None:
        self._upstream = upstream
        self._policy = policy
        self._clock = clock
        self._at = at
        self._slots = Slots(upstream.concurrency)
        self._dialler = Dialler(upstream)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._keeps = True
        self._aborted = False

    def __repr__(self) -> str:
        return f"<Hop {self._upstream.authority} in_use={self.in_use} idle={self.idle}>"

    @property
    def in_use(self) -> int:
        """Slots taken: forwards under way, their dialling included."""
        return self._slots.in_use

    @property
    def idle(self) -> int:
        """Connections kept open for the next request."""
        return sum(connection.is_open() for connection in self._idle)

    @property
    def certificate_expires(self) -> float | None:
        """Epoch seconds: when the certificate last seen runs out. None when none was seen."""
        return self._dialler.certificate_expires

    async def send(
        self,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes,
        *,
        send_before: float | None,
    ) -> Outcome:
        """Send one request, complete headers given. Never raises for what the network does.

        `send_before`: on `clock`; past it nothing is sent any more (Unreached `lease_over`).
        Raises ValueError for a request that the consumer could read differently than we mean it.
        """
        head = request_head(method, target, headers, body)
        if not self._slots.take() and not await self._slots.wait(self._upstream.slot_timeout):
            return Unreached(Cause.NO_SLOT, timed_out=True)
        try:
            answer = await self._exchange(head, body, method == "HEAD", send_before)
        finally:
            self._slots.give_back()
        self._at("after_answer")
        return judge(answer, self._policy) if isinstance(answer, Reply) else answer

    async def abort(self) -> None:
        """Every forward under way ends now, and later ones are not begun.

        Whoever waits for a slot gets one of those that are given back by this, and sends nothing.
        """
        self._aborted = True
        self._dialler.stop()
        for connection in tuple(self._busy):
            connection.fail(Cause.SHUTTING_DOWN)
        await self.close()

    async def close(self) -> None:
        """Idle connections close now; what is under way ends by itself, and keeps none."""
        self._keeps = False
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # closing a transport takes one turn of the loop

    async def _exchange(
        self, head: bytes, body: bytes, bodiless: bool, send_before: float | None
    ) -> Reply | Ambiguous | Unreached:
        while True:
            # Last in, first out: the one used last is the least likely to have been closed.
            kept = self._idle.pop() if self._idle else None
            try:
                connection = kept or await self._dialled()
            except NotDialled as error:
                return error.outcome
            self._at("before_send")
            # Nothing awaits from here to the write: no check can be closer to the first byte.
            if send_before is not None and self._clock() > send_before:
                connection.close()
                return Unreached(Cause.LEASE_OVER)
            if self._aborted:
                connection.abort()
                return Unreached(Cause.SHUTTING_DOWN)
            if connection.is_open() if kept is None else connection.is_fit():
                break
            connection.abort()
            if kept is None:
                return Unreached(Cause.HUNG_UP)
        self._busy.add(connection)
        try:
            reader = ReplyReader(bodiless=bodiless, max_body=self._upstream.max_reply)
            return await connection.send(head, body, reader)
        finally:
            self._busy.discard(connection)
            self._keep(connection)

    async def _dialled(self) -> Connection:
        connection = Connection(self._upstream, self._at)
        await self._dialler.dial(connection)
        return connection

    def _keep(self, connection: Connection) -> None:
        if not self._keeps or not connection.idle_until:
            connection.abort()
            return
        self._idle.append(connection)
        self._sweep_by(connection.idle_until)

    def _sweep_by(self, when: float) -> None:
        if self._sweep is None or self._sweep.when() > when:
            if self._sweep is not None:
                self._sweep.cancel()
            self._sweep = asyncio.get_running_loop().call_at(when, self._sweep_idle)

    def _sweep_idle(self) -> None:
        self._sweep = None
        now = asyncio.get_running_loop().time()
        for connection in [c for c in self._idle if c.idle_until <= now]:
            self._idle.remove(connection)
            connection.close()
        if self._idle:
            self._sweep_by(min(connection.idle_until for connection in self._idle))
