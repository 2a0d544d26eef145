"""Asking the store of a configuration, for `check --store`. Nothing is written."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from gateway.config import Loaded
from gateway.config.memory_report import MemoryFindings
from gateway.config.report import StoreFindings
from gateway.core.canary import Memory, Remembered
from gateway.core.claim import StoreAway
from gateway.flow.remembering import unrecognised
from gateway.owed import RoutesMissing, refuse_missing
from gateway.retaining import kept
from gateway.store import durability
from gateway.store.store import Store

# Somebody waits at a terminal; looking through a long table takes a while.
WITHIN = 60.0


async def ask(dsn: str, loaded: Loaded) -> StoreFindings:
    """What it says. Raises StoreAway, and ValueError for a DSN of no use."""
    said = await durability.ask(dsn)
    store = Store(
        dsn,
        keep_ids=loaded.keep_ids,
        clock=time.monotonic,
        on_error=lambda _: None,
        on_statement=lambda *_: None,
    )
    try:
        async with asyncio.timeout(WITHIN):
            memory = await _memory(store, loaded)
    except TimeoutError:
        raise StoreAway(f"no answer within {WITHIN:.0f} s") from None
    finally:
        await store.stop()
    return StoreFindings(said.version, said.risks, memory)


async def _memory(store: Store, loaded: Loaded) -> MemoryFindings | None:
    if not await store.retention.is_on_record():
        return None
    names = [route.name for route in loaded.routes]
    memories = await store.retention.memories(names)
    return MemoryFindings(
        unrecognised=tuple(await unrecognised(store.retention, loaded.routes)),
        shortened=tuple(await store.retention.shortened(names)),
        memories={
            one.route.name: Remembered(
                retention=one.retention,
                reach=memory.reach,
                expected=one.expected(_as_registered(memory, one.retention), memory.age),
            )
            for one in kept(loaded)
            if (memory := memories.get(one.route.name)) is not None
        },
        missing=await _missing(store, loaded),
    )


async def _missing(store: Store, loaded: Loaded) -> str | None:
    try:
        await refuse_missing(store, loaded.routes)
    except RoutesMissing as missing:
        return str(missing)
    return None


def _as_registered(memory: Memory, retention: float) -> Memory:
    """What the file's retention will be: raised from the one on record, where that is shorter."""
    if memory.retention is None or memory.retention >= retention:
        return memory
    return replace(memory, grown=min(memory.retention, memory.grown or memory.retention))
