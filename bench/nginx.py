"""nginx as a plain reverse proxy, for comparison, where one is installed or can be fetched."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bench.measure import Target
from bench.processes import BenchFailed, tree_time

# One worker, like the one process of the gateway; connections to the consumer are kept alive.
_CONFIGURATION = """\
{user}
daemon off;
worker_processes 1;
pid {room}/pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {room}/body;
  proxy_temp_path {room}/proxy;
  fastcgi_temp_path {room}/fastcgi;
  uwsgi_temp_path {room}/uwsgi;
  scgi_temp_path {room}/scgi;
  keepalive_requests 1000000000;
  upstream consumer {{
    server 127.0.0.1:{upstream};
    keepalive 128;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://consumer;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"""

_FETCH = Path(__file__).parent.parent / "scripts" / "fetch.py"
# Fetching it the first time is a download of some megabytes; a comparison is not worth more.
_FETCH_TIMEOUT = 60.0


@asynccontextmanager
async def proxy(room: Path, upstream: int) -> AsyncIterator[Target | None]:
    """Run one in front of `upstream`; None where there is no nginx."""
    program = await _program()
    if program is None:
        yield None
        return
    port = _free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    file = room / "nginx.conf"
    _write(file, _CONFIGURATION.format(user=user, room=room, upstream=upstream, port=port))
    process = await asyncio.create_subprocess_exec(
        program, "-p", str(room), "-c", str(file), start_new_session=True
    )
    try:
        await _until_it_answers(port)
        yield Target("nginx", port, {"nginx": partial(tree_time, process.pid)})
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _program() -> str | None:
    fetch = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_FETCH),
        "nginx",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_FETCH_TIMEOUT):
            said, _ = await fetch.communicate()
    except TimeoutError:
        fetch.kill()
        await fetch.wait()
        return None
    return said.decode().strip() if fetch.returncode == 0 else None


def _write(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_it_answers(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        return
    raise BenchFailed("nginx did not start")
