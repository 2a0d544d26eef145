"""Presets: what a route is set to when it names its provider.

A preset is data: route settings by their dotted names, each with the evidence for it. They lie
under what the route itself says, so a preset fills in and never overrules. `presets/NAME.yaml` has
one of them:

    title, evidence (good, partial, weak), checked (the day of the research)
    doubt        why its id may not be the event's; such a preset starts in `observe`
    signing      `optional` where it signs only once somebody has set that up; else it always does
    settings     {dotted name: {value, confidence, source, note}}; each of `handshakes` has its own
                 evidence, too
    unknown      {dotted name: ...}: settings that no value is known for, and what is known instead
    never        [{where, why, confidence, source}]: what looks like an id, and is none
    special      how the provider reads certain replies
    traps        what has gone wrong for others

A preset's scope is added to the route's name: two routes of one provider never take each other's
events. Every scalar is text, as in a route that somebody wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

Value: TypeAlias = "str | list[Value] | dict[str, Value]"


class Confidence(StrEnum):
    """How well a fact is known."""

    VERIFIED = "verified"
    """Read in the source that is named."""
    MEMORY = "from-memory"
    """Remembered, and read nowhere."""
    CONFLICTING = "conflicting"
    """Sources disagree."""
    INFERRED = "inference"
    """Concluded from other facts."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known of a provider."""

    value: Value
    confidence: Confidence
    source: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Never:
    """Something that looks like an event id and is none."""

    where: str
    """A location, or words where it is not in the request."""
    why: str
    confidence: Confidence
    source: str | None


@dataclass(frozen=True, slots=True)
class Preset:
    """All that is known of one provider."""

    name: str
    title: str
    evidence: str
    checked: date
    doubt: str | None
    """Why its id may not be the event's; None where it is known to be."""
    signs_always: bool
    """False where that has to be set up at the provider."""
    settings: Mapping[str, Fact]
    """By dotted name, as in `promise.timeout`."""
    unknown: Mapping[str, Fact]
    """What is known, in words, of settings that no value is known for."""
    never: tuple[Never, ...]
    special: Fact | None
    traps: tuple[str, ...]

    @property
    def passes(self) -> bool:
        """Whether it has no safe id, so that its deliveries pass through."""
        return "pass_through" in self.settings


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """All presets, in the order of the alphabet."""
    folder = files("gateway.providers") / "presets"
    ending = ".yaml"
    found = (entry.name for entry in folder.iterdir() if entry.name.endswith(ending))
    return tuple(sorted(name.removesuffix(ending) for name in found))


@lru_cache(maxsize=64)
def preset(name: str) -> Preset:
    """One by its name. Raises LookupError that says which there are."""
    if name not in names():
        near = get_close_matches(name, names(), 3) or list(names())
        raise LookupError(f"no preset is called {name!r}; there is {', '.join(near)}")
    text = (files("gateway.providers") / "presets" / f"{name}.yaml").read_text("utf-8")
    return _preset(name, yaml.load(text, Loader=yaml.BaseLoader))  # all scalars stay text


def _preset(name: str, read: Mapping[str, Any]) -> Preset:
    special = read.get("special")
    return Preset(
        name=name,
        title=read["title"],
        evidence=read["evidence"],
        checked=date.fromisoformat(read["checked"]),
        doubt=read.get("doubt"),
        signs_always=read.get("signing") != "optional",
        settings={path: _fact(fact) for path, fact in read["settings"].items()},
        unknown={path: _fact(fact) for path, fact in read.get("unknown", {}).items()},
        never=tuple(_never(one) for one in read.get("never", ())),
        special=None if special is None else _fact(special),
        traps=tuple(read.get("traps", ())),
    )


def _fact(read: Mapping[str, Any]) -> Fact:
    return Fact(read["value"], Confidence(read["confidence"]), read.get("source"), read.get("note"))


def _never(read: Mapping[str, Any]) -> Never:
    return Never(read["where"], read["why"], Confidence(read["confidence"]), read.get("source"))
