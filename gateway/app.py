"""The composition root: the only file that knows the concrete classes, the clock and the dice.

Order of life: embedded store, store, listeners; then run until a signal. Order of death: readiness
is red at once, requests are still taken for `drain_delay` so that balancers can move on, the
listener closes, what is in flight ends, what is not recorded yet is recorded, and only then the
store goes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import orjson

from gateway import __version__, failpoints
from gateway.binding import bind
from gateway.certificates import Certificates
from gateway.config import Embedded, Loaded
from gateway.core.outcome import StatusPolicy
from gateway.core.route import Upstream
from gateway.flow.bodies import Bodies
from gateway.flow.flights import Flights
from gateway.flow.load import Load
from gateway.flow.observing import Observations
from gateway.flow.record import Recorder
from gateway.flow.shared import Shared
from gateway.flow.upkeep import Upkeep
from gateway.health import Health
from gateway.loops import for_good
from gateway.metrics import Metrics
from gateway.owed import refuse_missing_at_reload, refuse_missing_at_start
from gateway.reloading import Reloading
from gateway.retaining import Retaining
from gateway.routing import Routing
from gateway.sealing import Sealing
from gateway.store.embedded import EmbeddedPostgres, default_data_dir
from gateway.store.store import Store
from gateway.upstream.hop import Hop
from gateway.web.admin import Admin
from gateway.web.ingress import Ingress
from gateway.web.limits import Limits

log = logging.getLogger("gateway.app")

# After the drain deadline forwards are cut off; what they leave behind is settled within this.
LAST_SETTLEMENTS = 3.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """What was bound, as HOST:PORT."""

    deliveries: tuple[str, ...]
    admin: str


class Gateway:
    """One gateway process: made, started and stopped in one running loop of the main thread."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        reread: Callable[[], Loaded] | None = None,
        at: Callable[[str], None] = failpoints.none,
    ) -> None:
        """`reread` loads the configuration again; None where there is no file to look at."""
        self.metrics = Metrics()
        self._loaded = loaded
        self._reread = reread
        self._reloading: Reloading | None = None
        self._at = at
        self._state = "starting"
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exit = AsyncExitStack()
        self._certificates = Certificates()

    async def start(self) -> Addresses:
        """Bring everything up.

        Raises OSError when an address is taken or a file of TLS or keys unusable, EmbeddedError for
        the store, ValueError for its DSN, a key, or a route that is missing; `stop` tidies up after
        it.
        """
        for warning in self._loaded.warnings:
            log.warning("config_warning", extra={"detail": warning})
        self._build(self._dsn())
        self._exit.push_async_callback(self._sealing.close)
        await self._use(self._loaded)
        self._exit.push_async_callback(self._store.stop)
        await self._store.start()
        await refuse_missing_at_start(self._store, self._loaded.routes)
        addresses = await self._listen()
        if self._reread is not None:
            self._reloading = Reloading(
                self._loaded,
                reread=self._reread,
                use=self._renew,
                told=self.metrics.gauges.reloaded,
            )
            self._spawn(for_good(self._reloading.watch))
        for loop in (
            self._health.watch,
            self._routing.deliverers.watch,
            self._upkeep.look,
            self._upkeep.forget,
            self._observations.keep,
            self._sealing.watch,
            *self._retaining.loops,
        ):
            self._spawn(for_good(loop))
        self._state = "running"
        log.info("started", extra={"version": __version__})
        return addresses

    def _dsn(self) -> str:
        store = self._loaded.store
        if not isinstance(store, Embedded):
            return store.text
        place = store.path or default_data_dir()
        server = EmbeddedPostgres(place, user=store.user, log=_note)
        self._exit.callback(server.stop)
        dsn = server.start()
        self._spawn(server.supervise())
        return dsn

    def _build(self, dsn: str) -> None:
        loaded, metrics = self._loaded, self.metrics
        self._store = Store(
            dsn,
            keep_ids=loaded.keep_ids,
            clock=time.monotonic,
            on_error=metrics.store_error,
            on_statement=metrics.statement,
        )
        self._sealing = Sealing(time.monotonic)
        self._health = Health(self._store, lambda: self._loaded.routes)
        self._recorder = Recorder(self._store, self._store, metrics, time.monotonic, self._spawn)
        dice = Random(secrets.randbits(256))
        # A token tells one holder from another, and nobody gains anything by guessing one.
        tokens, clock, jitter = partial(dice.getrandbits, 63), time.monotonic, dice.random
        self._upkeep = Upkeep(self._store, clock, jitter)
        self._observations = Observations(self._store, clock, tokens, jitter)
        self._retaining = Retaining(self._store.retention, metrics, clock, tokens, jitter)
        shared = Shared(
            claims=self._store,
            inbox=self._store,
            room=self._upkeep,
            replies=self._store,
            bodies=Bodies(loaded.limits.body_memory),
            load=Load(),
            flights=Flights(),
            recorder=self._recorder,
            observations=self._observations,
            counts=metrics,
            clock=clock,
            epoch=time.time,
            dice=tokens,
            jitter=jitter,
            spawn=self._spawn,
            at=self._at,
            parse=orjson.loads,
            log_deliveries=loaded.log_deliveries,
        )
        self._routing = Routing(shared, self._new_hop, self._sealing.seals)
        self._ingress = Ingress(self._routing.find, limits=_limits(loaded), counts=metrics, log=log)
        metrics.gauges.watch(
            store_up=lambda: self._store.away_since is None,
            pending=lambda: self._recorder.pending,
            certificates=self._routing.certificates,
        )
        metrics.gauges.watch_inbox(
            waiting=lambda: self._upkeep.waiting,
            open_breakers=self._routing.deliverers.open_breakers,
        )

    async def run_until_stopped(self) -> None:
        """Until SIGTERM or SIGINT.

        SIGHUP reloads; without a file it says that the terminal is gone, and ends us as well unless
        it is ignored, as under nohup.
        """
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, self._stop.set)
        if self._reloading is not None:
            loop.add_signal_handler(signal.SIGHUP, self._reloading.ask)
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self._stop.set)
        await self._stop.wait()

    async def stop(self) -> None:
        """Drain and end."""
        if self._state == "running":
            await self._drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._exit.aclose()
        log.info("stopped")

    async def _listen(self) -> Addresses:
        page = Admin(self.metrics.render, lambda: self._health.readiness(self._state))
        self._exit.push_async_callback(page.close)
        place, tls = self._loaded.admin, self._certificates.context
        admin = await bind(page.listen, place, tls(place), admin=True)
        self._exit.push_async_callback(self._routing.close)
        self._exit.push_async_callback(self._ingress.close)
        bound = [
            await bind(self._ingress.listen, place, tls(place), admin=False)
            for place in self._loaded.listen
        ]
        return Addresses(tuple(bound), admin)

    async def _drain(self) -> None:
        self._state = "draining"
        delay = self._loaded.drain_delay
        log.info("draining", extra={"delay": delay, "to_skip": "the same signal again"})
        self._ingress.drain()
        self._routing.deliverers.stop()
        self._stop.clear()  # a second signal says that somebody waits at a terminal
        await _within(self._stop.wait(), self._loaded.drain_delay)
        await self._ingress.stop_listening()
        longest = max(route.longest + route.busy_wait for route in self._loaded.routes)
        idle = await self._wait_idle(longest)
        if not idle:
            await self._routing.abort()
            idle = await self._wait_idle(LAST_SETTLEMENTS)
        unrecorded, _ = await asyncio.gather(
            self._recorder.drain(LAST_SETTLEMENTS),
            _within(self._observations.keep_once(), LAST_SETTLEMENTS),
        )
        log.info("drained", extra={"idle": idle, "unrecorded": unrecorded})

    async def _wait_idle(self, within: float) -> bool:
        """Whether no delivery and no entry is under way any more."""
        end = time.monotonic() + within
        idle = await self._ingress.wait_idle(within)
        return await self._routing.deliverers.wait_idle(max(end - time.monotonic(), 0.0)) and idle

    async def _renew(self, loaded: Loaded) -> None:
        await refuse_missing_at_reload(self._store, self._loaded.routes, loaded.routes)
        self._certificates.renew()
        await self._use(loaded)

    async def _use(self, loaded: Loaded) -> None:
        self._routing.use(loaded.routes, loaded.trusted_proxies)
        self._upkeep.use(loaded.routes)
        self._retaining.use(loaded)
        self._loaded = loaded
        self.metrics.routes(loaded.routes, loaded.accepted_short_retention)
        # No turn of the loop lies between: a request for a new route finds it registered.
        await self._store.register({route.name: route.print for route in loaded.routes})
        await self._routing.close_replaced()

    def _new_hop(self, upstream: Upstream, policy: StatusPolicy) -> Hop:
        return Hop(upstream, policy, clock=time.monotonic, at=self._at)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed", exc_info=error)


def _note(event: str, /, **facts: object) -> None:
    log.info(event, extra=facts)


def _limits(loaded: Loaded) -> Limits:
    return Limits(
        connections=loaded.limits.connections,
        body_memory=loaded.limits.body_memory,
        body_timeout=loaded.limits.body_timeout,
    )


async def _within(wait: Coroutine[Any, Any, Any], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        return False
    return True
