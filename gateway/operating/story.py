"""The story of one event: its claim, its entry, and what operators did about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

from gateway.core.claim import Claim, State
from gateway.core.inbox import Entry, EntryState
from gateway.operating.wording import address, span, stamp, visible, when
from gateway.store.known import Item, Known, Stored
from gateway.store.operator import Desk, Recorded

WIDTH = 80  # of a terminal that nobody has made wider
_MARGIN = 12
_WAITS_OR_OVER = {
    EntryState.DEAD: "given up: inbox redrive, drop or complete; a new delivery of it revives it",
    EntryState.HELD: "waits for a person to look: inbox redrive sends it, or complete, or drop",
    EntryState.DELIVERED: "the consumer has it; the payload goes after keep_payload",
    EntryState.DROPPED: "a person said it need not be delivered; kept for keep_payload",
}
_DOUBT = "some attempt may have had its effect without anybody knowing"


@dataclass(frozen=True, slots=True)
class Story:
    """One event."""

    known: Known
    actions: tuple[Recorded, ...]
    operation: tuple[str, ...] = ()
    """Where the key was read, if it is an operation's."""

    @property
    def route(self) -> str | None:
        """That of its entry, else of the first delivery."""
        return self.known.stored.route if self.known.stored else self.known.route

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return self.known.claim is None and self.known.entry is None and not self.actions


async def story(desk: Desk, key: bytes) -> Story:
    """All there is about an event."""
    (known,) = await desk.known([key])
    keys = {key, known.entry_key or key}
    return Story(known, tuple(await desk.actions(*keys)))


def event_id(known: Known) -> str | None:
    """As the provider wrote it, as far as it was kept; None for a batch, which has none."""
    if known.items:
        return known.item_id or known.event_id
    return known.event_id if known.stored is None else known.stored.event_id


def is_batch(known: Known) -> bool:
    """Whether it is a batch itself that was asked for, and no event of it."""
    return bool(known.items) and known.key == known.entry_key


def as_text(story: Story, *, full: bool = False) -> str:
    """What `show` prints."""
    known = story.known
    rows = [
        _title(known),
        ("key", known.key.hex()),
        *_operation_rows(story),
        ("route", story.route or "unknown"),
        ("", ""),
        *(_claims_rows(known) if is_batch(known) else _claim_rows(known)),
    ]
    if known.entry is not None and known.stored is not None:
        rows += [("", ""), *_entry_rows(known, known.entry, known.stored, full=full)]
    if story.actions:
        rows += [("", ""), *_action_rows(story)]
    return "\n".join(line for row in rows for line in wrapped(*row))


def as_dict(story: Story, *, full: bool = False) -> dict[str, Any]:
    """What `show --json` prints. Times are in UTC, null where there is none."""
    known = story.known
    return {
        "event_id": event_id(known),
        "key": known.key.hex(),
        "operation_key": list(story.operation) or None,
        "route": story.route,
        "batch": _batch_dict(known),
        "claim": None if known.claim is None else _claim_dict(known, known.claim),
        "entry": None if known.entry is None else entry_dict(known, full=full),
        "actions": [{**action._asdict(), "at": stamp(action.at)} for action in story.actions],
    }


def entry_dict(known: Known, *, full: bool = False) -> dict[str, Any]:
    """An entry as JSON has it."""
    entry, stored = known.entry, known.stored
    assert entry is not None
    assert stored is not None
    return {
        "state": entry.state.value,
        "doubtful": entry.doubtful,
        "attempts": entry.attempt,
        "received": stamp(stored.received),
        "since": stamp(entry.since),
        "due": stamp(entry.due) if entry.state is EntryState.PENDING else None,
        "lease_until": stamp(entry.due) if entry.state is EntryState.LEASED else None,
        "settled": None if stored.settled is None else stamp(stored.settled),
        "why": stored.why,
        "method": stored.method,
        "target": address(stored.target, full=full),
        "peer": stored.peer,
        "scheme": stored.scheme,
        "headers_size": stored.headers_size,
        "body_size": stored.body_size,
    }


def items_dict(items: Iterable[Item]) -> list[dict[str, Any]]:
    """The events of a batch as JSON has them."""
    return [
        {"event_id": item.event_id, "key": item.key.hex(), "claim": item.state and item.state.value}
        for item in items
    ]


def item_lines(items: Iterable[Item]) -> Iterable[str]:
    """The events of a batch, one a line."""
    title = "items"
    for item in items:
        state = "no claim" if item.state is None else item.state.value
        yield f"{title:<{_MARGIN}}{state:<11}{visible(item.event_id)}"
        title = ""


def _batch_dict(known: Known) -> dict[str, Any] | None:
    if not known.items or known.entry_key is None:
        return None
    return {
        "key": known.entry_key.hex(),
        "items": known.items,
        "completed": known.completed,
        "unkeyed": known.entry is not None and known.entry.unkeyed,
    }


def _title(known: Known) -> tuple[str, str]:
    if is_batch(known):
        return "batch", f"of {known.items:,} items"
    return "event", visible(event_id(known) or "(its id is not kept)")


def _operation_rows(story: Story) -> Iterable[tuple[str, str]]:
    if story.operation:
        yield (
            "",
            (
                f"by operation key: {visible(', '.join(story.operation))};"
                " the event above is the one that took the operation last"
            ),
        )


def _claims_rows(known: Known) -> Iterable[tuple[str, str]]:
    """Of all the events of a batch."""
    open_ = known.items - known.completed
    yield "claims", f"{known.completed:,} completed, {open_:,} not"
    if known.entry is not None and known.entry.unkeyed:
        yield "", "events without an id are beside them, so it is sent whatever those claims say"


def _claim_dict(known: Known, claim: Claim) -> dict[str, Any]:
    until = claim.lease_until
    return {
        "state": claim.state.value,
        "doubtful": claim.doubtful,
        "attempt": claim.attempt,
        "first_seen": stamp(claim.first_seen),
        "lease_until": None if until is None else stamp(until),
        "lapsed": claim.is_lapsed(known.now),
        "settled": None if known.settled is None else stamp(known.settled),
        "reply_kept": known.has_reply,
        "backfilled": claim.fingerprint is None,
    }


def _claim_rows(known: Known) -> Iterable[tuple[str, str]]:
    claim = known.claim
    if claim is None:
        yield "claim", "none: the next delivery of this event is forwarded as a new one"
        return
    yield "claim", claim.state.value + (", doubtful" if claim.doubtful else "")
    yield "", _claim_means(claim, known.now)
    if claim.doubtful:
        yield "", _DOUBT
    # Of a stored event the entry counts them; of a marked one, nobody does.
    if claim.state is not State.STORED and claim.fingerprint is not None:
        yield "attempt", str(claim.attempt)
    yield "first seen", when(claim.first_seen, known.now)
    if claim.lease_until is not None:
        yield "lease", when(claim.lease_until, known.now)
    if known.settled is not None:
        yield "settled", when(known.settled, known.now)
    if known.has_reply:
        yield "reply", "kept, for duplicates"


def _claim_means(claim: Claim, now: float) -> str:
    match claim.state:
        case State.CLAIMED if claim.is_lapsed(now):
            return "its holder never came back: the next delivery takes over, marked"
        case State.CLAIMED:
            return "a forward is under way: duplicates wait for it, then get 503"
        case State.RELEASED:
            marked = ", marked" if claim.doubtful else ""
            return f"free: the next delivery is forwarded{marked}"
        case State.STORED:
            return "the inbox owes it to the consumer: duplicates get 200"
        case State.COMPLETED if claim.fingerprint is None:
            return "marked as processed by a backfill: duplicates get 200"
        case State.COMPLETED:
            return "done: duplicates get 200"
        case _:
            assert_never(claim.state)


def _entry_rows(
    known: Known, entry: Entry, stored: Stored, *, full: bool
) -> Iterable[tuple[str, str]]:
    yield "entry", entry.state.value + (", doubtful" if entry.doubtful else "")
    if known.items and known.entry_key is not None and not is_batch(known):
        yield "", f"of a batch of {known.items:,} items, whose key is {known.entry_key.hex()}"
    yield "", _entry_means(entry, known)
    if entry.doubtful:
        yield "", "the next forward is marked: " + _DOUBT + ", or it is older than our memory"
    yield "attempts", str(entry.attempt)
    if stored.why is not None:
        yield "latest", visible(stored.why)
    yield "received", when(stored.received, known.now)
    if entry.since > stored.received:
        yield "since", when(entry.since, known.now)
    if entry.state in (EntryState.PENDING, EntryState.LEASED):
        yield "due" if entry.state is EntryState.PENDING else "lease", when(entry.due, known.now)
    if stored.settled is not None:
        yield "settled", when(stored.settled, known.now)
    yield "request", f"{visible(stored.method)} {address(stored.target, full=full)}"
    yield "", f"from {stored.peer} by {stored.scheme}, a body of {stored.body_size} bytes"


def _entry_means(entry: Entry, known: Known) -> str:
    if entry.state not in (EntryState.PENDING, EntryState.LEASED):
        return _WAITS_OR_OVER[entry.state]
    if known.is_over:
        return (
            "never sent, because " + ("all are" if known.items else "its claim is") + " completed"
        )
    is_due = entry.is_due(known.now)
    if entry.state is EntryState.LEASED:
        lapsed = "its worker never came back: the next one sends it, marked"
        return lapsed if is_due else "a worker is sending it"
    if is_due:
        return "due: sent when the route has a slot free and its consumer is there"
    return f"waits for its next attempt, in {span(entry.due - known.now)}"


def _action_rows(story: Story) -> Iterable[tuple[str, str]]:
    title = "operators"
    for action in story.actions:
        seen = "" if action.attempt is None else f", attempt {action.attempt}"
        said = f"{stamp(action.at)} {visible(action.who)}: {action.action}{seen}"
        yield title, said if action.why is None else f"{said} ({visible(action.why)})"
        title = ""


def wrapped(title: str, text: str) -> list[str]:
    """A row of a table with two columns, as lines of a terminal."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{title:<{_MARGIN}}",
        subsequent_indent=" " * _MARGIN,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
