"""PgBouncer in transaction mode, between gateways and a server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gateway.store import programs
from tests.rig import debian
from tests.rig.balancer import free_port
from tests.rig.deadline import eventually

# A pool that is smaller than what the gateways open: each server session changes hands all the
# time. query_wait_timeout is left as it comes: longer than any of our statements waits.
CONFIGURATION = """
[databases]
{name} = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 0.1
{user}
"""


class Pooler:
    """In front of one database of a server; its own address outlives restarts."""

    def __init__(self, place: Path, *, size: int = 2) -> None:
        """Skips the test where there is no PgBouncer.

        `place` is for its file and its log; to reload, the user who runs Postgres must get there.
        """
        self._program = debian.path_of("pgbouncer")
        self._size = size
        self._file = place / "pgbouncer.ini"
        self._log = place / "pgbouncer.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._name = ""
        self.port = free_port()

    def leads_to(self, database: str) -> None:
        """Where it leads from the next start or reload on: a DSN with a unix socket."""
        parts = urlsplit(database)
        (host,) = parse_qs(parts.query)["host"]
        self._name = parts.path.lstrip("/")
        # As root it must become somebody else, and does once it has read its file.
        user = f"user = {programs.account(None, Path(host)).name}" if os.geteuid() == 0 else ""
        text = CONFIGURATION.format(
            name=self._name, host=host, port=self.port, size=self._size, user=user
        )
        self._file.write_text(text)
        self._file.chmod(0o644)

    def dsn(self, query: str = "") -> str:
        """The database that it leads to, through here."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self._name}{query}"

    async def start(self) -> None:
        self._launch()
        await eventually(self._listens, within=10, what=f"PgBouncer: {self._log.read_text()}")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def reload(self) -> None:
        """Sessions with a server that the file does not name any more end once they are idle."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()  # at once; SIGINT would wait for its clients
            self._process.wait(10)

    def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True
