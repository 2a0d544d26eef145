"""Without the store: a delivery whose event could not be claimed is refused, or forwarded marked.

A claim that may have been made all the same is given back: at once, or with what became of the
forward. Until then it keeps other processes from forwarding beside us.
"""

from __future__ import annotations

from gateway.core.answer import Duplicate, Reason, Rejected, Verdict
from gateway.core.claim import Ending, StoreAway
from gateway.core.outcome import Delivered
from gateway.core.route import OnStoreDown, Route
from gateway.flow.events import Event
from gateway.flow.flights import Told
from gateway.flow.forward import Sender, answer_to, ending_of
from gateway.flow.landing import Landing, told_of
from gateway.flow.notes import Notes
from gateway.flow.shared import RETRY_AFTER, Shared

REFUSED = Rejected(
    Reason.STORE_AWAY, 503, "the dedup store is away; send this again later", RETRY_AFTER
)


async def without_store(
    route: Route, sender: Sender, notes: Notes, shared: Shared, event: Event, away: StoreAway
) -> Landing:
    """Refuse, or forward marked, as the route wants (D2)."""
    recorder = shared.recorder
    lease_end = shared.clock() + route.lease
    if route.on_store_down is OnStoreDown.REFUSE:
        if away.undecided:
            recorder.withdraw(event.ending(route, Ending.RELEASE), lease_end=lease_end)
        return Landing(REFUSED, Told(REFUSED, durable=False))
    result = await sender.send(event.delivery, sender.marks(event.key, 1, doubtful=True))
    answer = answer_to(result, Verdict.BYPASSED)
    ending = event.ending(route, ending_of(result))
    if isinstance(result, Delivered):
        notes.accepted(event)
        pending = recorder.record_later(ending, float("inf"))
        # Without the reply: of these there may be as many as Recorder has room for.
        later = Told(Duplicate(route.duplicate_reply, None), durable=True)
        return Landing(answer, told_of(result, answer, durable=True), pending, later)
    if away.undecided:
        recorder.withdraw(ending, lease_end=lease_end)
    return Landing(answer, told_of(result, answer, durable=False))
