"""`backfill`: marks events as processed that the gateway never saw."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gateway import sources
from gateway.config import Dsn, Loaded, hide_in
from gateway.core.claim import State
from gateway.core.keying import digest
from gateway.core.route import Route
from gateway.operating import meant, rows
from gateway.operating.composing import Composer
from gateway.operating.ending import ask, end, say, say_json
from gateway.operating.marking import Mark, Marking, Tally, Terms, as_dict, as_text
from gateway.operating.options import ByOption, DryRunOption, ReasonOption
from gateway.operating.rows import Rows, Source, SourceAway
from gateway.operating.wording import several
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND, STORE_AWAY
from gateway.retaining import kept
from gateway.sources import Unusable
from gateway.store.backfill import Backfill, Processed, Target
from gateway.store.operator import By, Desk, Locked

_OTHER_RECIPE = (
    "route {} made its keys in another way when it was served last: these marks are found by"
    " gateways that run with this configuration, and by no others"
)


@dataclass(frozen=True, slots=True)
class Run:
    """What the command line says."""

    config: Path | None
    route: Route
    retention: timedelta
    """How long the store keeps claims of this route."""
    keep_ids: bool
    hidden: Mapping[str, str]
    """What not to show, and what to show in its place."""
    source: Source
    by: By | None
    """None for one that only counts."""
    from_start: bool
    as_json: bool


def backfill(
    route: Annotated[str, typer.Option("--route", help="The route's name.", metavar="NAME")],
    file: Annotated[
        str | None,
        typer.Argument(help="A row for each event: CSV or NDJSON; - reads stdin.", metavar="FILE"),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(help="Instead of FILE: asked of the consumer's own database.", metavar="SQL"),
    ] = None,
    dsn: Annotated[
        str | None, typer.Option(help="With --query: that database.", metavar="DSN")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="csv or ndjson, where FILE does not say.", metavar="FORMAT"),
    ] = None,
    dry_run: DryRunOption = False,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="Read a file anew of which a part is done."),
    ] = False,
    by: ByOption = None,
    reason: ReasonOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark events as processed, so that deliveries of them are duplicates from now on.

    A row names its event by the places that the route reads its id at, or by `id`, and when it was
    processed by `time`. What has a claim already stays as it is. A file that was broken off goes on
    where it stopped. Exit 1 when rows cannot be used, or all are too old.
    """
    source = rows.source(file, query, dsn, format_)
    loaded = sources.read(config, variables_required=False)
    found = meant.named(loaded, route)
    run = Run(
        config,
        found,
        _retention(loaded, found),
        loaded.keep_ids,
        loaded.hidden,
        source,
        by=None if dry_run else meant.by(by, reason),
        from_start=from_start,
        as_json=as_json,
    )
    raise typer.Exit(_run(run))


def _run(run: Run) -> int:
    """The exit code."""
    tally = Tally()
    composer = Composer(run.route)
    try:
        ask(run.config, lambda desk: _mark(desk, run, composer, tally))
    except SourceAway as away:
        end(STORE_AWAY, f"the database of --dsn cannot be asked: {away}; then run it again")
    except Unusable as error:
        raise Unusable(hide_in(str(error), run.hidden)) from None
    finally:  # Ctrl-C, or a store that went away: what was done is done
        if tally.rows and sys.exc_info()[0] is not None:
            _show(run, tally, ended=False)
    _show(run, tally, ended=True)
    return FOUND if tally.is_found_wrong else 0


async def _mark(desk: Desk, run: Run, composer: Composer, tally: Tally) -> None:
    """Go on with what broke off. What was read to its end is read anew: whoever asks for that may
    have lost the marks, or mended the clock or the retention, and it changes nothing else.
    """
    began = time.monotonic()
    terms = Terms(run.source.unit, run.retention, lambda: desk.now + time.monotonic() - began)
    target = Target(run.route.name, run.route.print, run.keep_ids)
    store = Backfill(desk, target)
    mark: Mark = store.mark
    name, content = _name(run)
    done = await store.done(None if content is None or run.from_start else name)
    if not store.same_recipe:
        typer.echo(_OTHER_RECIPE.format(run.route.name), err=True)
    if run.by is None:
        mark = _only_count(store)
    else:
        tally.before = done
        await store.begin(name, run.by, tally.before)
    try:
        async with rows.opened(run.source) as opened:
            with _bar(run, opened, tally) as told:
                await Marking(composer, terms, tally).run(opened, mark, told)
    except Locked as error:
        end(FOUND, f"others hold some of these events: {error}; run it again")


def _only_count(store: Backfill) -> Mark:
    async def mark(events: Sequence[Processed], rows: int, *, ended: bool) -> Mapping[bytes, State]:
        return await store.there(events)

    return mark


def _name(run: Run) -> tuple[str, str | None]:
    """What the record calls the source; and, of one that is the same each time, its content.

    A query may find other rows in another order, so to skip some of them would leave some out. All
    of it again costs time and changes nothing.
    """
    source = run.source
    content = source.digest()
    of = ["stream"]
    if content is not None:
        of = ["file", content, run.route.print.hex(), source.format or ""]
    elif source.query is not None:
        of = ["query", source.query, str(Dsn(source.dsn or ""))]
    return digest(of[:1], of[1:]).hex(), content


def _retention(loaded: Loaded, route: Route) -> timedelta:
    (seconds,) = (one.retention for one in kept(loaded) if one.route is route)
    return timedelta(seconds=seconds)


def _show(run: Run, tally: Tally, *, ended: bool) -> None:
    dry = run.by is None
    if run.as_json:
        made = {"route": run.route.name, **as_dict(tally, dry=dry, ended=ended)}
        say_json(hide_in(made, run.hidden))
    else:
        text = as_text(tally, run.source.unit, run.retention, dry=dry, ended=ended)
        say(hide_in(text, run.hidden))


@contextmanager
def _bar(run: Run, opened: Rows, tally: Tally) -> Iterator[Callable[[], None]]:
    """Only for a person who looks on; moves when it is called."""
    columns = (
        TextColumn("backfill"),
        BarColumn(),
        TextColumn("{task.description}"),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    hidden = run.as_json or not sys.stderr.isatty()
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=opened.size)

        def told() -> None:
            rows = several(tally.before + tally.rows, "row")
            bar.update(task, completed=opened.position(), description=rows)

        yield told
