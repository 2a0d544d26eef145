"""Copying rows into a table: what takes any number of them, and may take a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import asyncpg

# So many rows are copied in one go, within so many seconds: for room on a connection that breaks
# meanwhile asyncpg waits for good, whatever its own time-out.
COPIED, COPY_TIMEOUT = 20_000, 60.0


async def copy(sql: asyncpg.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """All of them, into a temporary table. Raises what asyncpg does, and TimeoutError."""
    rows = iter(rows)
    said = full = f"COPY {COPIED}"
    while said == full:
        async with asyncio.timeout(COPY_TIMEOUT):
            said = await sql.copy_records_to_table(
                table, schema_name="pg_temp", records=islice(rows, COPIED)
            )
