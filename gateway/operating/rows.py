"""Rows of somebody else's records: a file, standard input, or a query against their own database.

They stream: however many there are, a few thousand lie in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import asyncpg

from gateway.failures import sentence
from gateway.operating.formats import READERS, Format, Lines, Row, distinct, format_of
from gateway.sources import Unusable
from gateway.store.multihost import CONNECT_ERRORS, Session, hang_up, parse

# Seconds until another team's database has to have answered a log-in.
CONNECT_TIMEOUT = 10.0
# So many rows of a query come with one trip.
FETCHED = 2_000


class SourceAway(Exception):
    """The database that is to be asked does not answer."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: either a file (`-` is standard input), or a query at a database."""

    file: str | None
    query: str | None
    dsn: str | None
    format: Format | None
    """None lets the file's name say it, or its first byte."""

    @property
    def unit(self) -> str:
        """What a row's number counts."""
        return "line" if self.query is None else "row"

    def digest(self) -> str | None:
        """Tells the content of files apart, whatever their names; None for what may be another one
        the next time. Raises Unusable.
        """
        if self.file is None or self.file == "-":
            return None
        try:
            with Path(self.file).open("rb") as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    return None
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise Unusable(sentence(error)) from None


class Rows:
    """An opened source; iterated once. Iterating raises Unusable and SourceAway."""

    def __init__(
        self, rows: AsyncIterator[Row], size: int | None, position: Callable[[], int]
    ) -> None:
        self._rows = rows
        self.size = size
        """Bytes; None where nobody can tell."""
        self.position = position
        """Bytes that were read of them."""

    def __aiter__(self) -> AsyncIterator[Row]:
        return self._rows


def source(
    file: str | None, query: str | None = None, dsn: str | None = None, format_: str | None = None
) -> Source:
    """What a command line means. Raises Unusable."""
    if (file is None) == (query is None):
        raise Unusable("write one source: FILE, or - for standard input, or --query SQL --dsn DSN")
    if (query is None) != (dsn is None):
        raise Unusable("--query SQL and --dsn DSN go together: the database that is to be asked")
    if query is not None and format_ is not None:
        raise Unusable("--format is for files; leave it out beside --query")
    if format_ is not None and format_ not in [*Format]:
        raise Unusable(f"--format: {format_!r} is none that there is; write csv or ndjson")
    if dsn is not None:
        _require_dsn(dsn)
    return Source(file, query, dsn, None if format_ is None else Format(format_))


def _require_dsn(dsn: str) -> None:
    try:
        parse(dsn)
    except ValueError as error:
        raise Unusable(f"--dsn: {error}") from None


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Rows]:
    """Its rows, for as long as they are wanted. Raises Unusable and SourceAway."""
    async with AsyncExitStack() as stack:
        if source.query is not None and source.dsn is not None:
            connection = await _connect(source.dsn)
            stack.push_async_callback(hang_up, connection)
            queried = _asked(connection, source.query)
            yield Rows(await stack.enter_async_context(aclosing(queried)), None, lambda: 0)
            return
        try:
            file, size = stack.enter_context(_file(source.file or "-"))
            lines = Lines(file)
            read = READERS[source.format or format_of(source.file or "-", lines)]
        except OSError as error:
            raise Unusable(sentence(error)) from None
        each = _each(read(lines))
        yield Rows(await stack.enter_async_context(aclosing(each)), size, lambda: lines.bytes)


@contextmanager
def _file(name: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """It, and its size where it has one."""
    if name == "-":
        yield sys.stdin.buffer, None
        return
    with Path(name).open("rb") as file:
        status = os.fstat(file.fileno())
        yield file, status.st_size if stat.S_ISREG(status.st_mode) else None


async def _each(rows: Iterator[Row]) -> AsyncGenerator[Row]:
    for row in rows:
        yield row


async def _connect(dsn: str) -> asyncpg.Connection:
    """The first host that answers: a standby will do. Raises SourceAway."""
    target = parse(dsn)
    said = []
    for one in target.dsns:
        try:
            return await asyncpg.connect(
                one,
                connection_class=Session,
                timeout=CONNECT_TIMEOUT,
                statement_cache_size=target.cached_statements,
            )
        except CONNECT_ERRORS as error:
            said.append(sentence(error))
    raise SourceAway("; ".join(dict.fromkeys(said)))


async def _asked(connection: asyncpg.Connection, query: str) -> AsyncGenerator[Row]:
    """In one transaction that only reads: nothing of theirs changes, a pooler keeps it whole."""
    try:
        async with connection.transaction(readonly=True):
            statement = await connection.prepare(query)
            distinct([attribute.name for attribute in statement.get_attributes()])
            number = 0
            async for record in statement.cursor(prefetch=FETCHED):
                number += 1
                yield Row(number, dict(record), exact=False)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        if isinstance(error, OSError) or connection.is_closed():
            raise SourceAway(sentence(error)) from error
        raise Unusable(f"--query: {sentence(error)}") from None
