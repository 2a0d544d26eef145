"""Entries of batches: one entry that stands for the claims of many events.

It is an entry like any other, under a key of its own that no claim has. Its *items* are the events
that it was stored for. An item belongs to the newest entry that was stored for it.

Success is that of them all. The entry is over once all its items are completed, whoever completed
them; while only some are, it is sent all the same, marked, for the others' sake. So it is where it
carries events without an id, too: nobody else can have delivered those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from gateway.core import inbox
from gateway.core.claim import Claim, Settled, State
from gateway.core.inbox import Conclusion, Entry, EntryEnding, Offer

Claims = Sequence[Claim | None]
"""Those of a batch's items, in their order."""


def store(
    claims: Claims, entry: Entry | None, offer: Offer, now: float
) -> tuple[list[Claim | None], Entry | None, bool]:
    """The holder gives its items' claims to the inbox, each fenced by its token.

    An entry that stands for only some of its delivery's events is doubtful: whoever has the claims
    of the others sends those too.
    """
    held = [claim for claim in claims if is_held(claim, offer.token)]
    if not held:
        stored = any(claim is not None and claim.state is State.STORED for claim in claims)
        return list(claims), entry, stored and entry is not None and entry.token == offer.token
    marked = offer.doubtful or any(claim.doubtful for claim in held) or len(held) < len(claims)
    attempt = max(claim.attempt for claim in held)
    after = [_stored(claim, offer) if is_held(claim, offer.token) else claim for claim in claims]
    return after, inbox.kept(entry, offer, now, attempt=attempt, doubtful=marked), True


def lease(entry: Entry, claims: Claims, token: int, seconds: float, now: float) -> Entry | None:
    """A worker takes an entry that is due; None where it may not, as in `inbox.lease`."""
    over = [claim is not None and claim.state is State.COMPLETED for claim in claims]
    if over and all(over) and not entry.unkeyed:
        return None
    taken = inbox.lease(entry, None, token, seconds, now)
    return taken and replace(taken, doubtful=taken.doubtful or any(over))


def conclude(
    claims: Claims, entry: Entry | None, done: Conclusion, now: float
) -> tuple[list[Claim | None], Entry | None, Settled]:
    """A worker, present or past, ends its attempt: a delivery completes the claims of all items."""
    if done.ending is not EntryEnding.DELIVER:
        _, after, settled = inbox.conclude(None, entry, done, now)
        return list(claims), after, settled
    completed: list[Claim | None] = []
    after, changed, late = entry, False, False
    for part, claim in zip(done.items, claims, strict=True):
        one = done._replace(key=part.key, fingerprint=part.fingerprint)
        claim, after, settled = inbox.conclude(claim, entry, one, now)
        completed.append(claim)
        changed, late = changed or settled.changed, late or settled.late
    return completed, after, Settled(changed, late)


def is_held(claim: Claim | None, token: int) -> TypeGuard[Claim]:
    """Whether this token's holder still has it."""
    return claim is not None and claim.state is State.CLAIMED and claim.token == token


def _stored(claim: Claim, offer: Offer) -> Claim:
    doubtful = claim.doubtful or offer.doubtful
    return replace(claim, state=State.STORED, doubtful=doubtful, token=None, lease_until=None)
