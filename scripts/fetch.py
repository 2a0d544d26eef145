"""Print the path of a program or library of Debian's: an installed one, else one below .cache/.

    fetch.py nginx | pgbouncer | prometheus | promtool | libfaketime

Nothing is installed in the system, and no privilege is needed: apt fetches the packages with state
directories of its own, and they are only unpacked. Compiled-in paths do not exist then, so the
caller's configuration has to name every file and directory that a program would look for.
Exit code 3, with the reason on stderr, when there is no way.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Resolved as a whole: a copy of this tree may have a link to another one's cache.
CACHE = (Path(__file__).resolve().parent.parent / ".cache" / "debian").resolve()
# Debian has programs where a plain user's PATH does not look.
SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a package is fetched for."""

    package: str
    file: str
    """A pattern of its path below the root directory."""
    before: str = ""
    """Arguments that a program needs before the caller's, not to touch compiled-in paths."""
    version: str = "-V"
    """Has a program say its version and end."""

    @property
    def name(self) -> str:
        """A program's own; a library's package."""
        return Path(self.file).name if self.is_program else self.package

    @property
    def is_program(self) -> bool:
        return "bin/" in self.file

    @property
    def place(self) -> Path:
        return CACHE / self.package

    @property
    def root(self) -> Path:
        return self.place / "root"


WANTED = {
    wanted.name: wanted
    for wanted in (
        Wanted("nginx", "usr/sbin/nginx", before="-e stderr"),
        Wanted("pgbouncer", "usr/sbin/pgbouncer"),
        Wanted("prometheus", "usr/bin/prometheus", version="--version"),
        Wanted("prometheus", "usr/bin/promtool", version="--version"),
        Wanted("libfaketime", "usr/lib/*/faketime/libfaketimeMT.so.1"),
    )
}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in WANTED:
        print(f"usage: {sys.argv[0]} {' | '.join(WANTED)}", file=sys.stderr)
        sys.exit(2)
    wanted = WANTED[sys.argv[1]]
    if found := installed(wanted):
        print(found)
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel tests
        if not (fetched := unpacked(wanted)):
            unpack(wanted)
            fetched = unpacked(wanted)
    if fetched is None:
        give_up(f"{wanted.name} was fetched, and does not run here")
    print(fetched)


def installed(wanted: Wanted) -> str | None:
    if wanted.is_program:
        return shutil.which(wanted.name, path=SEARCHED)
    return next((str(path) for path in Path("/").glob(wanted.file)), None)


def unpacked(wanted: Wanted) -> str | None:
    """The path of what was fetched, if it works."""
    found = next(wanted.root.glob(wanted.file), None)
    if found is None:
        return None
    if not wanted.is_program:
        return str(found)
    command = wanted.place / wanted.name
    # The loader is told where the libraries are that came along.
    libraries = sorted({str(path.parent) for path in wanted.root.rglob("*.so.*")})
    text = (
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH='{':'.join(libraries)}'\n"
        f"exec '{found}' {wanted.before} \"$@\"\n"
    )
    if not command.exists() or command.read_text() != text:
        fresh = command.with_suffix(".new")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(command)  # another test may be about to run it
    try:
        runs = subprocess.run([command, wanted.version], capture_output=True).returncode == 0
    except OSError:
        return None
    return str(command) if runs else None


def unpack(wanted: Wanted) -> None:
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            give_up(f"{wanted.package} is not installed, and without {needed} cannot be fetched")
    state, packages = CACHE / "apt", wanted.place / "packages"
    for directory in (state / "lists" / "partial", state / "cache", packages):
        directory.mkdir(parents=True, exist_ok=True)
    settings = [
        f"Dir::State::Lists={state / 'lists'}",
        f"Dir::Cache={state / 'cache'}",
        "Debug::NoLocking=1",  # the system's locks are root's; ours is held
        "APT::Sandbox::User=root",  # as root: apt's own user may not pass to where we are
    ]
    apt = ["apt-get", "-q", *(part for setting in settings for part in ("-o", setting))]
    run(wanted, [*apt, "update"], state)
    plan = run(
        wanted,
        [*apt, "install", "--print-uris", "--yes", "--no-install-recommends", wanted.package],
        state,
    )
    # 'http://.../nginx_1.22.1-9_amd64.deb' nginx_1.22.1-9_amd64.deb 527276 SHA256:...
    names = re.findall(r"^'[^']+' (\S+?)_\S+\.deb ", plan, re.MULTILINE)
    run(wanted, [*apt, "download", *names], packages)
    for package in packages.glob("*.deb"):
        run(wanted, ["dpkg-deb", "--extract", str(package), str(wanted.root)], packages)
    shutil.rmtree(packages)


def run(wanted: Wanted, command: list[str], directory: Path) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = "".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
        give_up(f"{wanted.package} is not installed and cannot be fetched: {command[0]}: {said}")
    return done.stdout


def give_up(reason: str) -> None:
    print(reason, file=sys.stderr)
    sys.exit(3)


if __name__ == "__main__":
    main()
