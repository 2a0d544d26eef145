"""One run of a verb that acts on entries: on one event, or on all that are meant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.core.operating import Action, Refusal
from gateway.operating import bulk, listing, meant
from gateway.operating.bulk import Deed, Tally
from gateway.operating.claims import key_of
from gateway.operating.ending import ask, confirm, end, say, say_json
from gateway.operating.options import Event, Which
from gateway.operating.refused import about, why_not
from gateway.operating.story import Story, as_dict, as_text, story
from gateway.process import FOUND
from gateway.sources import Unusable
from gateway.store.operator import By, Desk, Filter, Group, Seen


@dataclass(frozen=True, slots=True)
class Run:
    """What the command line says beside which entries are meant."""

    action: Action
    config: Path | None
    by: By | None
    """None for one that only counts."""
    yes: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """What is meant, before anything is done."""

    wanted: Filter
    groups: list[Group]
    now: float

    @property
    def total(self) -> int:
        return sum(group.entries for group in self.groups)


def act(run: Run, event: Event, which: Which) -> int:
    """Do it; the exit code. Raises Unusable."""
    if not event.is_named:
        return _on_many(run, meant.waiting(which))
    if which.is_narrow:
        raise Unusable(
            "an event by its ID, --body or --key takes no --state, --older-than or --why"
        )
    return _on_one(run, key_of(run.config, event))


def _on_one(run: Run, key: bytes) -> int:
    before = ask(run.config, lambda desk: story(desk, key))
    entry, at = before.known.entry, before.known.entry_key
    if entry is None or at is None:
        end(FOUND, f"the inbox has no entry of this event; its key is {key.hex()}")
    by = run.by
    if by is None:
        _show_one(run, before)
        return 0

    async def work(desk: Desk) -> Refusal | None:
        if await desk.act(run.action, [Seen(at, entry.state, entry.attempt)], by):
            return None
        (known,) = await desk.known([key])
        return why_not(run.action, known)

    refused = ask(run.config, work)
    after = ask(run.config, lambda desk: story(desk, key))
    if run.as_json:
        done = {"action": run.action.value, "done": int(refused is None), "refused": refused}
        say_json({**done, "event": as_dict(after)})
    if refused is not None:
        end(FOUND, f"nothing was done: {about(refused, after.known)}")
    if not run.as_json:
        say(as_text(after))
    return 0


def _show_one(run: Run, found: Story) -> None:
    """What would be done, and why not if it would not."""
    would = why_not(run.action, found.known)
    refused = None if would is Refusal.CHANGED else would  # as it is now, nothing is in the way
    if run.as_json:
        done = {"action": run.action.value, "done": 0, "refused": refused}
        say_json({**done, "event": as_dict(found)})
        return
    nor = "" if refused is None else f", nor would be: {about(refused, found.known)}"
    say(f"{as_text(found)}\n\n{_entries(1)}; nothing was done{nor}")


def _on_many(run: Run, which: Which) -> int:
    counted = ask(run.config, lambda desk: _counted(desk, which))
    if run.by is None:
        _show_count(run, counted)
        return 0
    if counted.total and not run.yes:
        listing.show_groups(counted.groups, counted.now)
        confirm(f"{run.action.value.capitalize()} {_entries(counted.total)}?", yes=False)
    tally = Tally()
    try:
        if counted.total:
            _act_on_all(run, run.by, counted, tally)
    finally:  # Ctrl-C, or a store that went away: what was done is done
        if run.as_json:
            say_json({**bulk.as_dict(run.action, tally), "matching": counted.total})
        else:
            say(bulk.as_text(run.action, tally))
    return FOUND if tally.refused else 0


def _act_on_all(run: Run, by: By, counted: Counted, tally: Tally) -> None:
    with _bar(run, counted.total) as bar:
        (task,) = bar.task_ids
        deed = Deed(run.action, by, lambda handled: bar.update(task, completed=handled))
        ask(run.config, lambda desk: bulk.act_on_all(desk, counted.wanted, deed, tally))


async def _counted(desk: Desk, which: Which) -> Counted:
    wanted = meant.entries(desk, which, otherwise=())
    return Counted(wanted, await desk.count(wanted), desk.now)


def _show_count(run: Run, counted: Counted) -> None:
    if run.as_json:
        groups = listing.groups_dict(counted.groups)
        say_json({"action": run.action.value, "matching": counted.total, "groups": groups})
        return
    if counted.groups:
        listing.show_groups(counted.groups, counted.now)
    say(f"{_entries(counted.total)}; nothing was done")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


@contextmanager
def _bar(run: Run, total: int) -> Iterator[Progress]:
    """Only for a person who looks on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = run.as_json or not sys.stderr.isatty()
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        bar.add_task(run.action.value, total=total)
        yield bar
