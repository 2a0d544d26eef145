"""A way to sign that a test can read: the secret in brackets, and the time beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.core.event import Delivery
from gateway.core.signature import (
    Checked,
    Flaw,
    Invalid,
    Signature,
    Unchecked,
    Valid,
)
from tests.flow.world import delivery

TOLERANCE = 300.0
NAME = b"X-Seal"
SECRETS = ("new", "old")

SIGNATURE = Signature(
    scheme="sealed",
    secrets=SECRETS,
    keys=(),
    tolerance=TOLERANCE,
    public_url=None,
    expected=(),
    headers=frozenset({NAME.lower()}),
    resign=False,
)
RESIGNED = replace(SIGNATURE, resign=True)


def seal(body: bytes, secret: str, now: float) -> bytes:
    return b"%d [%s] %s" % (now, secret.encode(), body)


class Seals:
    """Checks and signs. `why`: the keys cannot be had."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def check(self, delivery: Delivery, now: float) -> Checked:
        await self.gate.wait()
        if self.why is not None:
            return Unchecked(self.why)
        found = delivery.header(NAME.lower())
        if found is None:
            return Invalid(Flaw.MISSING)
        time = float(found.split(b" ")[0])
        for place, secret in enumerate(SECRETS):
            if found == seal(delivery.body, secret, time):
                late = abs(now - time) > TOLERANCE
                return Invalid(Flaw.EXPIRED) if late else Valid(place)
        return Invalid(Flaw.WRONG)

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        fresh = (NAME, seal(delivery.body, SECRETS[0], now))
        lines = (fresh if name == NAME else (name, value) for name, value in delivery.headers)
        return delivery._replace(headers=tuple(lines))


def sealed(
    now: float, event_id: object = "evt_1", *, secret: str = "new", **members: object
) -> Delivery:
    """A delivery that the provider has signed."""
    plain = delivery(event_id, **members)
    line = (NAME, seal(plain.body, secret, now))
    return plain._replace(headers=(*plain.headers, line))
