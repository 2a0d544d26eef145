"""Reading the list that an audit is given, onto the disk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from gateway.operating import rows
from gateway.operating.composing import Composer, NoKey
from gateway.operating.ending import end
from gateway.operating.formats import Row
from gateway.operating.rows import Rows, Source, SourceAway
from gateway.operating.spool import Spool
from gateway.operating.wording import visible
from gateway.process import STORE_AWAY
from gateway.sources import Unusable
from gateway.store.audit import Listing

# So many rows that cannot be used are named.
EXAMPLES = 3
# So many rows are read before the bar moves.
A_STEP = 1_000


@dataclass(slots=True)
class Read:
    """What became of the rows of a list."""

    rows: int = 0
    unusable: int = 0
    examples: list[str] = field(default_factory=list)


def read_list(source: Source, composer: Composer, listing: Spool[Listing], *, show: bool) -> Read:
    """All of it; with a bar if somebody looks on and `show` is True. Raises Unusable."""
    try:
        return asyncio.run(_read(source, composer, listing, show=show))
    except SourceAway as away:
        end(STORE_AWAY, f"the database of --dsn cannot be asked: {away}")


@contextmanager
def waiting(*, show: bool) -> Iterator[None]:
    """While the store compares: it does not say how far it is."""
    if not (show and sys.stderr.isatty()):
        yield
        return
    with Console(stderr=True, highlight=False).status("comparing"):
        yield


async def _read(source: Source, composer: Composer, listing: Spool[Listing], *, show: bool) -> Read:
    read = Read()
    async with rows.opened(source) as opened:
        with _bar(opened, show=show) as move:
            async for row in opened:
                read.rows += 1
                if read.rows % A_STEP == 0:
                    move()
                found = _listed(row, composer)
                if isinstance(found, Listing):
                    listing.append(found)
                else:
                    _note(read, f"{source.unit} {row.number}", found)
    if not read.rows and source.query is None:  # an export that went wrong; a query was answered
        raise Unusable("the list has no rows, so there is nothing to compare")
    if read.rows and read.unusable == read.rows:
        raise Unusable(f"no row can be used; {read.examples[0]}")
    return read


def _note(read: Read, where: str, found: NoKey) -> None:
    said = f"{where}: {visible(found.why)}"
    if found.lacks_column:
        raise Unusable(said)
    read.unusable += 1
    if len(read.examples) < EXAMPLES:
        read.examples.append(said)


def _listed(row: Row, composer: Composer) -> Listing | NoKey:
    key = composer.compose(row)
    if isinstance(key, NoKey):
        return key
    at = composer.time(row)
    if isinstance(at, NoKey):
        return at
    return Listing(key.digest, key.event_id, at, row.number)


@contextmanager
def _bar(opened: Rows, *, show: bool) -> Iterator[Callable[[], None]]:
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    console = Console(stderr=True, highlight=False)
    hidden = not (show and sys.stderr.isatty())
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("reading", total=opened.size)
        yield lambda: bar.update(task, completed=opened.position())
