"""Many entries at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.core.inbox import EntryState
from gateway.operating.story import entry_dict, event_id
from gateway.operating.wording import span, visible
from gateway.screen import screen, show
from gateway.store.known import Known
from gateway.store.operator import Group


def show_entries(entries: Iterable[Known]) -> None:
    """One line for each, folded where a terminal is narrow."""
    table = _table("id", "route", "state", "tries", "age", "due", "latest")
    for known in entries:
        entry, stored = known.entry, known.stored
        if entry is None or stored is None:
            continue  # deleted between the two questions
        table.add_row(
            Text(visible(event_id(known) or f"a batch of {known.items:,}")),
            Text(stored.route),
            entry.state.value + (", doubtful" if entry.doubtful else ""),
            str(entry.attempt),
            span(known.now - stored.received),
            _due(known),
            Text(visible(stored.why or "")),
        )
    show(screen(), table)


def show_groups(groups: Iterable[Group], now: float) -> None:
    """How many of which, on standard error: it stands before a question."""
    table = _table("route", "state", "entries", "oldest")
    for group in groups:
        age = span(now - group.oldest)
        table.add_row(Text(group.route), group.state.value, f"{group.entries:,}", age)
    Console(highlight=False, stderr=True).print(table)


def entries_dict(entries: Iterable[Known]) -> list[dict[str, Any]]:
    """The same as JSON has it."""
    return [
        {
            "event_id": event_id(known),
            "key": known.key.hex(),
            "items": known.items or None,
            "route": known.stored.route if known.stored else None,
            **entry_dict(known),
        }
        for known in entries
        if known.entry is not None
    ]


def groups_dict(groups: Iterable[Group]) -> list[dict[str, Any]]:
    """Counts as JSON has them."""
    return [
        {"route": group.route, "state": group.state.value, "entries": group.entries}
        for group in groups
    ]


def _due(known: Known) -> str:
    entry = known.entry
    if entry is None or entry.state not in (EntryState.PENDING, EntryState.LEASED):
        return ""
    if entry.is_due(known.now):
        return "now"
    return f"in {span(entry.due - known.now)}"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        number = name in ("tries", "entries")
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    return table
