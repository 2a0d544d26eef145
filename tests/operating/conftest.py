"""A migrated database, a look at it, and command lines that mean it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from gateway.store.migrate import migrate
from gateway.store.operator import Desk, desk
from tests.operating.noted import Noted
from tests.operating.rows import FILE, Rows


@pytest.fixture
async def database(dsn: str) -> str:
    """The DSN of a database that is at our version."""
    await migrate(dsn)
    return dsn


@pytest.fixture
async def rows(database: str) -> AsyncIterator[Rows]:
    """The tables, by another session."""
    connection = await asyncpg.connect(database)
    made = Rows(connection)
    await made.begin()
    yield made
    await connection.close()


@pytest.fixture
async def at(database: str, rows: Rows) -> AsyncIterator[Desk]:
    """An operator's session."""
    async with desk(database) as opened:
        yield opened


@pytest.fixture
def file(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database)
    path = tmp_path / "gateway.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def noted(file: Path, rows: Rows) -> Noted:
    return Noted(file, rows.sql)
