"""The operators' listener: metrics and probes, apart from the providers' traffic and its limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from ssl import SSLContext

from aiohttp import web

from gateway.web import listener

Render = Callable[[], tuple[bytes, str]]
"""The metrics page and its content type."""
Readiness = Callable[[], tuple[bool, Mapping[str, object]]]
"""Whether balancers should send requests, and the facts behind it."""

_JSON = "application/json"


class Admin:
    """`/metrics`, `/healthz` and `/readyz`. Made inside a running loop.

    `/healthz` says that the process answers and asks nobody else: a restart cures no absent store.
    """

    def __init__(self, metrics: Render, readiness: Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness
        self._server = web.Server(self._answer, access_log=None, keepalive_timeout=65)
        self._listener: listener.Listener | None = None

    async def listen(self, host: str, port: int, ssl: SSLContext | None = None) -> tuple[str, int]:
        """Serve at an address, whose bound form is returned. Raises OSError."""
        self._listener = await listener.open_listener(self._server, host, port, ssl)
        return self._listener.address

    async def close(self) -> None:
        """Stop serving; last of all, so that probes see the drain to its end."""
        if self._listener is not None:
            await self._listener.close()
        await self._server.shutdown(0.05)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        status, body, content_type = self._page(request.path)
        if status != 404 and request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    def _page(self, path: str) -> tuple[int, bytes, str]:
        match path:
            case "/metrics":
                return 200, *self._metrics()
            case "/healthz":
                return 200, b'{"alive": true}', _JSON
            case "/readyz":
                ready, facts = self._readiness()
                body = json.dumps({"ready": ready, **facts}).encode()
                return 200 if ready else 503, body, _JSON
            case _:
                return 404, b'{"error": "not_found"}', _JSON
