"""Documents: settings as text, each with the place where it was written.

Every scalar stays the text that somebody typed until the setting itself says what it is. So
`name: on` is the name "on" and `name: 010` the name "010": YAML's own guesses (booleans, octal,
sexagesimal numbers, dates) never come into it, and a value behaves alike from a file, a variable or
a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.config.hiding import hide, long_enough
from gateway.config.problems import Fault, Origin, Path, Problem, dotted

Value: TypeAlias = "str | list[Value] | dict[str, Value]"


@dataclass(slots=True)
class Document:
    """A tree of settings under construction."""

    name: str
    """What to call it where a mistake is nowhere in particular."""
    root: dict[str, Value] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)
    """Where each member and each list item was written."""
    placeholders: set[Path] = field(default_factory=set)
    """Values that stand in for what an absent variable would have said."""
    unsaid: set[Path] = field(default_factory=set)
    """Those, and the ones that had to be left out because no text could stand in for them."""
    expanded: dict[Path, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Of values that variables or files gave, in part or whole: each such text, and how it was
    written."""

    def origin(self, path: Path) -> Origin:
        """Of the setting, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return Origin(self.name)

    def known(self, path: Path) -> Path:
        """The path without the steps that nobody wrote, such as the index of an only item."""
        found: Path = ()
        for step in path:
            if (*found, step) in self.origins:
                found = (*found, step)
        return found

    def stands_in(self, path: Path) -> bool:
        """Whether the value is there only because a variable is not."""
        return self.known(path) in self.placeholders

    def problem(self, fault: Fault) -> Problem:
        """The fault with its place, and without what a variable or a file gave at that place.

        Indices that nobody wrote are left out of it.
        """
        path: Path = ()
        for step in fault.path:
            if isinstance(step, str) or (*path, step) in self.origins:
                path = (*path, step)
        origin = self.origin(path)
        unseen = self._given_at(self.known(fault.path))
        message, remedy = hide(fault.message, unseen), hide(fault.remedy, unseen)
        return Problem(dotted(path), str(origin), origin.line, message, remedy)

    def _given_at(self, path: Path) -> dict[str, str]:
        given = (pairs for place, pairs in self.expanded.items() if place[: len(path)] == path)
        return long_enough(pair for pairs in given for pair in pairs)

    def put(self, path: Path, value: Value, origin: Origin) -> str | None:
        """Set one value, whoever set it before. Returns why not when the way there is blocked."""
        here: Value = self.root
        for depth, step in enumerate(path):
            last = depth == len(path) - 1
            key = _key(here, step)
            if isinstance(key, Refusal):
                return f"{dotted(path[:depth])} {key.why}"
            if last or not _has(here, key):
                grown: Value = value if last else _container(path[depth + 1])
                self._forget(path[: depth + 1])
                _set(here, key, grown)
                self.origins[path[: depth + 1]] = origin
            here = _get(here, key)
        for below, _ in walk(value):
            self.origins[path + below] = origin
        return None

    def has(self, path: Path) -> bool:
        """Whether something is there."""
        here: Value = self.root
        for step in path:
            if isinstance(here, str) or not _has(here, step):
                return False
            here = _get(here, step)
        return True

    def text(self, path: Path) -> str | None:
        """The text at a place; None where there is none, or something larger."""
        here: Value = self.root
        for step in path:
            if isinstance(here, str) or not _has(here, step):
                return None
            here = _get(here, step)
        return here if isinstance(here, str) else None

    def drop(self, path: Path) -> None:
        """Take a member out, as if nobody had written it."""
        here: Value = self.root
        for step in path[:-1]:
            here = _get(here, step)
        if isinstance(here, dict):
            del here[str(path[-1])]
            self._forget(path)

    def replace(self, path: Path, value: str) -> None:
        """Another text at a place that exists."""
        here: Value = self.root
        for step in path[:-1]:
            here = _get(here, step)
        _set(here, path[-1], value)

    def _forget(self, path: Path) -> None:
        for known in [known for known in self.origins if known[: len(path)] == path]:
            del self.origins[known]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path that cannot be followed."""

    why: str


def walk(value: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Everything below a value, parents first."""
    members: Iterator[tuple[str | int, Value]]
    if isinstance(value, str):
        return
    members = iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))
    for step, inner in members:
        yield (*path, step), inner
        yield from walk(inner, (*path, step))


def _container(step: str | int) -> Value:
    return [] if isinstance(step, int) else {}


def _key(here: Value, step: str | int) -> str | int | Refusal:
    match here:
        case dict():
            return str(step)
        case list():
            if not isinstance(step, int):
                return Refusal(f"is a list, and {step!r} is not an index")
            if step > len(here):
                items = "1 item" if len(here) == 1 else f"{len(here)} items"
                return Refusal(f"has {items}, so the next index is {len(here)}")
            return step
        case str():
            return Refusal("is a single text already, with nothing inside")


def _has(here: Value, key: str | int) -> bool:
    if isinstance(here, dict):
        return str(key) in here
    return isinstance(key, int) and key < len(here)


def _get(here: Value, key: str | int) -> Value:
    if isinstance(here, dict):
        return here[str(key)]
    if isinstance(here, list) and isinstance(key, int):
        return here[key]
    raise KeyError(key)


def _set(here: Value, key: str | int, value: Value) -> None:
    if isinstance(here, dict):
        here[str(key)] = value
    elif isinstance(here, list) and isinstance(key, int):
        here[key : key + 1] = [value]
