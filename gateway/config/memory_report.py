"""What `check --store` says of the memory: what the store has on record, against the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateway.config.loaded import Loaded
from gateway.config.problems import Path, Problem, dotted
from gateway.core.canary import PLANTED_EVERY, Remembered
from gateway.core.durations import format_duration
from gateway.core.retention import NewMemory, Shortened


@dataclass(frozen=True, slots=True)
class MemoryFindings:
    """What the store remembers of the routes of a configuration."""

    unrecognised: tuple[NewMemory, ...]
    """Whether or not that is accepted."""
    shortened: tuple[Shortened, ...]
    memories: Mapping[str, Remembered]
    """By route; those that never ran are left out."""
    missing: str | None
    """What is owed on routes that the configuration lacks, so that it is refused."""


def memory_wrong(loaded: Loaded, said: MemoryFindings) -> Iterator[Problem]:
    """What is a reason to exit with 1."""
    if said.missing is not None:
        origin = loaded.origins[("routes", 0, "name")]
        yield Problem("routes", origin.source, None, said.missing, "")
    for new in said.unrecognised:
        if new.route not in loaded.accepted_new_memory:
            yield _problem(loaded, new.route, "event_id", *_forgets(new))
    for name, memory in said.memories.items():
        if memory.reach < memory.expected - PLANTED_EVERY:
            yield _problem(
                loaded,
                name,
                "retention",
                f"the memory reaches back {_span(memory.reach)}, and has to reach"
                f" {_span(memory.expected)}: claims were deleted, or purged by a"
                " shorter retention, so that late duplicates are forwarded as new",
                "find out by whom; only time mends it",
            )


def memory_notices(loaded: Loaded, said: MemoryFindings) -> Iterator[Problem]:
    """What is worth a look."""
    for one in said.shortened:
        day = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="seconds")
        yield _problem(
            loaded,
            one.route,
            "retention",
            f"was shortened from {_span(one.was)} to {_span(one.now)} on"
            f" {day.replace('+00:00', 'Z')} by {one.who}, derived from {one.source}",
            "",
        )


def _forgets(new: NewMemory) -> tuple[str, str]:
    if new.was == new.route:
        return (
            "its keys are made in another way than those that are remembered, so that late"
            " duplicates are forwarded as new",
            "put event_id and scope back, or write accept_new_memory: REASON",
        )
    return (
        f"what came here is remembered under the keys of {new.was!r}, which are made in another"
        " way, so that late duplicates are forwarded as new",
        f"give it the scope and event_id that {new.was!r} has, or write accept_new_memory: REASON",
    )


def _problem(loaded: Loaded, name: str, setting: str, message: str, remedy: str) -> Problem:
    index = [route.name for route in loaded.routes].index(name)
    path: Path = ("routes", index, setting)
    origin = loaded.origins.get(path) or loaded.origins[("routes", index, "name")]
    return Problem(dotted(path), str(origin), origin.line, message, remedy)


def _span(seconds: float) -> str:
    """Whole minutes: hardly anybody cares for less."""
    return format_duration(timedelta(minutes=round(seconds / 60)))
