"""How a server of the bench lives: it prints its port, and ends when its standard input does.

The input ends with whoever started it, however that one dies, so nothing is left running.
"""

from __future__ import annotations

import asyncio
import sys


async def serve_until_told(listener: asyncio.Server) -> None:
    """Print the port, then wait for the end of standard input."""
    loop = asyncio.get_running_loop()
    print(listener.sockets[0].getsockname()[1], flush=True)
    told = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(told), sys.stdin
    )
    await told.read()
    transport.close()
    listener.close()
