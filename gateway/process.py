"""The process around a gateway: its limits, its collector, and how it ends.

SIGTERM, Ctrl-C and a terminal that is closed end a start that is still under way too, and then
leave nothing running.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn

import uvloop

from gateway import failpoints
from gateway.app import Gateway
from gateway.config import Loaded
from gateway.failures import sentence
from gateway.store.embedded import EmbeddedError

FOUND, USAGE, STORE_AWAY = 1, 2, 3

# The default 4,096 connections of senders, as many to consumers, and room for larger settings.
OPEN_FILES = 65_536

log = logging.getLogger("gateway.app")


def run(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run it in a loop of its own; the exit code. Raises KeyboardInterrupt and SystemExit."""
    _allow_open_files()
    for sign in _endings():
        signal.signal(sign, _end)
    return uvloop.run(work())


def run_waiting(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """The same for what never blocks: it ends where it waits, and so puts all of it away."""
    ended_by: list[int] = []

    async def main() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            ended_by.append(number)
            task.cancel()

        for sign in _endings():
            loop.add_signal_handler(sign, end, sign)
        return await work()

    try:
        return uvloop.run(main())
    except asyncio.CancelledError:
        raise SystemExit(128 + ended_by[0]) from None


async def serve(loaded: Loaded, reread: Callable[[], Loaded] | None) -> int:
    """A gateway from its start to its end; the exit code."""
    if reread is not None:  # to reload, then; and the file was read just now
        signal.signal(signal.SIGHUP, lambda *_: None)
    gateway = Gateway(loaded, reread=reread, at=failpoints.parse(os.environ))
    try:
        try:
            await gateway.start()
        except (EmbeddedError, OSError, ValueError) as error:
            log.error("start_failed", extra={"detail": sentence(error)})
            return exit_code(error)
        _calm_collector()
        await gateway.run_until_stopped()
    finally:
        await gateway.stop()
    return 0


def exit_code(error: Exception) -> int:
    """Of a failed start: a store that cannot run, or an address, a file, a DSN of no use."""
    return STORE_AWAY if isinstance(error, EmbeddedError) else USAGE


def _endings() -> list[signal.Signals]:
    """Besides Ctrl-C; under nohup the end of the terminal is none."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if ignored else [signal.SIGTERM, signal.SIGHUP]


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _calm_collector() -> None:
    """Leave what was loaded out of every collection, and collect less often.

    A delivery makes a few hundred objects and no cycles; at the usual 700 the collector took 6 to
    8 % of the CPU of a first delivery, most of it to walk modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _allow_open_files() -> None:
    """Raise the soft limit: with the usual 1024, `limits.connections` would mean nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
