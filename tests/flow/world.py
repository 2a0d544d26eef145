"""A world for conversations: a route, claims in memory, a consumer on script."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson

from gateway.core.answer import Answer, Answered, Unanswered
from gateway.core.claim import Claim
from gateway.core.document import Parse
from gateway.core.event import Delivery, EventKey
from gateway.core.fingerprint import fingerprint
from gateway.core.inbox import Entry, EntryState, Offer
from gateway.core.keying import Reading
from gateway.core.location import Json
from gateway.core.observing import What
from gateway.core.outcome import Ambiguous, Outcome
from gateway.core.retention import Promise
from gateway.core.route import Route
from gateway.flow.bodies import Bodies
from gateway.flow.deliver import Deliverer
from gateway.flow.flights import Flights
from gateway.flow.forward import Sender
from gateway.flow.load import Load
from gateway.flow.modes import Receiver, wire
from gateway.flow.needs import Signer, Verifier
from gateway.flow.observing import Observations
from gateway.flow.reach import Reach
from gateway.flow.record import Recorder
from gateway.flow.shared import Shared
from tests import routes
from tests.fakes import MemoryClaims, MemoryReplies
from tests.flow.consumer import Gate, Line, ScriptedConsumer, never, says
from tests.flow.notebook import Notebook
from tests.flow.shop import Counted, Shop

LEASE = 50.0
GIVE_UP = 3600.0
"""Seconds after which a probe that does not say leads to a person."""
TOKENS = itertools.count(1)
EPOCH = 1_787_616_000.0

# A busy wait of 0.4 s: long enough to be seen, short enough to wait for in a test.
PROMISE = Promise(timedelta(seconds=1.4), timedelta(hours=72), timedelta(days=30), "tests", None)

ROUTE = replace(
    routes.ROUTE,
    event_type=Json(("type",)),
    event_time=Json(("at",)),
    promise=PROMISE,
    retention=timedelta(days=45),
    lease=LEASE,
)


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


class Room:
    """An inbox that is as full as a test says."""

    def __init__(self) -> None:
        self.full = False
        self.filled = 0

    def has_room(self, route: Route) -> bool:
        return not self.full

    def accepted(self, route: str) -> None:
        self.filled += 1

    def ended(self, route: str) -> None:
        self.filled -= 1


class World:
    """Everything around a route. Two of them on one `shop` are two processes."""

    def __init__(
        self,
        shop: Shop | None = None,
        verifier: Verifier | None = None,
        signer: Signer | None = None,
        **changes: Any,
    ) -> None:
        self.verifier = verifier
        self.signer = signer
        self.shop = shop or Shop(MemoryClaims())
        self.consumer = ScriptedConsumer()
        self.counted = Counted()
        self.replies = MemoryReplies()
        self.steps: list[str] = []
        self.parse: Parse = orjson.loads
        self.jitter: Callable[[], float] = lambda: 0.0
        self.failures: list[BaseException] = []
        """Of work in the background. None may be left when the test ends."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._skipped = 0.0
        self.prober = ScriptedConsumer()
        self.room = Room()
        self.recorder = Recorder(self.shop, self.shop, self.counted, self.clock, self._spawn)
        self.notebook = Notebook()
        self.observations = Observations(
            self.notebook, self.clock, lambda: next(TOKENS), lambda: 0.0
        )
        self.flights = Flights()
        self.bodies = Bodies(1024**2)
        self.load = Load()
        self.route = replace(ROUTE, **changes)
        self.receiver, self.deliverer = self.wired(self.route)

    def wired(self, route: Route) -> tuple[Receiver, Deliverer]:
        reach = Reach(route, self.clock)
        sender = Sender(
            route, self.consumer, (), self.counted, self.clock, reach, self.signer, self.epoch
        )
        return wire(route, sender, self.prober, self.verifier, self.shared)

    def receiving(self, route: Route) -> Receiver:
        return self.wired(route)[0]

    @property
    def shared(self) -> Shared:
        return Shared(
            claims=self.shop,
            inbox=self.shop,
            room=self.room,
            replies=self.replies,
            bodies=self.bodies,
            load=self.load,
            flights=self.flights,
            recorder=self.recorder,
            observations=self.observations,
            counts=self.counted,
            clock=self.clock,
            epoch=self.epoch,
            dice=lambda: next(TOKENS),
            jitter=lambda: self.jitter(),
            spawn=self._spawn,
            parse=lambda body: self.parse(body),
            at=self.steps.append,
            log_deliveries=True,
        )

    async def deliver(self, event_id: object = "evt_1", **members: object) -> Answer:
        return await self.receiver.receive(delivery(event_id, **members))

    def delivering(self, event_id: object = "evt_1", **members: object) -> asyncio.Task[Answer]:
        return self._loop.create_task(self.deliver(event_id, **members))

    async def forwarding(self, outcome: Outcome, *then: Line) -> tuple[Gate, asyncio.Task[Answer]]:
        """A first delivery that is with the consumer, who answers it when the gate is opened."""
        gate = Gate(outcome)
        self.consumer.answers(gate, *then)
        first = self.delivering()
        await gate.reached.wait()
        return gate, first

    @staticmethod
    def key(event_id: str) -> EventKey:
        key = Reading(delivery(event_id)).identify(ROUTE.recipe)
        assert isinstance(key, EventKey)
        return key

    def entry(self, event_id: str = "evt_1") -> Entry:
        """What the inbox has of an event."""
        entry = self.shop.claims.entry(self.key(event_id))
        assert entry is not None
        return entry

    def claim(self, event_id: str = "evt_1") -> Claim:
        return self.shop.claims.rows[self.key(event_id).digest]

    def clock(self) -> float:
        """Monotonic seconds of this process."""
        return self._loop.time() + self._skipped

    def epoch(self) -> float:
        """Seconds since 1970, which begin where nobody takes them for monotonic ones."""
        return EPOCH + self._skipped

    def wait(self, seconds: float) -> None:
        """Time passes in the store."""
        self.shop.claims.now += seconds

    def pass_by(self, seconds: float) -> None:
        """Time passes in the store and in this process."""
        self.wait(seconds)
        self._skipped += seconds

    async def work(self) -> None:
        """Deliver what is due, and what becomes due by that."""
        self.deliverer.wake()
        await self.settled()

    def owes(self, *event_ids: str) -> None:
        """Events that were stored some time ago by a process that sent none of them."""
        for n, event_id in enumerate(event_ids):
            offer = Offer(
                self.key(event_id), "orders", next(TOKENS), fingerprint(delivery(event_id).body),
                delivery(event_id), EntryState.PENDING, LEASE,
            )  # fmt: skip
            self.shop.claims.put(offer, due=self.shop.claims.now - len(event_ids) + n)

    async def settled(self) -> None:
        """Until nothing is recorded in the background any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            # From Python 3.12 on, gathering what is done does not give way to what discards it.
            await asyncio.sleep(0)

    async def noted(self) -> dict[tuple[What, str], int]:
        """What a report would read of this process's observations."""
        await self.settled()
        assert await self.observations.keep_once()
        return dict(self.notebook.sums)

    async def end(self) -> None:
        """Raises what work in the background has raised."""
        while self._tasks:  # what is cancelled may begin something with the slot that it leaves
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # so that they are discarded
        for failure in self.failures:
            raise failure

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)


MakeWorld = Callable[..., World]
"""Takes what `World` takes, and ends what it made when the test ends."""


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


async def in_doubt(world: World, event_id: str = "evt_1") -> None:
    """The event's first attempt may have had its effect; nobody has taken it up again."""
    world.consumer.answers(Ambiguous("timeout"), says(200))
    await world.deliver(event_id)
    await world.settled()
    world.pass_by(5)


def forwarded(answer: Answer) -> Answered | Unanswered:
    """The answer of a delivery that was forwarded, whatever came of it."""
    assert isinstance(answer, Answered | Unanswered)
    return answer


def answered(answer: Answer) -> Answered:
    """The answer of a delivery that got a reply of the consumer's."""
    assert isinstance(answer, Answered)
    return answer
