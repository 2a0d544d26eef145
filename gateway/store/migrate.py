"""Migrations: the files of migrations/, in order, each once, however many start together.

All that is missing is applied in one transaction under an advisory lock that ends with it, so a
pooler may stand in between and a failure leaves nothing half done. A schema that is newer than this
release is left alone: the previous release runs on the next one's schema.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from gateway.store.multihost import connect, hang_up, parse

# "dedup" in ASCII: everybody who migrates this schema takes the same lock.
LOCK = 0x6465647570
# Whoever waits longer than this for another one's migration has a problem worth reading about.
LOCK_TIMEOUT = "60s"
# A connection that hangs longer than any migration takes, in seconds.
GIVE_UP = 600.0

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_RECORDS = """\
create table dedup.migrations (
    version  int4        primary key,
    name     text        not null,
    applied  timestamptz not null default now()
);
comment on table dedup.migrations is 'How far the schema is.';
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """All that this release knows, in order."""
    found = []
    for file in files("gateway.store").joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            found.append(Migration(int(match[1]), file.name[:-4], file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)


def newest() -> int:
    """The schema version that this release needs."""
    return migrations()[-1].version


def script() -> str:
    """All of it as SQL for somebody who applies it by hand, from nothing."""
    parts = [
        "begin;",
        f"select pg_advisory_xact_lock({LOCK});",
        "create schema if not exists dedup;",
        _RECORDS,
    ]
    for migration in migrations():
        parts += [migration.sql, _record(migration)]
    return "\n".join([*parts, "commit;", ""])


async def migrate(dsn: str) -> list[str]:
    """Apply what is missing; the names of what was applied.

    Raises NoWritableHost when nobody answers, asyncpg.InsufficientPrivilegeError when the role may
    not create what is missing, another of CONNECT_ERRORS when it fails for another reason. The
    schema then is as it was.
    """
    connection = await connect(parse(dsn))
    timer = asyncio.get_running_loop().call_later(GIVE_UP, connection.terminate)
    try:
        # Nothing to do is the usual case, and needs no right to create anything.
        if await _version(connection) >= newest():
            return []
        async with connection.transaction():
            return await _apply(connection)
    finally:
        timer.cancel()
        await hang_up(connection)


async def _apply(connection: asyncpg.Connection) -> list[str]:
    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    await connection.execute(f"select pg_advisory_xact_lock({LOCK})")
    if await connection.fetchval("select to_regnamespace('dedup') is null"):
        await connection.execute("create schema dedup")
    if await connection.fetchval("select to_regclass('dedup.migrations') is null"):
        await connection.execute(_RECORDS)
    version, applied = await _version(connection), []
    for migration in migrations():
        if migration.version > version:
            await connection.execute(migration.sql)
            await connection.execute(_record(migration))
            applied.append(migration.name)
    return applied


async def _version(connection: asyncpg.Connection) -> int:
    if await connection.fetchval("select to_regclass('dedup.migrations') is null"):
        return 0
    version = await connection.fetchval("select coalesce(max(version), 0) from dedup.migrations")
    return int(version)


def _record(migration: Migration) -> str:
    return (
        "insert into dedup.migrations (version, name)"
        f" values ({migration.version}, '{migration.name}');"
    )
