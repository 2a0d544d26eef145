"""Problems: what is wrong with a configuration, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""The way to a setting: names of members and indices of list items."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who set a value."""

    source: str
    """A file's name, `environment DEDUP__MODE`, `flag --listen`."""
    line: int | None = None

    @property
    def from_environment(self) -> bool:
        """Whether a variable set it."""
        return self.source.startswith("environment ")

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with a setting, before anybody knows where that was written."""

    path: Path
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, or one thing worth knowing, for people."""

    path: str
    """`routes.1.upstream.timeout`; list items count from 0."""
    where: str
    """`gateway.yaml:14`, or the variable or flag that set the value."""
    line: int | None
    message: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.path}" if self.path else self.where
        return f"{place}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


class ConfigError(Exception):
    """The configuration cannot be used; says every mistake in it, one on each line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def dotted(path: Path) -> str:
    """The path as people read it."""
    return ".".join(str(step) for step in path)
