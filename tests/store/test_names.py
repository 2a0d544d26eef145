"""Names of prepared statements, which other processes meet behind a pooler."""

from __future__ import annotations

import asyncio
import sys

from gateway.store.multihost import connect, hang_up, parse

ASKED = """\
import asyncio, sys
from tests.store.test_names import names
print(*asyncio.run(names(sys.argv[1])))
"""


async def names(dsn: str) -> set[str]:
    """What a session of ours has prepared after two questions."""
    session = await connect(parse(dsn))
    await session.fetch("select $1::int8", 1)
    rows = await session.fetch("select name from pg_prepared_statements")
    await hang_up(session)
    return {name for (name,) in rows}


async def test_no_two_processes_give_a_prepared_statement_the_same_name(dsn: str) -> None:
    ours = await names(dsn)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASKED, dsn, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await other.communicate()
    theirs = set(said.decode().split())
    assert ours
    assert theirs
    assert not ours & theirs
