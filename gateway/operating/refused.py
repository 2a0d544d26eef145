"""Why something was not done, in words, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core import operating
from gateway.core.inbox import EntryState
from gateway.core.operating import Action, Refusal
from gateway.operating.wording import span
from gateway.store.known import Known

_SENTENCES: Mapping[Refusal, str] = {
    Refusal.UNKNOWN: "not there: no claim, or no entry in the inbox",
    Refusal.CLAIMED: "a forward of it is under way; its end, or that of its lease, frees the claim",
    Refusal.STORED: "the inbox owes it: see inbox redrive, drop and complete",
    Refusal.FREE: "free already: the next delivery is forwarded",
    Refusal.OWED: "it has an undelivered entry too: inbox drop or complete that one first",
    Refusal.LEASED: "a worker is sending it right now: look again when that is over",
    Refusal.OVER: (
        "delivered or dropped already: to have it sent once more, claims release it and have the"
        " provider send it"
    ),
    Refusal.COMPLETED: "its claim is completed, so it is never sent: inbox drop tidies it up",
    Refusal.CHANGED: "changed meanwhile: look again",
    Refusal.LOCKED: "others held its rows for too long: try again",
}


def why_released_not(known: Known, attempt: int) -> Refusal:
    """What stood in the way of a release, as the event is now."""
    found = operating.release(known.claim, known.entry, attempt)
    return found if isinstance(found, Refusal) else Refusal.CHANGED


def why_not(action: Action, known: Known) -> Refusal:
    """What stood in the way of the other actions, as the event is now."""
    found: object
    if action is Action.REDRIVE:
        found = operating.redrive(known.entry, known.now, over=known.is_over)
    else:
        found = operating.close(
            known.claim, known.entry, as_=EntryState.DROPPED, fingerprint=0, now=known.now
        )
    return found if isinstance(found, Refusal) else Refusal.CHANGED


def sentence(refusal: Refusal) -> str:
    """What it means for whoever wanted it, of one event or of many."""
    return _SENTENCES[refusal]


def about(refusal: Refusal, known: Known) -> str:
    """The same of one event, with what is known of it."""
    claim, entry = known.claim, known.entry
    if refusal is Refusal.CLAIMED and claim is not None and claim.lease_until is not None:
        left = claim.lease_until - known.now
        if left < 0:
            return "its holder never came back, and the next delivery takes it over, marked"
        return f"{sentence(refusal)}, in {span(left)} at the latest"
    if refusal is Refusal.LEASED and entry is not None:
        return f"{sentence(refusal)}, in {span(entry.due - known.now)} at the latest"
    if refusal is Refusal.CHANGED and claim is not None:
        return f"{sentence(refusal)} (it is {claim.state} now, attempt {claim.attempt})"
    return sentence(refusal)
