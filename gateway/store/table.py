"""What claims and entries have in common: one way to ask for many, and one way to complete.

Both are keyed alike and name their route by number. A success that nothing fences any more ends in
one statement for both, since it completes the claim and closes the entry together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Settled, Settlement, StoreAway
from gateway.core.inbox import Conclusion
from gateway.store.batch import Group
from gateway.store.queries import ForMany, Statement, read
from gateway.store.routes import Routes
from gateway.store.session import TRY, NoSession, Record, Sessions

# Away for longer than this, the store is not asked on behalf of deliveries any more, so that they
# are refused at once; the check in the background finds out when it is back. Shorter interruptions,
# a restart or a switch-over, are waited out.
GIVEN_UP = 2.0
# Longer ids are keyed whole and kept for people in part.
KEPT_CHARACTERS = 255

# A fingerprint is one byte.
BYTE = tuple(bytes((value,)) for value in range(256))
CHANGED, LATE, NOTHING = Settled(True, False), Settled(True, True), Settled(False, False)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Success = TypeVar("Success", Settlement, Conclusion)


class Table:
    """The sessions, as claims and entries use them."""

    def __init__(
        self, sessions: Sessions, routes: Routes, clock: Callable[[], float], *, keep_ids: bool
    ) -> None:
        self._sessions = sessions
        self._routes = routes
        self._clock = clock
        self._keep_ids = keep_ids
        self._complete_statement = ForMany(read("claims.sql")["complete"])

    def expect(self, route: str) -> None:
        """Raises LookupError for a route that was never registered, StoreAway while it is away."""
        if route not in self._routes.recipes:
            raise LookupError(f"route {route!r} was never registered")
        away_since = self._sessions.away_since
        if away_since is not None and self._clock() - away_since > GIVEN_UP:
            raise StoreAway(self._sessions.why)

    async def route_ids(self) -> dict[str, int]:
        """The numbers of the routes by name. Raises NoSession or Aborted."""
        await self._routes.resolve()
        return self._routes.ids

    def texts(self, event_ids: Iterable[str]) -> list[str | None]:
        """What is kept of ids for people."""
        if not self._keep_ids:
            return [None for _ in event_ids]
        return [self.text(event_id) for event_id in event_ids]

    def text(self, text: str) -> str:
        """What the database can keep of it, 255 characters at most."""
        return kept_text(text, utf8=self._sessions.utf8)

    async def run(
        self,
        asked: ForMany,
        groups: Sequence[Group[Any, Any]],
        wait: str,
        *columns: Sequence[Any],
        seconds: float = TRY,
    ) -> list[Record]:
        """One statement for the first calls of groups. Raises NoSession, Lost or Aborted."""
        statement, args = asked.fitting(*columns)
        return await self.send(statement, groups, (*args, wait), len(groups), seconds=seconds)

    async def send(
        self,
        statement: Statement,
        groups: Sequence[Group[Any, Any]],
        args: Sequence[Any],
        size: int,
        *,
        seconds: float = TRY,
    ) -> list[Record]:
        """One statement for calls, about so many keys. Raises NoSession, Lost or Aborted."""
        connection = await self._sessions.take()
        for group in groups:
            for call in group:
                if call.future.done():
                    # Its time was up while we connected, and it was told that nothing had left: a
                    # claim made for it now would have no holder, and nobody would give it back.
                    self._sessions.give_back(connection)
                    raise NoSession("a call was over before its statement left")
                call.out = True
        rows = await self._sessions.run(connection, statement, args, size, seconds=seconds)
        self._sessions.is_up()
        return rows

    async def complete(self, groups: list[Group[Success, Settled]], wait: str) -> None:
        """Successes that no claim of their own fences; one call a group."""
        ids = await self.route_ids()
        successes = [group[0].item for group in groups]
        rows = await self.run(
            self._complete_statement,
            groups,
            wait,
            [UUID(success.key.digest) for success in successes],
            [ids[success.route] for success in successes],
            [success.token for success in successes],
            [BYTE[success.fingerprint] for success in successes],
            self.texts(success.key.event_id for success in successes),
        )
        leased = {row[0].bytes: row[1] for row in rows}
        for (call,) in groups:
            match leased.get(call.key):
                case None:
                    call.tell(NOTHING)
                case by_holder:
                    call.tell(CHANGED if by_holder else LATE)


def kept_text(event_id: str, *, utf8: bool) -> str:
    """What Postgres can keep of an id: no NUL, no lone surrogate, at most 255 characters.

    A database that is not in UTF-8 refuses or miscounts what its encoding lacks, and an event must
    not be turned away for what people would read of it.
    """
    text = event_id[:KEPT_CHARACTERS]
    if text.isascii() and "\x00" not in text:
        return text
    text = _UNSTORABLE.sub("\ufffd", text)
    return text if utf8 else text.encode("ascii", "backslashreplace").decode()[:KEPT_CHARACTERS]
