"""The guard: what signed deliveries pass before anything is claimed (D10).

    check      on the bytes as they came, before an id is read of them
    handshake  a kind that the provider does not sign passes unsigned, and is never claimed
    refuse     401; or 503 where the keys to check with cannot be had: then nobody knows
    observe    refuses nothing: what is not signed is forwarded as it came, and takes no claim

A forged id must never take the slot of a real one. Requests that are no events by their method are
not checked: the guard is for what could take a claim.
"""

from __future__ import annotations

import logging
from typing import Protocol, assert_never

from gateway.core import handshake
from gateway.core.answer import Answer, Reason, Rejected, Verdict
from gateway.core.event import Delivery
from gateway.core.keying import Reading
from gateway.core.route import Mode, Route
from gateway.core.signature import (
    UNCHECKED,
    VALID,
    VERIFIED,
    Flaw,
    Invalid,
    Unchecked,
    Valid,
)
from gateway.flow.forward import Sender, answer_to
from gateway.flow.needs import Verifier
from gateway.flow.notes import Notes
from gateway.flow.shared import RETRY_AFTER, Shared

log = logging.getLogger("gateway.deliveries")

_REFUSED = {
    flaw: Rejected(Reason.SIGNATURE, 401, detail)
    for flaw, detail in {
        Flaw.MISSING: "there is no signature here that can be read",
        Flaw.WRONG: "the signature is not that of these bytes",
        Flaw.EXPIRED: "the signature is right, and its time stamp too far from now",
    }.items()
}
KEYS_AWAY = Rejected(
    Reason.KEYS_AWAY,
    503,
    "the keys that signatures are checked with cannot be had right now; send this again later",
    RETRY_AFTER,
)


class Receiver(Protocol):
    """What takes deliveries that may be believed."""

    @property
    def route(self) -> Route: ...
    @property
    def decisive(self) -> frozenset[bytes]: ...

    async def receive(self, delivery: Delivery) -> Answer: ...


class Guard:
    """Stands before the receiver of a route that has a signature."""

    def __init__(
        self,
        receiver: Receiver,
        sender: Sender,
        verifier: Verifier,
        notes: Notes,
        shared: Shared,
    ) -> None:
        self.route = route = receiver.route
        self.decisive = receiver.decisive
        self._receiver = receiver
        self._sender = sender
        self._verifier = verifier
        self._notes = notes
        self._shared = shared
        self._observes = route.mode is Mode.OBSERVE
        self._observer = shared.observations.of(route)

    async def receive(self, delivery: Delivery) -> Answer:
        """Take one delivery to its end, and count it once."""
        if delivery.method not in self.route.methods:
            return await self._receiver.receive(delivery)
        began = self._shared.clock()
        checked = await self._verifier.check(delivery, self._shared.epoch())
        if isinstance(checked, Valid):
            self._count(VALID, str(checked.secret))
            return await self._receiver.receive(self._believed(delivery))
        if self._is_unsigned_handshake(delivery):
            return await self._receiver.receive(delivery)
        answer = await self._turn_away(delivery, checked)
        # In observe it is told what a handshake is told, so its line has to say what it was.
        flaw = checked.flaw.value if isinstance(checked, Invalid) else UNCHECKED
        self._notes.told(answer, None, self._shared.clock() - began, flaw=flaw)
        return answer

    def _believed(self, delivery: Delivery) -> Delivery:
        # Whoever turns `resign` on later has what is stored by then signed, too. The sender takes
        # the mark off again.
        if self._observes:
            return delivery
        return delivery._replace(headers=(*delivery.headers, VERIFIED))

    def _is_unsigned_handshake(self, delivery: Delivery) -> bool:
        kinds = self.route.handshakes
        if all(kind.signed for kind in kinds):
            return False
        known = handshake.find(kinds, Reading(delivery, self._shared.parse))
        return known is not None and not known.signed

    async def _turn_away(self, delivery: Delivery, checked: Invalid | Unchecked) -> Answer:
        refused = self._judge(delivery, checked)
        if self._observes:
            self._observer.unsigned(checked.flaw if isinstance(checked, Invalid) else None)
            return answer_to(await self._sender.send(delivery), Verdict.PASSED, visible=False)
        return refused

    def _judge(self, delivery: Delivery, checked: Invalid | Unchecked) -> Rejected:
        match checked:
            case Invalid(flaw):
                self._count(flaw.value, "")
                self._note(delivery, flaw)
                return _REFUSED[flaw]
            case Unchecked():
                self._count(UNCHECKED, "")
                return KEYS_AWAY
            case _:
                assert_never(checked)

    def _count(self, result: str, secret: str) -> None:
        self._shared.counts.signature(self.route.name, result, secret)

    def _note(self, delivery: Delivery, flaw: Flaw) -> None:
        # Anybody can send them, so they are lines only where each delivery is one.
        if self._shared.log_deliveries:
            facts = {"route": self.route.name, "flaw": flaw.value, "peer": delivery.peer}
            log.warning("signature_invalid", extra=facts)
