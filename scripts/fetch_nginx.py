"""Print the command that starts an nginx: an installed one, else one unpacked below .cache/.

Nothing is installed in the system, and no privilege is needed: apt fetches the packages with state
directories of its own, and they are only unpacked. Compiled-in paths do not exist then, so the
caller's configuration has to name its pid file and its five *_temp_path directories.
Exit code 3, with the reason on stderr, when there is no way.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path(__file__).resolve().parent.parent / ".cache" / "nginx"
COMMAND = PLACE / "nginx"
# Debian has it where a plain user's PATH does not look.
SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


def main() -> None:
    if installed := shutil.which("nginx", path=SEARCHED):
        print(installed)
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel tests
        if not runs():
            unpack()
    print(COMMAND)


def runs() -> bool:
    try:
        return subprocess.run([COMMAND, "-v"], capture_output=True).returncode == 0
    except OSError:
        return False


def unpack() -> None:
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            give_up(f"nginx is not installed, and without {needed} it cannot be fetched")
    state, packages, root = PLACE / "apt", PLACE / "packages", PLACE / "root"
    for directory in (state / "lists" / "partial", state / "cache", packages):
        directory.mkdir(parents=True, exist_ok=True)
    settings = [
        f"Dir::State::Lists={state / 'lists'}",
        f"Dir::Cache={state / 'cache'}",
        "Debug::NoLocking=1",  # the system's locks are root's; ours is held
        "APT::Sandbox::User=root",  # as root: apt's own user may not pass to where we are
    ]
    apt = ["apt-get", "-q", *(part for setting in settings for part in ("-o", setting))]
    run([*apt, "update"], state)
    plan = run(
        [*apt, "install", "--print-uris", "--yes", "--no-install-recommends", "nginx"], state
    )
    # 'http://.../nginx_1.22.1-9_amd64.deb' nginx_1.22.1-9_amd64.deb 527276 SHA256:...
    names = re.findall(r"^'[^']+' (\S+?)_\S+\.deb ", plan, re.MULTILINE)
    run([*apt, "download", *names], packages)
    for package in packages.glob("*.deb"):
        run(["dpkg-deb", "--extract", str(package), str(root)], packages)
    libraries = sorted({str(path.parent) for path in root.rglob("*.so.*")})
    COMMAND.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH='{':'.join(libraries)}'\n"
        f"exec '{root}/usr/sbin/nginx' -e stderr \"$@\"\n"
    )
    COMMAND.chmod(0o755)
    shutil.rmtree(packages)
    if not runs():
        give_up("nginx was fetched, and does not run here")


def run(command: list[str], directory: Path) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        give_up(f"nginx is not installed and cannot be fetched: {command[0]}: {''.join(said)}")
    return done.stdout


def give_up(reason: str) -> None:
    print(reason, file=sys.stderr)
    sys.exit(3)


if __name__ == "__main__":
    main()
