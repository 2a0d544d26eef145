"""nginx in front of several gateways, and somebody who takes those out that are not ready.

nginx itself looks at nobody's readiness; in a cluster a controller does, and tells it. Here a task
does the same: it asks every gateway's probe and reloads nginx when an answer has changed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.rig import sender
from tests.rig.deadline import eventually

ROOT = Path(__file__).parents[2]
FETCH = ROOT / "scripts" / "fetch.py"
ASK_EVERY = 0.1

CONFIGURATION = """
{user}
worker_processes 1;
daemon off;
pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
  upstream gateways {{
    {servers}
    keepalive 16;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gateways;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_connect_timeout 2s;
    }}
  }}
}}
"""


class NoBalancer(Exception):
    """There is no nginx here and none can be fetched."""


def free_port() -> int:
    """A port that nobody has just now; for addresses that must stay over restarts."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def command() -> list[str]:
    """How nginx is started. Raises NoBalancer."""
    installed = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if installed:
        return [installed]
    said = subprocess.run(
        [sys.executable, str(FETCH), "nginx"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if said.returncode:
        raise NoBalancer(said.stderr.strip())
    return said.stdout.split()


class Balancer:
    """`probes` has the admin address of each gateway, by the port of its deliveries."""

    def __init__(self, place: Path, probes: Mapping[int, sender.Address]) -> None:
        self._place = place
        self._probes = dict(probes)
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._in: set[int] = set()
        self.port = free_port()
        self.reloads = 0

    @property
    def address(self) -> sender.Address:
        return ("127.0.0.1", self.port)

    async def start(self) -> None:
        started_with = command()
        self._in = await self._ready()
        self._write()
        self._launch(started_with)
        await eventually(self._listens, within=10, what=f"nginx: {self.said()}")
        self._watch = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(10)

    async def has(self, port: int, present: bool) -> None:
        """Waits until a gateway is in, or out."""
        await eventually(lambda: (port in self._in) is present, within=20, what=f"{port} {present}")

    def said(self) -> str:
        log = self._place / "nginx.log"
        return log.read_text()[-2000:] if log.exists() else ""

    def _launch(self, started_with: list[str]) -> None:
        with (self._place / "nginx.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*started_with, "-p", str(self._place), "-c", str(self._place / "nginx.conf")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(ASK_EVERY)
            ready = await self._ready()
            if ready != self._in and ready:
                self._in = ready
                self._write()
                assert self._process is not None
                self._process.send_signal(signal.SIGHUP)
                self.reloads += 1

    async def _ready(self) -> set[int]:
        probe = sender.request("/readyz", method="GET")
        ready = set()
        for port, address in self._probes.items():
            reply = await sender.attempt(address, probe, within=1)
            if reply is not None and reply.status == 200:
                ready.add(port)
        return ready

    async def _listens(self) -> bool:
        try:
            async with sender.Connection(self.address):
                return True
        except OSError:
            return False

    def _write(self) -> None:
        servers = "\n    ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self._in)
        text = CONFIGURATION.format(
            # nginx lets its workers be somebody else when it is root, who could not write here.
            user="user root;" if os.geteuid() == 0 else "",
            place=self._place,
            servers=servers,
            port=self.port,
        )
        (self._place / "nginx.conf").write_text(text)
