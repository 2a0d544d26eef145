"""The load: requests over kept-alive connections, in a process of its own. `python -m bench.load`.

Standard input has the plan as one line of JSON. After the warm-up it prints `warm` and the number
of the first event that it has not sent, and waits for a line, so that whoever measures can read the
clocks; then it sends, and prints what came back.

Closed loop: each connection sends its next request when the reply is complete. Open loop: requests
have intended times, whatever became of those before, and a reply's latency counts from the intended
time; a server that stalls is charged for all that had to wait.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter

import uvloop

from bench.connection import Connection, LoadFailed
from bench.events import Requests

# A reply that takes longer than this is a fault of the set-up and not a latency.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send."""

    port: int
    run: int
    connections: int
    seconds: float
    warm_up: float
    """Seconds of the same load before the clocks are read."""
    first: int
    """Number of the first event."""
    events: int | None
    """After this many the numbers start again from `first`; None never repeats."""
    copies: int = 1
    """How many connections send the same event in the same moment."""
    rate: float | None = None
    """Requests a second of the open loop; None is the closed loop."""
    host: str = "127.0.0.1"


@dataclass(slots=True)
class Replies:
    """What came back. Latencies in seconds."""

    latencies: list[float] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=Counter)
    """`-` where the reply names none."""
    seconds: float = 0.0
    next_event: int = 0
    """The first number that was not sent, for whoever goes on."""


NextRequest = Callable[[], bytes]
Answered = Callable[[Connection, str], None]
Over = asyncio.Future[None]


class Load:
    """Connections to one server, and the numbers of the events that it has not had."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = Requests(run=plan.run, host=plan.host, port=plan.port)
        self._sent = 0
        self._connections: list[Connection] = []
        self._loop: ClosedLoop | OpenLoop
        self._on_answer: Answered = lambda connection, verdict: None

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._plan.connections):
            _, connection = await loop.create_connection(
                lambda: Connection(lambda c, verdict: self._on_answer(c, verdict)),
                self._plan.host,
                self._plan.port,
            )
            self._connections.append(connection)
        if self._plan.rate is None:
            self._loop = ClosedLoop(self._connections, self._plan.copies, self._next_request)
        else:
            self._loop = OpenLoop(self._connections, self._plan.rate, self._next_request)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def run(self, seconds: float) -> Replies:
        """Send for so long, then wait for what is in flight. Raises LoadFailed."""
        replies = Replies()
        over: Over = asyncio.get_running_loop().create_future()

        def fail(why: str) -> None:
            if not over.done():
                over.set_exception(LoadFailed(why))

        for connection in self._connections:
            connection.failed = fail
        began = perf_counter()
        self._on_answer = self._loop.start(replies, over, seconds)
        try:
            async with asyncio.timeout(seconds + PATIENCE):
                await over
        except TimeoutError:
            raise LoadFailed(f"replies are missing after {PATIENCE:.0f} s") from None
        replies.seconds = perf_counter() - began
        replies.next_event = self._plan.first + self._sent
        return replies

    def _next_request(self) -> bytes:
        plan, number = self._plan, self._sent
        self._sent += 1
        return self._requests.build(plan.first + (number % plan.events if plan.events else number))


class ClosedLoop:
    """Each group of connections sends its next event when all of the group are answered."""

    def __init__(
        self, connections: list[Connection], copies: int, next_request: NextRequest
    ) -> None:
        self._groups = [connections[at : at + copies] for at in range(0, len(connections), copies)]
        self._group_of = {c: at for at, group in enumerate(self._groups) for c in group}
        self._next_request = next_request

    def start(self, replies: Replies, over: Over, seconds: float) -> Answered:
        began: dict[Connection, float] = {}
        unanswered = [0] * len(self._groups)
        going = len(self._groups)
        deadline = perf_counter() + seconds

        def send(at: int) -> None:
            request, unanswered[at] = self._next_request(), len(self._groups[at])
            for connection in self._groups[at]:
                began[connection] = perf_counter()
                connection.send(request)

        def answered(connection: Connection, verdict: str) -> None:
            nonlocal going
            now = perf_counter()
            replies.latencies.append(now - began[connection])
            replies.verdicts[verdict] += 1
            at = self._group_of[connection]
            unanswered[at] -= 1
            if unanswered[at]:
                return
            if now < deadline:
                send(at)
                return
            going -= 1
            if going == 0 and not over.done():
                over.set_result(None)

        for at in range(going):
            send(at)
        return answered


class OpenLoop:
    """Requests leave at their intended times, or as soon after as a connection is free."""

    def __init__(
        self, connections: list[Connection], rate: float, next_request: NextRequest
    ) -> None:
        self._connections = connections
        self._rate = rate
        self._next_request = next_request

    def start(self, replies: Replies, over: Over, seconds: float) -> Answered:
        loop = asyncio.get_running_loop()
        idle = list(self._connections)
        waiting: deque[float] = deque()
        due_at: dict[Connection, float] = {}
        intended = arrivals(self._rate, seconds)
        left = len(intended)

        def send(connection: Connection, due: float) -> None:
            due_at[connection] = due
            connection.send(self._next_request())

        def is_due(due: float) -> None:
            if idle:
                send(idle.pop(), due)
            else:
                waiting.append(due)

        def answered(connection: Connection, verdict: str) -> None:
            nonlocal left
            replies.latencies.append(perf_counter() - due_at[connection])
            replies.verdicts[verdict] += 1
            if waiting:
                send(connection, waiting.popleft())
            else:
                idle.append(connection)
            left -= 1
            if left == 0 and not over.done():
                over.set_result(None)

        base, ahead = perf_counter(), loop.time() - perf_counter()
        for after in intended:
            loop.call_at(base + after + ahead, is_due, base + after)
        return answered


def arrivals(rate: float, seconds: float) -> list[float]:
    """Intended times of independent senders: they bunch up. The same ones in each run."""
    dice, now, times = random.Random(4711), 0.0, []
    while (now := now + dice.expovariate(rate)) < seconds:
        times.append(now)
    return times


def _loop_for(plan: Plan) -> asyncio.AbstractEventLoop:
    if plan.rate is None:
        return uvloop.new_event_loop()
    # select() takes microseconds; epoll, and uvloop, round a timer up to the next millisecond,
    # which would be charged to the server.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _main(plan: Plan) -> dict[str, object]:
    load = Load(plan)
    await load.connect()
    try:
        warm = await load.run(plan.warm_up)
        print("warm", warm.next_event, flush=True)
        # Nothing is in flight here, so that the loop may stand still.
        sys.stdin.readline()
        replies = await load.run(plan.seconds)
        # A plain dict: asdict() makes no sense of a Counter before Python 3.12.
        return asdict(replace(replies, verdicts=dict(replies.verdicts)))
    finally:
        load.close()


def main() -> None:
    plan = Plan(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=lambda: _loop_for(plan)) as runner:
        try:
            result = runner.run(_main(plan))
        except LoadFailed as failure:
            sys.exit(f"load: {failure}")
    # Not print(): unbuffered (PYTHONUNBUFFERED), it loses what one write to the pipe does not take.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(json.dumps(result).encode() + b"\n")


if __name__ == "__main__":
    main()
