"""An ingress in a process of its own, so that its memory can be looked at from outside.

Prints its port. Large bodies are held for a while, as a forward would.
"""

from __future__ import annotations

import asyncio
import logging
import resource

import uvloop

from gateway.core.answer import Answer
from gateway.core.event import Delivery
from gateway.web.ingress import Ingress
from gateway.web.limits import Limits
from tests.web.stage import ACCEPTED, MIB, ROUTE, ScriptedReceiver, Tally

FILES = 8192


class Slow(ScriptedReceiver):
    async def receive(self, delivery: Delivery) -> Answer:
        if len(delivery.body) > MIB:
            await asyncio.sleep(0.5)
        return ACCEPTED


async def main() -> None:
    receiver = Slow(ROUTE)
    limits = Limits(connections=4096, body_memory=64 * MIB, body_timeout=60.0)
    log = logging.getLogger("crowd")
    ingress = Ingress(lambda *_: receiver, limits=limits, counts=Tally(), log=log)
    _, port = await ingress.listen("127.0.0.1", 0)
    print(port, flush=True)
    await asyncio.Event().wait()


def allow_many_files() -> None:
    """Raise the soft limit of open files as far as needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    allow_many_files()
    uvloop.run(main())
