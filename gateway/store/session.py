"""Sessions with Postgres: one statement, one transaction, one verdict on what became of it.

Whatever goes wrong with a statement is one of three things, and callers know no others:

    NoSession   nothing left us
    Lost        it left and no reply came: it may have taken effect, now or later
    Aborted     the server said no: it took no effect

These are not asyncpg's pools. A pool asks the server to cancel a statement whose time is up and
waits for the answer, on the very network that does not answer (twice its `command_timeout`, for
good without one), and a cancelled wait for synchronous replication turns into a commit on one node
only. Here a statement's time ends by dropping its connection. How many sessions there are is
bounded by the callers, who have a fixed number of lanes (batch.py).

No session state is ever set, so nothing needs to be reset and a pooler in transaction mode may
stand in between.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import asyncpg

from gateway.store.multihost import NoWritableHost, Target, connect, hang_up
from gateway.store.queries import Statement

# One try of a statement. A caller has 1.8 s in all: that leaves the rest for a second try on a new
# connection, and is long enough for a disk that takes a breath.
TRY = 1.2
# A session is replaced after this many seconds, so that those to a demoted or drained server go
# away by themselves.
MAX_AGE = 600.0

Record = Sequence[Any]
Birth = tuple[int, float]
"""The generation and the moment in which a connection was opened."""


class Remedy(Enum):
    """What to do about a statement that the server refused."""

    AGAIN = "again"
    APART = "apart"
    """One element is to blame: run the others without it."""
    GIVE_UP = "give_up"


class NoSession(Exception):
    """No connection to a server that accepts writes: nothing left us."""


class Lost(Exception):
    """The statement left and no reply came: it may have taken effect."""


class Aborted(Exception):
    """The server refused the statement: it took no effect."""

    def __init__(self, why: str, kind: str, remedy: Remedy) -> None:
        super().__init__(why)
        self.kind = kind
        self.remedy = remedy


# By SQLSTATE: the value of the `kind` label, and what helps. What is not here is `other`, and
# nothing helps.
_VERDICTS = {
    "25006": ("read_only", Remedy.AGAIN),  # a demoted primary
    "40001": ("deadlock", Remedy.AGAIN),  # serialization_failure
    "40P01": ("deadlock", Remedy.AGAIN),
    "55P03": ("lock", Remedy.APART),
    "57014": ("canceled", Remedy.AGAIN),  # statement_timeout of the role, or a person
    "26000": ("prepared", Remedy.AGAIN),  # a pooler gave us a server that never saw our statement
    "42P05": ("prepared", Remedy.AGAIN),  # or one that saw somebody else's of that name
    "3F000": ("schema", Remedy.AGAIN),  # not migrated yet
    "42P01": ("schema", Remedy.AGAIN),
}
# Data exceptions, violated constraints, program limits: one element's fault.
_ONE_TO_BLAME = ("22", "23", "54")
# Connection exceptions, shutdown, crash: the session is over, its last statement's fate unknown.
_OVER = ("08", "57P")


def verdict(state: str) -> tuple[str, Remedy]:
    """The error kind of an SQLSTATE, and its remedy."""
    if state[:2] in _ONE_TO_BLAME:
        return "data", Remedy.APART
    return _VERDICTS.get(state, ("other", Remedy.GIVE_UP))


class Sessions:
    """Connections that are kept for the next statement, newest first."""

    def __init__(
        self,
        target: Target,
        clock: Callable[[], float],
        on_error: Callable[[str], None],
        on_statement: Callable[[str, float, int], None],
    ) -> None:
        self._target = target
        self._clock = clock
        self._on_error = on_error
        self._on_statement = on_statement
        self._idle: list[tuple[asyncpg.Connection, Birth]] = []
        self._busy: dict[asyncpg.Connection, Birth] = {}
        self._generation = 0
        self._closed = False
        self.opened = 0
        """How many so far: a new one may lead to a server that lost the latest rows."""
        self.utf8 = True
        """Whether the database can spell every character; as its last session said."""
        self.away_since: float | None = clock()
        self.why = "starting"
        self.last_success = clock()

    def is_up(self) -> None:
        """A statement on our own tables succeeded."""
        self.last_success = self._clock()
        self.away_since = None

    def is_away(self, why: str) -> None:
        """A statement, a connection or a check failed."""
        self.why = why
        if self.away_since is None:
            self.away_since = self._clock()

    async def take(self) -> asyncpg.Connection:
        """A connection for one statement, which must go to `run` or `give_back` at once.

        Raises NoSession.
        """
        while self._idle:
            connection, birth = self._idle.pop()
            if connection.is_closed() or not self._is_fresh(birth):
                connection.terminate()
                continue
            self._busy[connection] = birth
            return connection
        return await self._open()

    async def run(
        self,
        connection: asyncpg.Connection,
        statement: Statement,
        args: Sequence[Any],
        size: int,
        *,
        seconds: float = TRY,
    ) -> list[Record]:
        """One statement on a connection of `take`, within `seconds`. Raises Lost or Aborted."""
        loop = asyncio.get_running_loop()
        began = self._clock()
        timer = loop.call_later(seconds, connection.terminate)
        usable = False  # until the server has answered: a caller that leaves breaks it off
        try:
            rows: list[Record] = await connection.fetch(statement.sql, *args)
            usable = True
        except asyncpg.PostgresError as error:
            usable = True
            raise self._refused(connection, error, timer) from error
        except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            if isinstance(error, ValueError):  # an argument that asyncpg cannot encode; not sent
                usable = True
                self._on_error("data")
                raise Aborted(str(error), "data", Remedy.APART) from error
            # "cannot switch to state …" among them: a connection that broke at a bad moment.
            raise self._lost(connection, error, timer) from error
        finally:
            timer.cancel()
            if not usable:
                connection.terminate()
            self.give_back(connection)
            self._on_statement(statement.name, self._clock() - began, size)
        return rows

    async def ask(self, statement: Statement, *args: Any, seconds: float = TRY) -> list[Record]:
        """`take` and `run` in one. Raises NoSession, Lost or Aborted."""
        return await self.run(await self.take(), statement, args, 1, seconds=seconds)

    async def fetch(self, statement: Statement, *args: Any, seconds: float = TRY) -> list[Record]:
        """The same for a statement on our own tables, whose success proves that all is well."""
        rows = await self.ask(statement, *args, seconds=seconds)
        self.is_up()
        return rows

    def expire(self) -> None:
        """No session that is open now serves another statement."""
        self._generation += 1
        for connection, _ in self._idle:
            connection.terminate()
        self._idle.clear()

    async def close(self) -> None:
        """Say goodbye where somebody listens, hang up elsewhere."""
        self._closed = True
        for connection in list(self._busy):
            connection.terminate()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(hang_up(connection) for connection, _ in idle))

    async def _open(self) -> asyncpg.Connection:
        if self._closed:
            raise NoSession("the store is closed")
        birth = (self._generation, self._clock())
        try:
            connection = await connect(self._target)
        except NoWritableHost as error:
            self._on_error(error.kind)
            self.is_away(f"the store does not answer: {error}")
            raise NoSession(str(error)) from error
        self.opened += 1
        self.utf8 = getattr(connection.get_settings(), "server_encoding", "UTF8") == "UTF8"
        self._busy[connection] = birth
        return connection

    def _is_fresh(self, birth: Birth) -> bool:
        generation, opened = birth
        return generation == self._generation and self._clock() - opened < MAX_AGE

    def give_back(self, connection: asyncpg.Connection) -> None:
        """The end of `take`, for whoever has nothing to run after all; `run` does it by itself."""
        birth = self._busy.pop(connection)
        if connection.is_closed():
            return
        if self._closed or not self._is_fresh(birth):
            connection.terminate()
        else:
            self._idle.append((connection, birth))

    def _refused(
        self,
        connection: asyncpg.Connection,
        error: asyncpg.PostgresError,
        timer: asyncio.TimerHandle,
    ) -> Lost | Aborted:
        state = error.sqlstate or ""
        if state.startswith(_OVER):
            return self._lost(connection, error, timer)
        kind, remedy = verdict(state)
        self._on_error(kind)
        if kind == "read_only":
            self.is_away("the server is read-only")
            self.expire()
        if kind == "prepared":
            self._target = replace(self._target, cached_statements=0)
            self.expire()
        return Aborted(f"{state} {error}", kind, remedy)

    def _lost(
        self, connection: asyncpg.Connection, error: Exception, timer: asyncio.TimerHandle
    ) -> Lost:
        timed_out = asyncio.get_running_loop().time() >= timer.when()
        why = "no reply in time" if timed_out else str(error)
        self._on_error("timeout" if timed_out else "connection")
        self.is_away(f"the store does not answer: {why}")
        connection.terminate()
        if timed_out:
            self.expire()  # the others lead to the same silent host
        return Lost(why)


async def pause() -> None:
    """Before the next try; the dice keep two that collided from colliding again."""
    await asyncio.sleep(random.uniform(0.005, 0.05))
