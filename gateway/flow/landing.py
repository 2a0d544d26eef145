"""Landing: how a delivery ends, for itself and for those who waited for it."""

from __future__ import annotations

from typing import NamedTuple

from gateway.core.answer import Answer, Busy
from gateway.core.outcome import Outcome, Refused
from gateway.core.retention import Shape
from gateway.flow.events import Event
from gateway.flow.flights import Told
from gateway.flow.record import Pending
from gateway.flow.shared import RETRY_AFTER


class Landing(NamedTuple):
    """How a delivery ends, and the flight that it was."""

    answer: Answer
    told: Told | None = None
    """What its waiters are told; None sends each of them to try for itself."""
    pending: Pending | None = None
    """The settlement that the store has not taken yet."""
    later: Told | None = None
    """What those are told who come while it is pending; None has them wait."""
    shape: Shape | None = None
    """Of a duplicate."""
    taken: Event | None = None
    """Of a batch that was won: what was new in it."""


UNDECIDED = Landing(Busy(RETRY_AFTER), told=None)


def told_of(
    result: Outcome, answer: Answer, *, durable: bool, first_seen: float | None = None
) -> Told | None:
    """What waiters are told of a forward: nothing of a refusal that judged the holder's bytes."""
    if isinstance(result, Refused) and not result.doubtful:
        return None
    return Told(answer, durable, first_seen)
