"""What has to hold over any history of deliveries, whatever was killed in between.

A story is what is known of one event when all is over: from its provider, from its consumer, from
the store. The rules are pure, so that forged stories can be shown to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.rig.consumer import Consumer


@dataclass(frozen=True, slots=True)
class Forward:
    """The event as it came to the consumer once."""

    attempt: int | None
    """None where the gateway did not count, as while its store is away."""
    marked: bool
    at: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Story:
    """One event."""

    event: str
    acknowledged: bool = False
    """Its provider was told a 2xx."""
    answered: float | None = None
    """Monotonic seconds when its provider had the consumer's own 2xx in hands, if it ever had."""
    forwards: tuple[Forward, ...] = ()
    effects: tuple[bool, ...] = ()
    """Each time the consumer acted: whether that forward was marked."""
    claim: str | None = None
    """State of the claim at the end; None where nobody looked."""
    entry: str | None = None
    """State of the entry at the end; None where there is none."""


def faults(story: Story) -> Iterator[str]:
    """What must not be, in words; nothing for a story that is all right."""
    if story.acknowledged and not story.effects:
        yield "acknowledged without an effect"
    if story.effects.count(False) > 1:
        yield f"{story.effects.count(False)} effects of unmarked forwards"
    if len(story.effects) > len(story.forwards):
        yield "more effects than forwards"
    attempts = Counter(f.attempt for f in story.forwards if f.attempt is not None)
    if repeated := sorted(attempt for attempt, times in attempts.items() if times > 1):
        yield f"forwarded more than once as attempt {repeated}"
    if story.answered is not None and any(f.at > story.answered for f in story.forwards):
        yield "forwarded although its success was recorded"
    if story.acknowledged and story.claim not in (None, "completed"):
        yield f"acknowledged and its claim is {story.claim}"
    if story.entry not in (None, "delivered"):
        yield f"its entry is {story.entry}"


def judge(stories: Iterable[Story]) -> None:
    """Raises AssertionError that names the events and what is wrong with each."""
    found = {story.event: (wrong, story) for story in stories if (wrong := list(faults(story)))}
    assert not found, found


def seen_by(consumer: Consumer, event: str) -> tuple[tuple[Forward, ...], tuple[bool, ...]]:
    """The consumer's part of a story: forwards and effects."""
    forwards = tuple(Forward(r.attempt, r.marked, r.at) for r in consumer.requests(event))
    return forwards, tuple(effect.marked for effect in consumer.effects(event))


def check(consumer: Consumer, acknowledged: Iterable[str], sent: Iterable[str]) -> None:
    """The rules for events of which nobody looked at the store."""
    promised = set(acknowledged)
    judge(
        Story(event, event in promised, None, *seen_by(consumer, event))
        for event in promised | set(sent)
    )
