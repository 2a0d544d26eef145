"""A world for conversations: a route, claims in memory, a consumer on script."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson

from gateway.core.answer import Answer, Reason, Verdict
from gateway.core.claim import Arrival, Ask, Settled, Settlement, StoreAway
from gateway.core.event import Delivery, EventKey, RawHeaders
from gateway.core.keying import Json, Literal, Reading, Recipe, fingerprint
from gateway.core.outcome import (
    REFUSED_BEFORE_EFFECT,
    SUCCESS,
    Delivered,
    Outcome,
    Refused,
    Reply,
    StatusPolicy,
)
from gateway.core.retention import Promise, Shape
from gateway.core.route import (
    Mode,
    OnMissingId,
    OnStoreDown,
    Route,
    StandardReply,
    Tls,
    Upstream,
)
from gateway.flow.flights import Flights
from gateway.flow.forward import Sender
from gateway.flow.observe import ObserveRoute
from gateway.flow.receive import ForwardRoute, Shared
from gateway.flow.record import Recorder
from tests.fakes import MemoryClaims, MemoryReplies

POLICY = StatusPolicy(SUCCESS, REFUSED_BEFORE_EFFECT)
LEASE = 50.0
TOKENS = itertools.count(1)

ROUTE = Route(
    name="orders",
    path="/hooks/orders",
    hosts=(),
    upstream=Upstream(
        scheme="http",
        host="127.0.0.1",
        port=3000,
        path=None,
        host_header=None,
        tls=Tls(None, None, None),
        concurrency=64,
        slot_timeout=5,
        connect_timeout=2,
        write_timeout=10,
        first_byte_timeout=30,
        timeout=30,
        max_reply=2**20,
    ),
    mode=Mode.FORWARD,
    recipe=Recipe((Literal("orders"),), (Json(("event_id",)),)),
    event_type=Json(("type",)),
    event_time=Json(("at",)),
    # A busy wait of 0.4 s: long enough to be seen, short enough to wait for in a test.
    promise=Promise(timedelta(seconds=1.4), timedelta(hours=72), timedelta(days=30), "tests", None),
    own_replay=timedelta(0),
    retention=timedelta(days=45),
    methods=frozenset({"POST"}),
    missing_id=OnMissingId.FORWARD,
    on_store_down=OnStoreDown.REFUSE,
    status=POLICY,
    duplicate_reply=StandardReply(),
    lease=LEASE,
    body_limit=2**20,
    idempotency_key=False,
)


def reply(status: int, body: bytes = b"") -> Reply:
    return Reply(status, b"", ((b"Content-Type", b"text/plain"),), body)


def says(status: int, body: bytes = b"") -> Outcome:
    """What a consumer's complete reply amounts to under the world's policy."""
    if status in SUCCESS:
        return Delivered(reply(status, body))
    return Refused(reply(status, body), doubtful=status not in REFUSED_BEFORE_EFFECT)


def delivery(event_id: object = "evt_1", **members: object) -> Delivery:
    body = json.dumps({"event_id": event_id, **members}).encode()
    return Delivery(
        "POST", "/hooks/orders", ((b"Host", b"hooks.example"),), body, "10.0.0.9", "http"
    )


def fingerprints_differ() -> dict[str, int]:
    """Members that give `evt_1` a body of another fingerprint, which has only eight bits."""
    plain = fingerprint(delivery().body)
    return next(
        {"amount": n} for n in itertools.count() if fingerprint(delivery(amount=n).body) != plain
    )


@dataclass(frozen=True)
class Forwarded:
    """One request as the consumer saw it."""

    target: str
    headers: RawHeaders
    body: bytes
    send_before: float | None

    def header(self, name: str) -> str | None:
        return next(
            (v.decode() for n, v in self.headers if n.decode().lower() == name.lower()), None
        )

    @property
    def marked(self) -> bool:
        return self.header("Dedup-Possible-Duplicate") == "1"

    @property
    def attempt(self) -> int:
        return int(self.header("Dedup-Attempt") or 0)


class Gate:
    """A consumer that answers when told to."""

    def __init__(self, outcome: Outcome) -> None:
        self.reached, self._open, self._outcome = asyncio.Event(), asyncio.Event(), outcome

    def open(self) -> None:
        self._open.set()

    async def __call__(self) -> Outcome:
        self.reached.set()
        await self._open.wait()
        return self._outcome


class ScriptedConsumer:
    """Answers from a script; the last line of it repeats."""

    def __init__(self) -> None:
        self.received: list[Forwarded] = []
        self.script: list[Outcome | Callable[[], Awaitable[Outcome]]] = [says(200)]

    def answers(self, *script: Outcome | Callable[[], Awaitable[Outcome]]) -> None:
        self.script = list(script)

    async def send(
        self,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes,
        *,
        send_before: float | None,
    ) -> Outcome:
        self.received.append(Forwarded(target, headers, body, send_before))
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await line() if callable(line) else line

    @property
    def last(self) -> Forwarded:
        return self.received[-1]


@dataclass
class Counted:
    """Counts by name and labels."""

    by: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def __getitem__(self, key: tuple[object, ...] | str) -> int:
        return self.by[key if isinstance(key, tuple) else (key,)]

    def delivery(self, route: str, verdict: Verdict) -> None:
        self.by["delivery", verdict] += 1

    def rejection(self, route: str, reason: Reason) -> None:
        self.by["rejection", reason] += 1

    def duplicate(self, route: str, event_type: str | None, shape: Shape, age: float) -> None:
        self.by["duplicate", event_type, shape] += 1

    def event(self, route: str, event_type: str | None) -> None:
        self.by["event", event_type] += 1

    def forward(self, route: str, outcome: str, seconds: float, *, slow: bool) -> None:
        self.by["forward", outcome] += 1
        self.by["slow",] += slow

    def takeover(self, route: str) -> None:
        self.by["takeover",] += 1

    def late_success(self, route: str) -> None:
        self.by["late_success",] += 1

    def possible_double(self, route: str) -> None:
        self.by["possible_double",] += 1

    def stale(self, route: str) -> None:
        self.by["stale",] += 1

    def mismatch(self, route: str) -> None:
        self.by["mismatch",] += 1


class Shop:
    """The claims of all processes, which can be away, and can lose replies."""

    def __init__(self, claims: MemoryClaims) -> None:
        self.claims = claims
        self.away = False
        self.settle_away = False
        self.replies_lost = 0
        self.patience: list[float] = []
        """How long each arrival would have waited, in seconds."""
        self.slowness = 0.0
        """Seconds that an arrival takes."""

    async def arrive(self, ask: Ask, *, within: float) -> Arrival:
        self.patience.append(within)
        if self.away:
            raise StoreAway("away")
        await asyncio.sleep(self.slowness)
        arrival = await self.claims.arrive(ask, within=within)
        if self.replies_lost:
            self.replies_lost -= 1
            raise StoreAway("the reply was lost", undecided=True)
        return arrival

    async def settle(self, settlement: Settlement) -> Settled:
        if self.away or self.settle_away:
            raise StoreAway("away")
        return await self.claims.settle(settlement)


class World:
    """Everything around a route. Two of them on one `shop` are two processes."""

    def __init__(self, shop: Shop | None = None, **changes: Any) -> None:
        self.shop = shop or Shop(MemoryClaims())
        self.consumer = ScriptedConsumer()
        self.counted = Counted()
        self.replies = MemoryReplies()
        self.steps: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.recorder = Recorder(self.shop, self.counted, self._loop.time, self._spawn)
        self.flights = Flights()
        self.route = replace(ROUTE, **changes)
        self.receiver = self.receiving(self.route)

    def receiving(self, route: Route) -> ForwardRoute | ObserveRoute:
        sender = Sender(route, self.consumer, (), self.counted, self._loop.time)
        kind = ObserveRoute if route.mode is Mode.OBSERVE else ForwardRoute
        return kind(route, sender, self.shared)

    @property
    def shared(self) -> Shared:
        return Shared(
            claims=self.shop,
            replies=self.replies,
            flights=self.flights,
            recorder=self.recorder,
            counts=self.counted,
            clock=self._loop.time,
            dice=lambda: next(TOKENS),
            parse=orjson.loads,
            at=self.steps.append,
            log_deliveries=True,
        )

    async def deliver(self, event_id: object = "evt_1", **members: object) -> Answer:
        return await self.receiver.receive(delivery(event_id, **members))

    def delivering(self, event_id: object = "evt_1", **members: object) -> asyncio.Task[Answer]:
        return self._loop.create_task(self.deliver(event_id, **members))

    @staticmethod
    def key(event_id: str) -> EventKey:
        key = Reading(delivery(event_id)).identify(ROUTE.recipe)
        assert isinstance(key, EventKey)
        return key

    def wait(self, seconds: float) -> None:
        """Time passes in the store."""
        self.shop.claims.now += seconds

    async def settled(self) -> None:
        """Until nothing is recorded in the background any more."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def never() -> Outcome:
    """What a killed process looks like from outside: nothing is settled."""
    await asyncio.Event().wait()
    raise AssertionError


async def dies(world: World, event_id: str = "evt_1") -> None:
    """A holder that claims and is gone: another process, killed while it forwards."""
    doomed = World(shop=world.shop)
    doomed.consumer.answers(never)
    task = doomed.delivering(event_id)
    while not doomed.consumer.received:
        await asyncio.sleep(0)
    doomed.shop.settle_away = True  # its last words are not heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await doomed.end()
    world.shop.settle_away = False
