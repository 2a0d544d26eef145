"""Claims and entries as a test wants them, and what workers do to them by the gateway's SQL."""

from __future__ import annotations

import os
from typing import Any

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.keying import digest
from gateway.store.known import Known
from gateway.store.operator import Desk
from gateway.store.queries import read

FILE = """\
store: {dsn: "${DATABASE_URL}"}
routes:
  - name: orders
    path: /hooks/orders
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/event_id
  - name: payments
    path: /hooks/payments
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: [form:txn_id, literal:v1, form:status]
    scope: payments
  - name: accounts
    path: /hooks/accounts
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/id
    scope: header:X-Account
  - name: tickets
    path: /hooks/tickets
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/id
    operation_key: [literal:ticket, json:/order/id, header:X-Topic]
  - name: mails
    path: /hooks/mails
    upstream: {url: "http://127.0.0.1:3000"}
    batch: {items: json:/*, event_id: json:/id}
"""
INBOX, CLAIMS = read("inbox.sql"), read("claims.sql")
ORDERS, BILLING = 1, 2
WAIT = "100ms"
TOKEN = 7


def key_of(event_id: str, route: str = "orders") -> bytes:
    return digest([route], [event_id])


class Rows:
    """Rows made by hand."""

    def __init__(self, sql: asyncpg.Connection) -> None:
        self.sql = sql

    async def begin(self) -> None:
        for number, name in ((ORDERS, "orders"), (BILLING, "billing")):
            await self.sql.execute(
                "insert into dedup.routes (id, name, recipe) values ($1, $2, '')", number, name
            )

    async def claim(
        self,
        event_id: str = "evt_1",
        *,
        state: str = "d",
        attempt: int | None = None,
        lease: float | None = None,
    ) -> bytes:
        """`lease`: seconds that are left of it."""
        key = key_of(event_id)
        held = state in "cC"
        await self.sql.execute(
            "insert into dedup.claims"
            " (key, first_seen, route, state, fingerprint, token, until, attempt, event_id)"
            " values ($1, extract(epoch from now()) - 60, $2, $3, $4, $5,"
            " now() + $6 * interval '1 second', $7, $8)",
            UUID(key),
            ORDERS,
            state.encode(),
            b"\x07",
            TOKEN if held else None,
            (30.0 if lease is None else lease) if held else None,
            attempt if state in "dD" else attempt or 1,
            event_id,
        )
        return key

    async def entry(
        self,
        event_id: str = "evt_1",
        *,
        state: str = "x",
        attempt: int = 3,
        doubtful: bool = False,
        due: float = 0.0,
        age: float = 60.0,
        why: str | None = None,
        route: int = ORDERS,
        claim: str | None = "s",
        headers: bytes = b"Content-Type:application/json\r\n",
        body: bytes = b"{}",
        target: str = "/hooks/orders",
    ) -> bytes:
        """`due` and `age` in seconds from and before now; with a claim in that state."""
        key = key_of(event_id)
        if claim is not None:
            await self.claim(event_id, state=claim)
        await self.sql.execute(
            "insert into dedup.entries"
            " (key, route, state, doubtful, attempt, fingerprint, token, due, since,"
            " received, settled, why, event_id, method, target, peer, scheme, headers, body)"
            " values ($1, $2, $3, $4, $5, $6, $7, now() + $8 * interval '1 second',"
            " now() - $9 * interval '1 second', now() - $9 * interval '1 second',"
            " case when $10 then now() end, $11, $12, 'POST', $13, '192.0.2.1', 'http', $14, $15)",
            UUID(key), route, state.encode(), doubtful, attempt, b"\x07", TOKEN, due, age,
            state not in "pl", why, event_id.encode(), target, headers, body,
        )  # fmt: skip
        return key

    async def batch(
        self,
        *event_ids: str,
        claims: str = "s",
        unkeyed: bool = False,
        **more: Any,
    ) -> bytes:
        """An entry for so many claims, in these states; the last one is that of the rest."""
        more.setdefault("state", "x")
        entry = await self.entry(",".join(event_ids), claim=None, **more)
        for number, event_id in enumerate(event_ids):
            state = claims[min(number, len(claims) - 1)]
            await self.claim(event_id, state=state)
            await self.sql.execute(
                "insert into dedup.entry_items (key, entry, fingerprint, event_id)"
                " values ($1, $2, $3, $4)",
                UUID(key_of(event_id)), UUID(entry), b"\x08", event_id.encode(),
            )  # fmt: skip
        await self.sql.execute(
            "update dedup.entries set unkeyed = $2 where key = $1", UUID(entry), unkeyed
        )
        return entry

    async def lease(self, token: int, *, seconds: float = 30.0, most: int = 1) -> list[Any]:
        """As a worker does."""
        asked = (ORDERS, most, token, seconds, 10**9)
        return list(await self.sql.fetch(INBOX["lease"].sql, *asked))

    async def put_back(self, key: bytes, token: int, *, state: str = "p") -> bool:
        """A worker whose attempt failed."""
        found = await self.sql.fetch(
            INBOX["put_back"].sql,
            [UUID(key)], [token], [state.encode()], [False], [False], [0.0], ["500"], WAIT,
        )  # fmt: skip
        return bool(found)

    async def succeed(self, key: bytes, token: int) -> bool:
        """A worker or holder, present or past, whose attempt succeeded."""
        found = await self.sql.fetch(
            CLAIMS["complete"].sql, [UUID(key)], [ORDERS], [token], [b"\x07"], ["evt"], WAIT
        )
        return bool(found)

    async def arrive(self, key: bytes, token: int) -> Any:
        """A delivery comes."""
        return await self.sql.fetchrow(
            CLAIMS["arrive"].sql, [UUID(key)], [ORDERS], [token], [30.0], [b"\x07"], ["evt"], WAIT
        )

    async def take_over(self, key: bytes, attempt: int, state: bytes, token: int) -> Any:
        """The second step of one that found the claim open."""
        return await self.sql.fetchrow(
            CLAIMS["take_over"].sql,
            [UUID(key)],
            [attempt],
            [state],
            [token],
            [30.0],
            [b"\x07"],
            ["evt"],
            WAIT,
        )

    async def recorded(self) -> list[tuple[str, str, str | None, int | None]]:
        found = await self.sql.fetch(
            "select who, action, why, attempt from dedup.actions order by id"
        )
        return [tuple(row) for row in found]


def random_token() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1


async def known(at: Desk, key: bytes) -> Known:
    (found,) = await at.known([key])
    return found
