"""A primary and its standby: real servers with streaming replication between them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gateway.store import cluster
from gateway.store.embedded import EmbeddedPostgres
from tests.rig.deadline import eventually
from tests.rig.world import Database, create_database, with_database

SETTINGS = {
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",  # in its directory, so that a crash leaves none behind
    # a standby looks for its primary again every five seconds otherwise
    "wal_retrieve_retry_interval": "100ms",
}

SEGMENT_LINE = 6  # of postmaster.pid, counted from 0: key and id of its shared memory


class Node:
    """One server, which can be stopped, killed, and made to follow another."""

    def __init__(self, directory: Path) -> None:
        self._layout = cluster.Layout(directory)
        self._embedded = EmbeddedPostgres(directory, settings=SETTINGS, log=lambda *_, **__: None)
        self.dsn = ""

    @property
    def directory(self) -> Path:
        return self._layout.data

    @property
    def host(self) -> str:
        (host,) = parse_qs(urlsplit(self.dsn).query)["host"]
        return host

    def database(self, name: str) -> Database:
        return Database(with_database(self.dsn, name))

    def start(self) -> None:
        self.dsn = self._embedded.start()

    def stop(self) -> None:
        """The fast way. Everything is with the standby then, if that is there."""
        self._embedded.stop()

    def crash(self) -> None:
        """All of its processes are gone at once, as when its machine is."""
        assert self._embedded.pid is not None
        recorded = (self._layout.cluster / "postmaster.pid").read_text().splitlines()
        for pid in (self._embedded.pid, *(cluster.inhabitants(self._layout) or ())):
            with suppress(ProcessLookupError):  # they end by themselves too
                os.kill(pid, signal.SIGKILL)
        self._embedded.stop()
        _, segment = recorded[SEGMENT_LINE].split()
        subprocess.run(["ipcrm", "--shmem-id", segment], check=True, capture_output=True)

    def follow(self, leader: Node) -> None:
        """Be its standby from the next start on."""
        owner = self._layout.cluster.stat()
        signalled = self._layout.cluster / "standby.signal"
        signalled.touch()
        os.chown(signalled, owner.st_uid, owner.st_gid)
        with (self._layout.cluster / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = 'host={leader.host} user=postgres'\n")

    async def promote(self) -> None:
        assert await Database(self.dsn).value("select pg_promote(true, 30)")

    async def stops_receiving(self) -> None:
        """A standby that lags behind for ever: what is written from now on never arrives."""
        here = Database(self.dsn)
        await here.execute("alter system set primary_conninfo = ''")
        await here.execute("select pg_reload_conf()")

        async def receives_nothing() -> bool:
            return not await here.value("select count(*) from pg_stat_wal_receiver")

        await eventually(receives_nothing, within=20, what="no receiver")


class Cluster:
    """Two nodes and one database. The standby is a copy of the primary, made while that rests."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="dedup-pair-"))
        self.place.chmod(0o711)  # as root, Postgres runs as another user, who has to pass here
        self.primary = Node(self.place / "a")
        self.standby = Node(self.place / "b")
        self.name = ""

    async def start(self, *, synchronous: bool) -> None:
        self.primary.start()
        self.name = urlsplit(await create_database(self.primary.dsn)).path.lstrip("/")
        self.primary.stop()
        # cp keeps owners, which are another user's as root
        command = ["cp", "-a", str(self.primary.directory), str(self.standby.directory)]
        await asyncio.to_thread(subprocess.run, command, check=True)
        self.primary.start()
        self.standby.follow(self.primary)
        self.standby.start()
        await self._streams("async")
        if synchronous:
            await self.execute("alter system set synchronous_standby_names = '*'")
            await self.execute("select pg_reload_conf()")
            await self._streams("sync")

    async def execute(self, sql: str) -> None:
        await Database(self.primary.dsn).execute(sql)

    @property
    def dsn(self) -> str:
        """Of the database, wherever the primary may be: both hosts, the first primary first."""
        return f"postgresql://postgres@/{self.name}?host={self.primary.host},{self.standby.host}"

    async def replicated(self) -> None:
        """Waits until the standby has all that is in the primary now."""
        position = await Database(self.primary.dsn).value("select pg_current_wal_lsn()::text")

        async def has_it() -> bool:
            return bool(
                await Database(self.standby.dsn).value(
                    "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", position
                )
            )

        await eventually(has_it, within=20, what="the standby has caught up")

    def remove(self) -> None:
        self.standby.stop()
        self.primary.stop()
        shutil.rmtree(self.place)

    async def _streams(self, state: str) -> None:
        async def streaming() -> bool:
            return bool(
                await Database(self.primary.dsn).value(
                    "select count(*) from pg_stat_replication"
                    " where state = 'streaming' and sync_state = $1",
                    state,
                )
            )

        await eventually(streaming, within=20, what=f"a standby that is {state}")
