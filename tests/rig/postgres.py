"""A Postgres that a test may stop, kill and put out of order."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

from asyncpg import PostgresError

from gateway.store.embedded import EmbeddedPostgres
from tests.rig.deadline import eventually
from tests.rig.world import Database, create_database


class Server:
    """One server on one directory; its DSN stays the same over restarts."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="dedup-e2e-"))
        self.place.chmod(0o711)  # as root, Postgres runs as another user, who has to pass here
        settings = {"fsync": "off", "max_connections": "100"}
        self._embedded = EmbeddedPostgres(
            self.place / "pg", settings=settings, log=lambda *_, **__: None
        )
        self.dsn = ""

    def start(self) -> None:
        """Harmless when it runs: a test that failed before it stopped it says why itself."""
        if self._embedded.pid is None:
            self.dsn = self._embedded.start()

    def stop(self) -> None:
        """The fast way, as a package upgrade does."""
        self._embedded.stop()

    def crash(self) -> None:
        """kill -9 of the postmaster."""
        assert self._embedded.pid is not None
        os.kill(self._embedded.pid, signal.SIGKILL)

    async def restart(self, how: signal.Signals) -> None:
        """SIGINT is a fast restart, SIGQUIT an immediate one, SIGKILL a crash."""
        assert self._embedded.pid is not None
        os.kill(self._embedded.pid, how)
        await eventually(self._embedded.supervise_once, within=20, what="postmaster gone")
        await self.answers()

    async def answers(self, *, within: float = 20) -> None:
        """Waits until it takes a write again."""

        async def asked() -> bool:
            try:
                return bool(await Database(self.dsn).value("select not pg_is_in_recovery()"))
            except (OSError, TimeoutError, PostgresError):
                return False

        await eventually(asked, within=within, what="Postgres answers")

    async def database(self) -> str:
        return await create_database(self.dsn)

    def remove(self) -> None:
        self._embedded.stop()
        shutil.rmtree(self.place)
