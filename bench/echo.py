"""The yardstick: a bare aiohttp server that reads the body, answers 200. `python -m bench.echo`."""

from __future__ import annotations

import asyncio

import uvloop
from aiohttp import web

from bench.serving import serve_until_told


async def _answer(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response(body=b'{"received": true}', content_type="application/json")


async def _main() -> None:
    server = web.Server(_answer, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    await serve_until_told(listener)
    await server.shutdown()


if __name__ == "__main__":
    uvloop.run(_main())
