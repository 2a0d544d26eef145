"""The consumer of the conversations: it answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.core.event import RawHeaders
from gateway.core.outcome import (
    REFUSED_BEFORE_EFFECT,
    SUCCESS,
    Delivered,
    Outcome,
    Refused,
    Reply,
)


def reply(status: int, body: bytes = b"") -> Reply:
    return Reply(status, b"", ((b"Content-Type", b"text/plain"),), body)


def says(status: int, body: bytes = b"") -> Outcome:
    """What a consumer's complete reply amounts to under the world's policy."""
    if status in SUCCESS:
        return Delivered(reply(status, body))
    return Refused(reply(status, body), doubtful=status not in REFUSED_BEFORE_EFFECT)


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


Line = Outcome | Callable[[], Awaitable[Outcome]]
"""Of a script."""


class ScriptedConsumer:
    """Answers from a script; the last line of it repeats."""

    def __init__(self) -> None:
        self.received: list[Forwarded] = []
        self.script: list[Line] = [says(200)]

    def answers(self, *script: Line) -> None:
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


async def never() -> Outcome:
    """What a killed process looks like from outside: nothing is settled."""
    await asyncio.Event().wait()
    raise AssertionError
