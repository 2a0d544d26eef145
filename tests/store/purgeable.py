"""Claims of every kind and age in a table, with entries that owe some of them."""

from __future__ import annotations

import random
from typing import Any

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import State
from gateway.core.purging import RELEASED_FOR, UNSAID, Purged, purged
from gateway.store.queries import read
from tests.store.stores import as_claim, fresh_key

RETENTION = {name: statement.sql for name, statement in read("retention.sql").items()}

TICK = 0.25
# Each route's: some days, a minute, none registered, and half of the first.
RETENTIONS = {1: 10 * 86400, 2: 60, 3: None, 4: 5 * 86400}
LETTERS = "cCrRsSdD"
ENTRY_LETTERS = "pldxho"
OWED = (b"p", b"l", b"x", b"h")

Row = tuple[Any, ...]


async def register(sql: asyncpg.Connection) -> None:
    """The routes of the claims."""
    await sql.executemany(
        "insert into dedup.routes (id, name, recipe, retention) values ($1, $2, $3, $4)",
        [(number, f"route{number}", b"", kept) for number, kept in RETENTIONS.items()],
    )


class Maker:
    """Makes claims and entries around the ages at which something changes."""

    def __init__(self, seed: int, now: float) -> None:
        self._dice = random.Random(seed)
        self._now = now
        self.claims: list[Row] = []
        self.entries: list[Row] = []
        self.items: list[Row] = []

    def make(self) -> None:
        dice, now = self._dice, self._now
        key, route = UUID(fresh_key().digest), dice.choice(list(RETENTIONS))
        letter = dice.choice(LETTERS)
        kept = RETENTIONS[route] or 86400
        turn = now - dice.choice(
            (kept, kept, RELEASED_FOR, kept + UNSAID, RELEASED_FOR + UNSAID, 0)
        )
        turn += dice.choice((-1, -TICK, 0, 0, TICK, 1))
        first = int(dice.choice((turn, turn, now - 100 * 86400, now - dice.uniform(0, 9e6))))
        until = None
        if letter in "cC":
            until = dice.choice((turn, turn, now - TICK, now, now + 30))
        elif letter not in "sS" and dice.random() < 0.5:
            until = turn
        attempt = None if letter in "dD" else 1
        token = 1 if letter in "cC" else None
        self.claims.append((key, first, route, letter.encode(), b"a", token, until, attempt))
        if letter in "sS" or dice.random() < 0.3:
            self._owe(key, route)

    def _owe(self, key: UUID, route: int) -> None:
        """An entry of its own, or one of a batch, in any state; or none, for it was lost."""
        dice = self._dice
        kind, letter = dice.choice(("own", "own", "batch", "none")), dice.choice(ENTRY_LETTERS)
        if kind == "own":
            self.entries.append((key, route, letter.encode(), False))
        elif kind == "batch":
            entry = UUID(fresh_key().digest)
            self.entries.append((entry, route, letter.encode(), dice.random() < 0.5))
            self.items.append((key, entry))

    async def put(self, sql: asyncpg.Connection) -> None:
        """All of it, into the tables."""
        await sql.executemany(
            "insert into dedup.claims (key, first_seen, route, state, fingerprint, token, until,"
            " attempt) values ($1, $2, $3, $4, $5, $6, to_timestamp($7::float8), $8)",
            self.claims,
        )
        await sql.executemany(
            "insert into dedup.entries (key, route, state, doubtful, attempt, fingerprint, token,"
            " due, settled, unkeyed, event_id, method, target, peer, scheme, headers, body)"
            " values ($1, $2, $3, false, 1, 'a', 1, now(),"
            " case when $3::\"char\" not in ('p', 'l') then now() end, $4,"
            " '', '', '', '', '', '', '')",
            self.entries,
        )
        await sql.executemany(
            "insert into dedup.entry_items (key, entry, fingerprint, event_id)"
            " values ($1, $2, 'a', '')",
            self.items,
        )

    def owed(self) -> set[UUID]:
        """The keys of claims whose events are undelivered."""
        undelivered = {row[0] for row in self.entries if row[2] in OWED}
        listed = {key for key, entry in self.items if entry in undelivered}
        return {row[0] for row in self.claims if row[0] in undelivered | listed}


async def judged(
    sql: asyncpg.Connection, owed: set[UUID], now: float
) -> dict[UUID, tuple[int, Purged]]:
    """What the core would forget of the table as it is: by key, the route, and what kind it is."""
    found = {}
    for row in await sql.fetch("select * from dedup.claims"):
        claim, until = as_claim(row), row["until"]
        settled = None if claim.state is State.CLAIMED or until is None else until.timestamp()
        kind = purged(claim, settled, RETENTIONS[row["route"]], now, owed=row["key"] in owed)
        if kind is not None:
            found[row["key"]] = (row["route"], kind)
    return found


async def begin(sql: asyncpg.Connection) -> int:
    """A run on record, for those who call the statement by hand."""
    run: int = await sql.fetchval("insert into dedup.purges (who) values ('test') returning id")
    return run
