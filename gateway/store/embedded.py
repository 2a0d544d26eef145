"""The Postgres that comes along, for one machine: a real server, run and watched by the gateway.

The postmaster is our direct child (no pg_ctl, no daemon): we reap it, so it never lingers as a
zombie that the next one takes for alive; it is asked to shut down by the kernel when we are
killed; and when it is killed we start it again. It listens on a unix socket only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.parse import quote

from gateway.store import cluster, initdb, parting, programs
from gateway.store.programs import EmbeddedError

__all__ = ["EmbeddedError", "EmbeddedPostgres", "Log", "default_data_dir"]

SHIPPED = MappingProxyType(
    {
        # a claim that was acknowledged is on the disk; these three win over postgresql.conf
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "shared_buffers": "128MB",  # a million claims and their index
        "jit": "off",  # our statements are over before a compiler would be
        # With the usual 60 s, claims of a busy minute leave their dead rows before anything can use
        # the room again: 160 to 230 bytes a settled claim instead of 112 to 146.
        "autovacuum_naptime": "5s",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "logging_collector": "off",
        "log_checkpoints": "off",
        # LOG and worse; a failed statement is reported to the gateway, which counts it, and a storm
        # of them must not fill the disk
        "log_min_messages": "log",
    }
)
WATCH = 0.2  # seconds between looks at the postmaster
WATCH_MAX = 5.0  # and while it keeps dying
POLL = 0.02  # seconds between looks for "ready"; a warm start takes some 70 ms
STILL_RECOVERING = 10.0  # seconds between log lines while it replays its log
FAST, IMMEDIATE = 60.0, 10.0  # seconds for a shutdown with, and without, a checkpoint
# These go away when the last process of a killed server does.
PASSING = ("pre-existing shared memory block", "lock file")
READY_LINE = 7  # of postmaster.pid, counted from 0: the line that pg_ctl reads too


class Log(Protocol):
    """Told the name of each thing that happened, and facts about it."""

    def __call__(self, event: str, /, **facts: object) -> None: ...


def default_data_dir() -> Path:
    """Root: below /var/lib. Anybody else: $XDG_STATE_HOME, else ~/.local/state."""
    if os.geteuid() == 0:
        return Path("/var/lib/dedup-gateway")
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # the XDG specification has relative paths ignored
        state = Path.home() / ".local" / "state"
    return state / "dedup-gateway"


class EmbeddedPostgres:
    """A server on `data`, a directory of its own. All methods belong to the main thread."""

    def __init__(
        self,
        data: Path,
        *,
        user: str | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        log: Log,
    ) -> None:
        """`user` is who runs Postgres when we are root; `settings` win over the shipped ones."""
        self._layout = cluster.Layout(data.resolve())
        self._user = user
        self._settings = {**SHIPPED, "cluster_name": self._layout.mark, **settings}
        self._log = log
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets = self._layout.cluster
        self._said_from = 0

    @property
    def dsn(self) -> str:
        """postgresql://, over the unix socket; valid once start() has returned."""
        return f"postgresql://postgres@/postgres?host={quote(str(self._sockets))}"

    @property
    def pid(self) -> int | None:
        """The present postmaster."""
        return None if self._process is None else self._process.pid

    def start(self) -> str:
        """Make what is missing, start the server, wait until it answers; the DSN.

        Blocks: about 1.5 s for a new directory, 0.1 s later on, and for as long as a recovery
        takes after a crash. Raises EmbeddedError, or KeyboardInterrupt at the first Ctrl-C, and
        then leaves nothing running.
        """
        with _interruptible():
            found, who = self._start()
        self._log(
            "embedded_store",
            state="started",
            data=str(self._layout.data),
            programs=str(found.bin),
            version=found.version,
            user=who.name,
            socket=str(self._sockets),
            log=str(self._layout.log),
        )
        return self.dsn

    def _start(self) -> tuple[programs.Programs, programs.Account]:
        who = programs.account(self._user, self._layout.cluster)
        cluster.prepare(self._layout, who, default_data_dir())
        self._lock = cluster.occupy(self._layout)
        with ExitStack() as failed:
            failed.callback(self.stop)
            cluster.evict(self._layout)
            found = programs.reachable(programs.find(), who, self._layout.programs)
            sync = self._settings["fsync"] != "off"
            initdb.initialise(self._layout, found, who, sync=sync)
            self._sockets = cluster.socket_directory(self._layout, who)
            self._found, self._who = found, who
            self._spawn_until_ready()
            failed.pop_all()
        return found, who

    def supervise_once(self) -> bool:
        """Start the postmaster again if it has died; whether it had. Does not wait for it.

        A start that fails, as for want of memory, is tried again by the next call.
        """
        if self._process is None or self._process.poll() is None:
            return False
        self._log(
            "embedded_store_restarted",
            status=self._process.returncode,
            said=cluster.complaints(self._said()),
        )
        try:
            self._spawn()
        except OSError as error:
            self._log("embedded_store", state="cannot be started", problem=str(error))
        return True

    async def supervise(self) -> None:
        """Watch until cancelled. Must run in the main thread's loop, because it forks."""
        pause = WATCH
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 2, WATCH_MAX) if self.supervise_once() else WATCH

    def stop(self) -> None:
        """Shut down (fast: open transactions are rolled back) and let go of the directory.

        Blocks, some 0.2 s as a rule. Harmless when nothing runs.
        """
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        if self._lock is not None:
            cluster.leave_socket_directory(self._layout)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn_until_ready(self) -> None:
        for _ in range(cluster.LEAVING_TRIES):
            self._spawn()
            if self._came_up():
                return
            said = self._said()
            if not any(sign in said for sign in PASSING):
                break
            time.sleep(cluster.LEAVING_PAUSE)
        raise EmbeddedError(
            f"Postgres does not start: {cluster.complaints(said)} (see {self._layout.log})"
        )

    def _spawn(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedError("start the embedded Postgres from the main thread: it ends with it")
        cluster.forget_the_dead(self._layout, self._sockets)
        sockets = '"' + str(self._sockets).replace('"', '""') + '"'  # it is a list of identifiers
        settings = {**self._settings, "unix_socket_directories": sockets}
        command = [str(self._found.bin / "postgres"), "-D", str(self._layout.cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        log = cluster.open_log(self._layout)
        self._said_from = os.fstat(log).st_size
        try:
            self._process = subprocess.Popen(
                command,
                cwd="/",
                env=cluster.ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a terminal's Ctrl-C is for us to pass on, in our order
                preexec_fn=parting.with_parent(signal.SIGINT),
                **self._who.popen(),
            )
        finally:
            os.close(log)

    def _came_up(self) -> bool:
        process, waited = self._process, 0.0
        assert process is not None
        while process.poll() is None:
            if self._is_ready(process.pid):
                return True
            time.sleep(POLL)
            waited += POLL
            if waited >= STILL_RECOVERING:
                self._log("embedded_store", state="recovering", log=str(self._layout.log))
                waited = 0.0
        return False

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self._layout.cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(pid)] and lines[READY_LINE:] == ["ready   "]

    def _said(self) -> str:
        with self._layout.log.open("rb") as log:
            log.seek(self._said_from)
            return log.read(2**16).decode(errors="replace")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end what blocks: a loop's handler would only note it, for after the start."""
    handler = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or not callable(handler):  # ignored, as under nohup
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign, patience in ((signal.SIGINT, FAST), (signal.SIGQUIT, IMMEDIATE)):
        process.send_signal(sign)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()
    process.wait()
