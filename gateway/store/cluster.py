"""The directory of the embedded Postgres: whose it is, what is in it, and who still lives there.

    lock           held (flock) by the one gateway that supervises; says which process that is
    cluster/       PostgreSQL's own files; made under another name and renamed when complete
    postgres.log   what the server and initdb said
    programs/      only when the wheel's own place is closed to the user who runs Postgres
    socket         only when the path is too long for a socket: a link to where the socket is

Whoever holds the lock is the only supervisor, so a postmaster found here was left by one that was
killed. Nothing is taken from a process id alone: ids are used again, and a dead process that
nobody waits for keeps its id while Postgres takes it for alive.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gateway.store.programs import Account, EmbeddedError

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}  # C: its messages are read
# What a killed server leaves behind is gone within seconds, backends in a long statement aside.
LEAVING_TRIES, LEAVING_PAUSE = 60, 0.5
# A unix socket's path is at most 107 bytes; "/.s.PGSQL.5432.lock" is added to the directory.
SOCKET_DIRECTORY_MAX = 107 - len("/.s.PGSQL.5432.lock")
LOG_KEPT = 8 * 2**20  # bytes; a log this long is set aside at the next start, replacing the last


ELSEWHERE = "name another folder by --embedded FOLDER or store.embedded"


@dataclass(frozen=True, slots=True)
class Layout:
    """The names below the data directory."""

    data: Path

    @property
    def cluster(self) -> Path:
        return self.data / "cluster"

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def log(self) -> Path:
        return self.data / "postgres.log"

    @property
    def programs(self) -> Path:
        return self.data / "programs"

    @property
    def socket_link(self) -> Path:
        return self.data / "socket"

    @property
    def mark(self) -> str:
        """Stands in the title of each of our server's processes, so that they can be told apart."""
        return "dedup-" + hashlib.blake2b(os.fsencode(self.data), digest_size=4).hexdigest()


def occupy(layout: Layout) -> int:
    """Become the only supervisor of the directory; the file descriptor holds it.

    Raises EmbeddedError when another process is, or when the directory is not for us.
    """
    data = layout.data
    try:
        held = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedError(f"cannot write in {data}: {error.strerror}; {ELSEWHERE}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(held, 20).decode(errors="replace").strip() or "unknown"
        os.close(held)
        raise EmbeddedError(
            f"{data} is in use by another process ({holder}); stop that one, or {ELSEWHERE}"
        ) from None
    os.ftruncate(held, 0)
    os.write(held, f"{os.getpid()}\n".encode())
    return held


def prepare(layout: Layout, who: Account, otherwise: Path) -> None:
    """Make the directory, or find it fit. `otherwise` is the place to name when it is not, too.

    Raises EmbeddedError. Changes the mode of no directory that was there before.
    """
    data = layout.data
    try:
        nearest = next(path for path in (data, *data.parents) if path.exists())
        _require_reach(nearest, data, who, otherwise)
        for step in [*reversed(data.parents), data]:
            if not step.exists():
                step.mkdir()
                step.chmod(0o711 if who.switch else 0o700)
        strangers = [entry.name for entry in os.scandir(data)] if not layout.lock.exists() else []
    except OSError as error:
        raise EmbeddedError(
            f"cannot make or read {error.filename}: {error.strerror}; {_elsewhere(data, otherwise)}"
        ) from error
    if strangers:
        raise EmbeddedError(
            f"{data} holds other files ({min(strangers)}, ...) and was not made by us;"
            f" {ELSEWHERE}, an empty or a new one"
        )
    _require_reach(data, data, who, otherwise)


def _require_reach(directory: Path, data: Path, who: Account, otherwise: Path) -> None:
    if who.switch and (closed := who.blocked_at(directory)) is not None:
        raise EmbeddedError(
            f"Postgres runs as user {who.name}, who cannot enter {closed};"
            f" {_elsewhere(data, otherwise)}"
        )


def _elsewhere(data: Path, otherwise: Path) -> str:
    """The usual place is no advice to somebody for whom it is the one that failed."""
    usual = "" if data == otherwise.resolve() else f", such as {otherwise}"
    return f"{ELSEWHERE}{usual}"


def complaints(said: str) -> str:
    """Of what a program said, the last lines that tell of a failure; empty when none does."""
    signs = ("FATAL:", "PANIC:", "ERROR:", "HINT:", "DETAIL:", "error:", "hint:")
    lines = [line.strip() for line in said.splitlines()]
    return " / ".join([line for line in lines if any(sign in line for sign in signs)][-4:])


def inhabitants(layout: Layout) -> dict[int, bool] | None:
    """Living Postgres processes in the cluster: process id to whether we once started it.

    None where the system does not tell (no /proc).
    """
    if not Path("/proc/self/cwd").exists():
        return None
    found: dict[int, bool] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        process = Path(entry.path)
        try:
            if process.joinpath("comm").read_text().strip() != "postgres":
                continue
            line = process.joinpath("cmdline").read_bytes()
            marked = layout.mark.encode() in line
            if _works_in(process, layout.cluster, marked):
                found[int(entry.name)] = marked or not line  # one that is ending has none any more
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _works_in(process: Path, cluster: Path, marked: bool) -> bool:
    try:
        return Path(os.readlink(process / "cwd")) == cluster  # a dead process has none
    except PermissionError:
        return marked  # a container's root may not look at other users' processes


def evict(layout: Layout) -> None:
    """Stop what a killed gateway left running here, and wait for the last of it to end.

    Raises EmbeddedError when it does not end, or was started by somebody else.
    """
    living: dict[int, bool] = {}
    strangers: set[int] = set()
    for _ in range(LEAVING_TRIES):
        living = inhabitants(layout) or {}
        if not living:
            return
        # Twice, because a process that is writing its title shows half of it for a moment.
        before, strangers = strangers, {pid for pid, ours in living.items() if not ours}
        if still := before & strangers:
            raise EmbeddedError(
                f"a Postgres that we did not start (process {min(still)}) runs on"
                f" {layout.cluster}; stop it first"
            )
        if living.get(postmaster := _recorded(layout)):
            os.kill(postmaster, signal.SIGINT)  # fast shutdown; harmless when repeated
        time.sleep(LEAVING_PAUSE)
    raise EmbeddedError(
        f"processes {sorted(living)} of an earlier Postgres still work on {layout.cluster};"
        " wait for them or end them"
    )


def _recorded(layout: Layout) -> int:
    try:
        return int((layout.cluster / "postmaster.pid").read_text().partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return 0


def forget_the_dead(layout: Layout, sockets: Path) -> None:
    """Remove the lock files of a dead postmaster, which Postgres may take for a living one's:
    truncated, or naming a process id that another process has now, or that nobody has reaped.

    Never while a Postgres process lives here: its interlock against two servers is that file.
    """
    if inhabitants(layout) == {}:
        for path in (layout.cluster / "postmaster.pid", *sockets.glob(".s.PGSQL.*")):
            path.unlink(missing_ok=True)


def socket_directory(layout: Layout, who: Account) -> Path:
    """Where the socket goes: in the cluster if its path is short enough, else in a new directory.

    A comma makes two hosts of a path in a DSN, so it counts as too long. The directory of an
    earlier run is removed.
    """
    leave_socket_directory(layout)
    path = os.fsencode(layout.cluster)
    if len(path) <= SOCKET_DIRECTORY_MAX and b"," not in path:
        return layout.cluster
    short = Path(tempfile.mkdtemp(prefix="dedup-pg-", dir="/tmp"))  # $TMPDIR may be long itself
    if who.switch:
        os.chown(short, who.uid, who.gid)
    layout.socket_link.symlink_to(short)
    return short


def leave_socket_directory(layout: Layout) -> None:
    """Remove the directory that socket_directory() made, if it made one."""
    if layout.socket_link.is_symlink():
        short = layout.socket_link.readlink()
        if short.name.startswith("dedup-pg-") and short.is_dir() and not short.is_symlink():
            shutil.rmtree(short, ignore_errors=True)
        layout.socket_link.unlink()


def open_log(layout: Layout) -> int:
    """Append to the log; one that has grown long is set aside first."""
    if layout.log.exists() and layout.log.stat().st_size > LOG_KEPT:
        layout.log.rename(layout.log.with_suffix(".log.1"))
    return os.open(
        layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
