"""Replies that never come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.stores import PATIENCE

T = TypeVar("T")


async def with_a_lost_reply(
    wire: FaultProxy, call: Coroutine[Any, Any, T], *, once: Callable[[], Awaitable[object]]
) -> T:
    """What the call is told although the first reply after `once` came true never came."""
    wire.cut_if = once
    wire.set(Wire.CUT_REPLIES)
    asked = asyncio.ensure_future(call)
    await eventually(lambda: wire.replies_cut, within=PATIENCE)
    wire.set(Wire.PASS)
    return await asked
