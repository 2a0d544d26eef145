"""Outcomes: what became of one forward, and the state in which it leaves the claim.

The question behind all four is not "did it work?" but "may the consumer have acted?". Only two
facts answer it: how many bytes of the request left us, and whether a complete reply head came back.

    no byte left                          Unreached   certainly not processed
    bytes left, no complete reply head    Ambiguous   may have been processed
    head with a success status            Delivered   processed, even if the body then broke off
    any other complete reply              Refused     processed or not: `refused_status` says which

Doubt is sticky. An outcome may add it to a claim and never takes it away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, assert_never

from gateway.core.event import RawHeaders


class Reply(NamedTuple):
    """The consumer's answer as it came, hop-by-hop headers included."""

    status: int
    reason: bytes
    headers: RawHeaders
    body: bytes
    complete: bool = True
    """False when the body broke off or outgrew `upstream.max_reply`; `body` is then empty."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The consumer took the event."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Refused:
    """A complete reply outside `success_status`."""

    reply: Reply
    doubtful: bool
    """Whether the consumer may have acted before it answered so."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """Nothing left us: name not found, refused, connect time-out, TLS, no free slot, lease over."""

    reason: str
    """One of a bounded set of words; goes into logs."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Bytes left us and no complete reply head came back."""

    reason: str
    timed_out: bool = False


# Reasons of Unreached that say nothing of the consumer: nobody tried.
STOPPING = "shutting_down"
OURS = frozenset({"no_slot", "lease_over", STOPPING})

Outcome = Delivered | Refused | Unreached | Ambiguous


@dataclass(frozen=True, slots=True)
class StatusPolicy:
    """Which of the consumer's statuses mean success, and which a refusal before any effect."""

    success: frozenset[int]
    refused_before_effect: frozenset[int]
    overload_is_refusal: bool = True
    """Whether 503 with Retry-After is one too; False where a route has a list of its own."""


# 400 to 429: the consumer's own checks said no before it acted. 408 and 409 are not among them: a
# consumer that says "time-out" or "conflict" may well have begun.
REFUSED_BEFORE_EFFECT = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422, 425, 429})
SUCCESS = frozenset(range(200, 300))


def judge(reply: Reply, policy: StatusPolicy) -> Outcome:
    """What a reply means under a route's policy.

    By default, 503 counts as a refusal before any effect only together with Retry-After: a consumer
    that can name a time has seen its own overload, a proxy in front of a crashed one has not. A
    broken-off body makes any other status ambiguous: nobody can tell what the rest would have said.
    """
    if reply.status in policy.success:
        return Delivered(reply)
    if not reply.complete:
        return Ambiguous("reply_broken_off")
    overloaded = reply.status == 503 and any(n.lower() == b"retry-after" for n, _ in reply.headers)
    before_effect = reply.status in policy.refused_before_effect or (
        overloaded and policy.overload_is_refusal
    )
    return Refused(reply, doubtful=not before_effect)


def name_of(outcome: Outcome) -> str:
    """The word for metrics and logs."""
    match outcome:
        case Delivered():
            return "delivered"
        case Refused():
            return "refused"
        case Unreached():
            return "unreached"
        case Ambiguous():
            return "ambiguous"
        case _:
            assert_never(outcome)
