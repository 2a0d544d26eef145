"""The statements of batches: their plans, and how long they wait."""

from __future__ import annotations

import uuid

import asyncpg
import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ending
from gateway.store.deliveries import columns
from gateway.store.queries import read
from tests.store.batches import asks_for, ending_of, fresh_items, offer_of
from tests.store.statements import CLAIMS, INBOX, WAIT, arrival
from tests.store.stores import DELIVERY

ITEMS = {name: statement.sql for name, statement in read("items.sql").items()}
MEMORY = """
    insert into dedup.claims (key, first_seen, route, state, fingerprint, attempt)
    select md5(i::text)::uuid, 1, 1, case when i % 50 = 0 then 's' else 'd' end, 'a', 1
      from generate_series(1, 60000) as i
"""
BACKLOG = """
    insert into dedup.entries (key, route, state, doubtful, attempt, fingerprint, token, due,
                               settled, event_id, method, target, peer, scheme, headers, body)
    select md5('entry ' || i)::uuid, 1,
           (array['p', 'd', 'd', 'd', 'd', 'd', 'd', 'x'])[1 + i % 8]::"char",
           false, 1, 'a', 1, now() + (i - 40) * interval '1 second',
           case when i % 8 <> 0 then now() end, '', '', '', '', '', '', ''
      from generate_series(1, 20000) as i
"""
LISTED = """
    insert into dedup.entry_items (key, entry, fingerprint, event_id)
    select md5(i::text)::uuid, md5('entry ' || i / 3)::uuid, 'a', ''
      from generate_series(1, 60000) as i
"""
KEY = "'00000000-0000-0000-0000-000000000000'"


async def plan_of(sql: asyncpg.Connection, name: str, text: str, values: list[str]) -> str:
    await sql.execute(f"prepare {name} as {text}")
    lines = await sql.fetch(f"explain (costs off) execute {name}({', '.join(values)})")
    return "\n".join(line[0] for line in lines)


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_items_and_their_entries_are_found_by_their_keys_however_many_there_are(
    mode: str, size: int, sql: asyncpg.Connection
) -> None:
    for statement in (MEMORY, BACKLOG, LISTED):
        await sql.execute(statement)
    await sql.execute("vacuum analyze dedup.claims, dedup.entries, dedup.entry_items")
    await sql.execute(f"set plan_cache_mode = {mode}")

    def listed(value: str) -> str:
        return "'{" + ",".join([value] * size) + "}'"

    keys = "'{" + ",".join(str(uuid.uuid4()) for _ in range(size)) + "}'"
    chars, texts, ints = listed("a"), listed("x"), listed("1")
    delivery = ["'x'"] * 6
    asked = {
        "complete": (ITEMS, [keys, chars, texts, KEY, "1", "1", "'1s'"]),
        "store": (
            ITEMS,
            [
                keys,
                chars,
                texts,
                KEY,
                "1",
                "1",
                "'p'",
                "1",
                "false",
                "'a'",
                "''",
                *delivery,
                "false",
                "'1s'",
            ],
        ),
        "revive": (ITEMS, [keys, "'1s'"]),
        "arrive": (CLAIMS, [keys, ints, ints, ints, chars, texts, "'1s'"]),
        "lease": (INBOX, ["1", "64", "1", "30", "1000000"]),
    }
    for name, (texts_of, values) in asked.items():
        plan = await plan_of(sql, name, texts_of[name], values)
        assert "Seq Scan on claims" not in plan, plan
        assert "Seq Scan on entry_items" not in plan, plan
        assert "Seq Scan on entries" not in plan, plan


@pytest.mark.parametrize("name", ["complete", "store", "revive"])
async def test_a_statement_of_a_batch_waits_for_a_lock_as_long_as_it_is_told_and_no_longer(
    name: str, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    asks = asks_for(fresh_items(2))
    offer, end = offer_of(asks), ending_of(asks, Ending.RELEASE)
    keys = [UUID(part.key.digest) for part in end.items]
    fingerprints, ids = [b"a", b"a"], [b"", b""]
    storing = (
        keys, fingerprints, ids, UUID(offer.key.digest), 1, offer.token, b"l", 30.0, False, b"a",
        b"", *columns(DELIVERY), False,
    )  # fmt: skip
    await sql.fetch(*arrival(*asks))
    if name == "revive":
        await sql.fetch(ITEMS["store"], *storing, WAIT)
        await sql.execute("update dedup.entries set state = 'x', settled = now()")
    arguments = {
        "complete": (keys, fingerprints, ["", ""], UUID(offer.key.digest), 1, offer.token),
        "store": storing,
        "revive": (keys,),
    }
    async with other.transaction():
        await other.execute("select from dedup.claims for update")
        await other.execute("select from dedup.entries for update")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await sql.fetch(ITEMS[name], *arguments[name], "60ms")
    assert await sql.fetchval("show lock_timeout") == "0"
    await sql.fetch(ITEMS[name], *arguments[name], "60ms")
    assert await sql.fetchval("show lock_timeout") == "0"
