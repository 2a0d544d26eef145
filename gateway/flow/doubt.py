"""Doubt: what a route does before it sends an event that may have had its effect.

Asked by whoever is about to send, holding the claim or the entry's lease: first deliveries after a
doubtful attempt, workers, and those who found an event older than our memory. The answer is one of

    send     forward it, marked
    hold     a person shall look; nothing is sent
    known    the consumer says that it has the event: completed, nothing is sent
    unknown  the consumer did not say; not now
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import assert_never

from gateway.core.claim import StoreAway
from gateway.core.event import RawHeaders
from gateway.core.outcome import Ambiguous, Delivered, Outcome, Refused, Unreached
from gateway.core.route import OnDoubt, OnStale, Probe, Route
from gateway.flow.events import Event
from gateway.flow.needs import Consumer, Inbox
from gateway.flow.notes import ID_IN_LOGS

log = logging.getLogger("gateway.deliveries")

NOT_KNOWN = 404


class Step(Enum):
    """What to do with an event about to be sent."""

    SEND = auto()
    HOLD = auto()
    KNOWN = auto()
    UNKNOWN = auto()


class Doubt:
    """One route's way with doubt. `prober`: the hop to the probe's URL, where there is one."""

    def __init__(self, route: Route, prober: Consumer | None, inbox: Inbox) -> None:
        self._route = route.name
        self._on_doubt = route.on_doubt
        self.holds_stale = route.on_stale is OnStale.HOLD
        """Whether a person looks at new events that are older than our memory."""
        self._probe = route.probe
        self._prober = prober
        self._inbox = inbox

    async def step(
        self, event: Event, attempt: int, *, doubtful: bool, stale: bool, age: float
    ) -> Step:
        """Before a send. `age`: seconds since the event was first seen."""
        too_old = stale and self.holds_stale
        in_doubt = doubtful and self._on_doubt is not OnDoubt.RETRY
        if not (too_old or in_doubt) or await self._is_ordered(event, attempt):
            return Step.SEND
        return Step.HOLD if too_old else await self._judge(event.key.event_id, age)

    async def _is_ordered(self, event: Event, attempt: int) -> bool:
        """Whether a person released the event, so that this attempt goes through whatever doubt.

        A store that cannot say has not said so. Who released one item said nothing about the rest
        of its batch.
        """
        if attempt == 1 or event.items:
            return False
        try:
            return await self._inbox.released(event.key, attempt - 1)
        except StoreAway:
            return False

    async def _judge(self, event_id: str, age: float) -> Step:
        if self._on_doubt is OnDoubt.HOLD or self._probe is None or self._prober is None:
            return Step.HOLD
        answer = await _ask(self._prober, self._probe, event_id)
        found = _heard(answer)
        if found is Step.UNKNOWN:
            facts = {"route": self._route, "event_id": event_id[:ID_IN_LOGS], "why": _why(answer)}
            log.warning("probe_undecided", extra=facts)
        return Step.HOLD if found is Step.UNKNOWN and age >= self._probe.give_up else found


async def _ask(prober: Consumer, probe: Probe, event_id: str) -> Outcome:
    host = (probe.upstream.host_header or probe.upstream.authority).encode()
    lines: RawHeaders = ((b"Host", host), (b"Accept", b"*/*"))
    target = probe.target_of(event_id)
    return await prober.send("GET", target, lines, b"", send_before=None)


def _why(answer: Outcome) -> str:
    match answer:
        case Delivered(reply) | Refused(reply):
            return f"it said {reply.status}"
        case Unreached(reason) | Ambiguous(reason):
            return str(reason)
        case _:
            assert_never(answer)


def _heard(answer: Outcome) -> Step:
    match answer:
        case Delivered():
            return Step.KNOWN
        case Refused(reply) if reply.status == NOT_KNOWN:
            return Step.SEND
        case Refused() | Unreached() | Ambiguous():
            return Step.UNKNOWN
        case _:
            assert_never(answer)
