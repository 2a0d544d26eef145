"""Make .venv and install the gateway with its embedded store, and the groups named, into it.

Distributions split Python up: where `python3 -m venv` lacks ensurepip, root gets the package that
has it, and anybody else gets pip itself from the configured package index.
"""

from __future__ import annotations

import base64
import configparser
import fcntl
import hashlib
import html
import importlib.util
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
OLDEST_PIP = (25, 1)  # the first that installs dependency groups


def main(groups: set[str]) -> None:
    (ROOT / ".cache").mkdir(exist_ok=True)
    with (ROOT / ".cache" / "bootstrap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two `make` at once
        have = installed()
        if have is not None and groups <= have:
            return
        groups |= have or set()
        print(f"Installing into {VENV} ...", flush=True)
        ensure_venv()
        pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        if pip_version() < OLDEST_PIP:
            run([*pip, "--upgrade", "pip>=" + ".".join(map(str, OLDEST_PIP))])
        wanted = [part for group in sorted(groups) for part in ("--group", group)]
        run([*pip, "--editable", ".[embedded]", *wanted])
        STAMP.write_text(
            json.dumps({"root": str(ROOT), "print": fingerprint(), "groups": sorted(groups)})
        )


def fingerprint() -> str:
    """What the installation depends on."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def installed() -> set[str] | None:
    """The groups that are in place, None when anything is missing or older than pyproject."""
    try:
        stamp = json.loads(STAMP.read_text())
        if stamp["root"] != str(ROOT):  # its scripts name the place where it was made
            shutil.rmtree(VENV)
            return None
        subprocess.run([PYTHON, "-c", "import gateway"], cwd="/", check=True, capture_output=True)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return set(stamp["groups"]) if stamp["print"] == fingerprint() else None


def ensure_venv() -> None:
    if pip_version() > (0,):
        return
    if importlib.util.find_spec("ensurepip") is None and os.geteuid() == 0:
        install_ensurepip()
    if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True).returncode:
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])
        install_pip_from_index()
    else:
        run([sys.executable, "-m", "venv", "--clear", str(VENV)])


def pip_version() -> tuple[int, ...]:
    """Of the pip in .venv; (0,) when it has none that runs."""
    asked = "import pip; print(pip.__version__)"
    try:
        said = subprocess.run([PYTHON, "-c", asked], capture_output=True, text=True).stdout
    except OSError:
        return (0,)
    return tuple(map(int, re.findall(r"\d+", said)[:2])) or (0,)


def install_ensurepip() -> None:
    """As root on Debian and its kin. A failure is left to the next way."""
    if shutil.which("apt-get") is None:
        return
    print("Installing the system's python3-venv ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "python3-venv"]
    if subprocess.run(install, env=environment, capture_output=True).returncode:
        subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
        subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=False)


def install_pip_from_index() -> None:
    try:
        with tempfile.TemporaryDirectory() as place:
            wheel = download_pip(Path(place))
            run([str(PYTHON), f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)])
    except (URLError, ValueError, ssl.SSLError) as error:
        shutil.rmtree(VENV)
        minor = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"This Python has no ensurepip, and pip could not be fetched: {error}\n"
            f"Install it as root: apt-get install python{minor}-venv ca-certificates"
        )


def download_pip(place: Path) -> Path:
    """The newest final pip for this Python, checked against the index's SHA-256."""
    page_url = setting("index-url", "https://pypi.org/simple").rstrip("/") + "/pip/"
    page = fetch(page_url).decode()
    best: tuple[tuple[int, ...], str] | None = None
    for attributes in re.findall(r"<a\s([^>]*)>", page):
        found = re.search(
            r'href="((?:[^"]*/)?pip-(\d+(?:\.\d+)+)-py3-none-any\.whl[^"]*)"', attributes
        )
        needs = re.search(r'requires-python="[^"]*>=\s*3\.(\d+)', html.unescape(attributes))
        if found is None or "data-yanked" in attributes:
            continue
        if needs is not None and int(needs[1]) > sys.version_info.minor:
            continue
        version = tuple(map(int, found[2].split(".")))
        if best is None or version > best[0]:
            best = version, html.unescape(found[1])
    if best is None:
        raise ValueError(f"no pip on {redacted(page_url)}")
    url, fragment = urldefrag(urljoin(page_url, best[1]))
    wheel = place / unquote(urlsplit(url).path.rsplit("/", 1)[1])
    wheel.write_bytes(fetch(url))
    if fragment != "sha256=" + hashlib.sha256(wheel.read_bytes()).hexdigest():
        raise ValueError(f"{redacted(url)} does not have the SHA-256 that the index says")
    return wheel


def fetch(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{redacted(url)} is neither http nor https")
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if parts.username is not None:  # urllib does not take the credentials from the address
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    trusted = ssl.create_default_context(cafile=setting("cert", "") or None)
    with urllib.request.urlopen(request, timeout=60, context=trusted) as reply:
        return bytes(reply.read())


def redacted(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def setting(name: str, default: str) -> str:
    """As pip would have it: its environment variable, then its files, the user's first."""
    if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return value
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [config / "pip" / "pip.conf", home / ".pip" / "pip.conf", Path("/etc/pip.conf")]
    if named := os.environ.get("PIP_CONFIG_FILE"):
        files.insert(0, Path(named))
    for file in files:
        parser = configparser.RawConfigParser()
        parser.read(file)
        for section in ("install", "global"):
            if parser.has_option(section, name):
                return parser.get(section, name)
    return default


def run(command: list[str]) -> None:
    if code := subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(f"failed with {code}: {' '.join(command)}")


if __name__ == "__main__":
    main(set(sys.argv[1:]))
