"""The cluster's files: made once, under another name until they are complete."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from gateway.store import parting
from gateway.store.cluster import ENVIRONMENT, Layout, complaints
from gateway.store.programs import Account, EmbeddedError, Programs


def initialise(layout: Layout, programs: Programs, who: Account, *, sync: bool) -> None:
    """Have the cluster there and of our version and owner. Raises EmbeddedError."""
    version = layout.cluster / "PG_VERSION"
    if not layout.cluster.exists():
        _initdb(layout, programs, who, sync=sync)
    try:
        found, owner = version.read_text().strip(), layout.cluster.stat().st_uid
    except OSError as error:
        raise EmbeddedError(
            f"{version} cannot be read: {error.strerror}; is the data whole?"
        ) from error
    if owner != who.uid:
        raise EmbeddedError(
            f"{layout.cluster} belongs to user {owner}, and Postgres would run as {who.name};"
            f" run it as its owner, or: chown -R {who.name} {layout.cluster}"
        )
    if found != str(programs.major):
        raise EmbeddedError(
            f"{layout.cluster} was made by PostgreSQL {found}, and {programs.bin} is"
            f" {programs.version}. Set PG_BIN to the bin folder of a PostgreSQL {found}; or, to"
            f" move on, pg_dumpall with that one and load the dump into a new folder"
        )


def _initdb(layout: Layout, programs: Programs, who: Account, *, sync: bool) -> None:
    for given_up in layout.data.glob("cluster.new-*"):
        shutil.rmtree(given_up, ignore_errors=True)
    # never the same name: a process of an initdb that was killed may still write under the last
    unfinished = Path(tempfile.mkdtemp(prefix="cluster.new-", dir=layout.data))
    if who.switch:
        os.chown(unfinished, who.uid, who.gid)
    # C: sorted by bytes, so that no update of the system's locales can spoil an index
    command = [str(programs.bin / "initdb"), "-D", str(unfinished), "-U", "postgres"]
    command += ["--encoding=UTF8", "--locale=C", "--data-checksums"]
    command += ["--auth-local=trust", "--auth-host=reject"]
    command += [] if sync else ["--no-sync"]
    said, status = _finished(command, unfinished, who)
    if status != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise EmbeddedError(f"initdb failed in {layout.data}: {complaints(said) or said}")
    unfinished.rename(layout.cluster)
    # without this a power cut could undo the rename, and the next start begin with nothing
    directory = os.open(layout.data, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)


def _finished(command: list[str], unfinished: Path, who: Account) -> tuple[str, int]:
    """What initdb said, and its exit status. Interrupted, it leaves neither processes nor files."""
    with (
        subprocess.Popen(
            command,
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a terminal's Ctrl-C is for us, and no failure of initdb
            preexec_fn=parting.with_parent(signal.SIGKILL),
            **who.popen(),
        ) as process,
        ExitStack() as interrupted,
    ):
        interrupted.callback(_break_off, process, unfinished)
        said, _ = process.communicate()
        interrupted.pop_all()
    return said, process.returncode


def _break_off(process: subprocess.Popen[str], unfinished: Path) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # initdb runs a Postgres of its own
    process.wait()
    shutil.rmtree(unfinished, ignore_errors=True)
