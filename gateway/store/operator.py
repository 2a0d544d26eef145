"""The operator's desk: what a person asks of claims and entries, and does to them.

One session of its own, for one command. What was asked for is never asked twice by itself: whoever
is told StoreAway looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import StoreAway
from gateway.core.event import RawHeaders
from gateway.core.inbox import EntryState
from gateway.core.observing import Observed
from gateway.core.operating import Action
from gateway.failures import sentence
from gateway.store.deliveries import LETTERS, STATES, lines
from gateway.store.known import Item, Known, item, known
from gateway.store.multihost import CONNECT_ERRORS, NoWritableHost, connect, hang_up, parse
from gateway.store.observations import observed
from gateway.store.queries import read
from gateway.store.table import kept_text

# A count over a million entries takes some seconds. A person waits that long; the role's usual
# three seconds are for deliveries.
LONGEST = 30
# Milliseconds. Others hold a row for one commit, and give up on ours after as long.
LOCK_WAIT = 100
# How often a row is asked for that others have locked; with the pauses, some two seconds.
LOCKED_TRIES, LOCKED_PAUSE = 10, 0.1

_CLOSED_AS = {Action.DROP: b"o", Action.COMPLETE: b"d"}
_LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
_NOT_MIGRATED = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)
_FIRST_KEY = UUID(bytes(16))


class Unready(Exception):
    """The store is there and cannot be worked with; the message says what to do."""


class Locked(Exception):
    """Others held a row for longer than we wait; nothing was done."""


class By(NamedTuple):
    """Who acts, and why."""

    who: str
    why: str


class Seen(NamedTuple):
    """An entry as it was when it was chosen: the fence of what is done to it."""

    key: bytes
    state: EntryState
    attempt: int


class Recorded(NamedTuple):
    """What an operator did."""

    at: float
    who: str
    action: str
    why: str | None
    attempt: int | None


class Group(NamedTuple):
    """Entries of one route in one state."""

    route: str
    state: EntryState
    entries: int
    oldest: float
    """When the oldest of them was received."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are meant."""

    routes: tuple[int, ...] | None
    """None for all."""
    states: tuple[EntryState, ...]
    before: float
    """Received then or earlier, on the database's clock."""
    why: str | None
    """How their latest attempt ended: the beginning of what is kept of that."""

    def arguments(self) -> tuple[Any, ...]:
        states = [LETTERS[state] for state in self.states]
        return self.routes, states, self.before, self.why


class Desk:
    """One session. All methods raise StoreAway, Unready and Locked."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._statements = read("operator.sql") | read("observations.sql")
        self.routes: Mapping[str, int] = {}
        """All that ever claimed, by name."""
        self.now = 0.0
        """The database's clock when the session began."""

    async def begin(self) -> None:
        """Learn the routes and the time."""
        rows = await self._ask("start")
        self.now = rows[0]["now"]
        self.routes = {row["name"]: row["id"] for row in rows if row["name"] is not None}

    async def known(self, keys: Iterable[bytes]) -> list[Known]:
        """What is known of each."""
        rows = await self._ask("known", [UUID(key) for key in keys])
        return [known(row) for row in rows]

    async def actions(self, *keys: bytes) -> list[Recorded]:
        """What operators did about an event or its entry, the oldest first."""
        rows = await self._ask("actions", [UUID(key) for key in keys])
        return [Recorded(*row) for row in rows]

    async def items(self, entry: bytes) -> list[Item]:
        """The events that a batch's entry stands for."""
        return [item(row) for row in await self._ask("items", UUID(entry))]

    async def find(self, route: str, event_id: str, most: int) -> list[bytes]:
        """The keys of up to `most` claims of a route that keep this id, the oldest first."""
        if route not in self.routes:
            return []
        utf8 = getattr(self._connection.get_settings(), "server_encoding", "UTF8") == "UTF8"
        text = kept_text(event_id, utf8=utf8)
        rows = await self._ask("find", self.routes[route], text, most)
        return [row["key"].bytes for row in rows]

    async def payload(self, key: bytes) -> tuple[RawHeaders, bytes] | None:
        """Headers and body as they came; None when they are gone."""
        for headers, body in await self._ask("payload", UUID(key)):
            return lines(headers), body
        return None

    async def count(self, wanted: Filter) -> list[Group]:
        """How many entries are meant, by route and state."""
        names = {number: name for name, number in self.routes.items()}
        rows = await self._ask("count", *wanted.arguments())
        return [
            Group(names.get(route, f"#{route}"), STATES[state], entries, oldest)
            for route, state, entries, oldest in rows
        ]

    async def oldest(self, wanted: Filter, most: int) -> list[Known]:
        """The entries that are meant, the longest waiting first."""
        rows = await self._ask("oldest", *wanted.arguments(), most)
        return await self.known(row["key"].bytes for row in rows)

    async def pages(self, wanted: Filter, most: int) -> AsyncIterator[list[Seen]]:
        """All entries that are meant, each once, so many at a time."""
        after = _FIRST_KEY
        while rows := await self._ask("pick", *wanted.arguments(), after, most):
            after = rows[-1]["key"]
            yield [Seen(key.bytes, STATES[state], attempt) for key, state, attempt in rows]

    async def observed(self, route: str, recipe: bytes, since: float) -> Observed:
        """What was noted of a route in observe since then, on the database's clock."""
        rows = await self._ask("observed", self.routes.get(route), UUID(recipe), since)
        return observed(rows)

    async def release(self, key: bytes, attempt: int, by: By) -> bool:
        """Free a completed claim, if that attempt still is its latest."""
        rows = await self._patiently("release", UUID(key), attempt, *by)
        return bool(rows)

    async def act(self, action: Action, entries: Sequence[Seen], by: By) -> frozenset[bytes]:
        """Redrive, drop or complete: the keys of those that were as seen, and now are done."""
        asked = (
            [UUID(entry.key) for entry in entries],
            [LETTERS[entry.state] for entry in entries],
            [entry.attempt for entry in entries],
        )
        if action is Action.REDRIVE:
            rows = await self._patiently("redrive", *asked, *by)
        else:
            rows = await self._patiently(
                "close", *asked, _CLOSED_AS[action], by.who, action.value, by.why
            )
        return frozenset(row["key"].bytes for row in rows)

    async def _patiently(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        for _ in range(LOCKED_TRIES):
            try:
                return await self._ask(name, *arguments)
            except Locked:
                await asyncio.sleep(LOCKED_PAUSE)
        return await self._ask(name, *arguments)

    @asynccontextmanager
    async def transaction(
        self, seconds: int, *, isolation: str = "read_committed"
    ) -> AsyncIterator[asyncpg.Connection]:
        """Several statements in one, each of so many seconds at most."""
        with _told():
            async with self._connection.transaction(isolation=isolation):
                await self._connection.execute(_bounds(seconds))
                yield self._connection

    async def _ask(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        with _told():
            # the server's own limit comes first; this one is for a network that broke
            async with asyncio.timeout(LONGEST + 5), self._connection.transaction():
                await self._connection.execute(_bounds(LONGEST))
                rows: list[asyncpg.Record] = await self._connection.fetch(
                    self._statements[name].sql, *arguments
                )
                return rows


def _bounds(seconds: int) -> str:
    """For one transaction: session settings would leak to strangers behind a pooler."""
    return (
        f"select set_config('statement_timeout', '{seconds}s', true),"
        f" set_config('lock_timeout', '{LOCK_WAIT}ms', true)"
    )


@contextmanager
def _told() -> Iterator[None]:
    """What went wrong, in words for a person."""
    try:
        yield
    except _LOCKED as error:
        raise Locked(sentence(error)) from error
    except _NOT_MIGRATED as error:
        raise Unready(
            f"{error}: the schema is older than this release;"
            " run `dedup-gateway migrate`, or `serve` with a role that may"
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise Unready(f"{error}: run deploy/roles.sql again, as the owner") from error
    except CONNECT_ERRORS as error:
        raise StoreAway(sentence(_cause(error)), undecided=True) from error


def _cause(error: Exception) -> Exception:
    """Of a connection that broke: asyncpg says last that its transaction cannot be ended."""
    first = error.__context__ if isinstance(error, asyncpg.InterfaceError) else None
    return first if isinstance(first, Exception) else error


@asynccontextmanager
async def desk(dsn: str) -> AsyncIterator[Desk]:
    """A session, ended afterwards. Raises StoreAway, Unready, and ValueError for the DSN."""
    target = parse(dsn)
    try:
        connection = await connect(target)
    except NoWritableHost as error:
        raise StoreAway(str(error)) from error
    try:
        opened = Desk(connection)
        await opened.begin()
        yield opened
    finally:
        await hang_up(connection)
