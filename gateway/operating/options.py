"""Options of the commands on claims and entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

IdArgument = Annotated[
    list[str] | None,
    typer.Argument(help="The event's id; each part of a composite one.", metavar="ID"),
]
RouteOption = Annotated[
    str | None, typer.Option("--route", help="The route's name.", metavar="NAME")
]
OperationOption = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        help="Instead of ID, where the key is an operation's: its value; repeated for each part.",
        metavar="VALUE",
    ),
]
BodyOption = Annotated[
    str | None,
    typer.Option(
        "--body",
        help="Instead of ID: a body, or a whole HTTP request, that carries it; - reads stdin.",
        metavar="FILE",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key", help="Instead of ID: the key, as try and --json print it.", metavar="HEX"
    ),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only entries in this state; may be repeated.", metavar="STATE"),
]
OlderOption = Annotated[
    str | None,
    typer.Option("--older-than", help="Only entries received longer ago.", metavar="2h"),
]
WhyOption = Annotated[
    str | None,
    typer.Option(
        "--why",
        help="Only entries whose latest attempt ended in words that begin so.",
        metavar="TEXT",
    ),
]
ByOption = Annotated[
    str | None, typer.Option("--by", help="Who acts; is recorded.", metavar="NAME")
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why; is recorded.", metavar="TEXT")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


@dataclass(frozen=True, slots=True)
class Event:
    """How the command line names one event."""

    ids: tuple[str, ...]
    route: str | None
    body: str | None
    key: str | None
    operation: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Whether it names one at all."""
        given = (self.body, self.key)
        return bool(self.ids or self.operation) or any(one is not None for one in given)


@dataclass(frozen=True, slots=True)
class Which:
    """How the command line describes many entries."""

    route: str | None
    states: tuple[str, ...]
    older_than: str | None
    why: str | None

    @property
    def is_narrow(self) -> bool:
        """Whether it says more than a route, which single events have too."""
        return bool(self.states) or self.older_than is not None or self.why is not None
