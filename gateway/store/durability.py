"""Durability: whether what the server confirms stays there, as far as its settings tell.

A claim that is lost after it was confirmed lets its event through once more, unmarked. An entry
that is lost after it was acknowledged is lost for good: nobody sends that event again.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from gateway.core.claim import StoreAway
from gateway.store.multihost import CONNECT_ERRORS, connect, hang_up, parse
from gateway.store.queries import read

# Somebody waits at a terminal.
WITHIN = 10.0


class Durability(NamedTuple):
    """What a server says of itself."""

    version: str
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    synchronous_standby_names: str
    followers: int

    @property
    def risks(self) -> tuple[str, ...]:
        """One sentence for each way to lose what was confirmed, with what to write instead."""
        return tuple(self._risks())

    def _risks(self) -> list[str]:
        found = []
        if not (self.fsync and self.full_page_writes):
            found.append(
                "fsync or full_page_writes is off: a crash of the machine may lose or damage"
                " every claim; set both to on"
            )
        if self.synchronous_commit == "off":
            found.append(
                "synchronous_commit is off: a crash loses what was confirmed in the last moments;"
                " set it to on for this role"
            )
        if self.followers and not self.synchronous_standby_names:
            found.append(
                f"{self.followers} of others follow this server, and no commit waits for them: one"
                " that takes over may lack the last claims and acknowledged events; set"
                " synchronous_standby_names, if they are there to take over"
            )
        if self.synchronous_standby_names and self.synchronous_commit == "local":
            found.append(
                "synchronous_commit is local: no commit waits for the synchronous standbys;"
                " set it to on for this role"
            )
        return found


STATEMENT = read("durability.sql")["durability"]


async def ask(dsn: str) -> Durability:
    """What the store of that DSN says. Raises StoreAway, and ValueError for a DSN of no use."""
    target = parse(dsn)
    try:
        async with asyncio.timeout(WITHIN):
            connection = await connect(target)
            try:
                row: Any = await connection.fetchrow(STATEMENT.sql)
            finally:
                await hang_up(connection)
    except (TimeoutError, *CONNECT_ERRORS) as error:
        raise StoreAway(str(error) or f"no answer within {WITHIN:.0f} s") from error
    return Durability(*row)
