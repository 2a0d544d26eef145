"""Postgres: one server for a session (for each worker of a parallel one), a database for a test."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.store.embedded import EmbeddedPostgres


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A server that forgets everything in a power cut, which a test run may: fsync is off."""
    place = Path(tempfile.mkdtemp(prefix="dedup-test-"))
    place.chmod(0o711)  # as root, Postgres runs as another user, who has to pass here
    settings = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
    server = EmbeddedPostgres(place / "store", settings=settings, log=lambda *_, **__: None)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(place)


@pytest.fixture
async def dsn(postgres_dsn: str) -> AsyncIterator[str]:
    """An empty database of the test's own."""
    name = f"test_{uuid.uuid4().hex}"
    admin = await asyncpg.connect(postgres_dsn)
    try:
        await admin.execute(f"create database {name}")
        yield urlsplit(postgres_dsn)._replace(path=f"/{name}").geturl()
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()
