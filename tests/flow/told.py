"""What deliveries of events that are stored are told."""

from __future__ import annotations

from gateway.core.answer import Acknowledged, Answer, Duplicate, Reason, Rejected
from gateway.core.route import StandardReply

STORED = Acknowledged(StandardReply())
SEEN = Duplicate(StandardReply(), None)


def refusal(answer: Answer) -> Reason:
    """Why a delivery was refused that shall come again."""
    assert isinstance(answer, Rejected)
    assert (answer.status, answer.retry_after) == (503, 5)
    return answer.reason
