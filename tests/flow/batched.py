"""Batches in conversations."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.core.answer import Answer
from gateway.core.batch import BatchPolicy, OnMixed
from gateway.core.claim import Ask, Claim, Ending, Settlement, State
from gateway.core.event import Delivery, EventKey
from gateway.core.fingerprint import fingerprint
from gateway.core.inbox import Entry
from gateway.core.keying import digest
from gateway.core.location import Json
from tests.flow.consumer import Forwarded
from tests.flow.world import LEASE, TOKENS, World, delivery


def policy(on_mixed: OnMixed) -> BatchPolicy:
    return BatchPolicy(((),), (Json(("id",)),), Json(("type",)), Json(("at",)), on_mixed)


FILTER, WHOLE = policy(OnMixed.FILTER), policy(OnMixed.WHOLE)


def batch(*items: object) -> Delivery:
    """Of ids, or of whole items."""
    body = [item if isinstance(item, dict) else {"id": item} for item in items]
    return delivery()._replace(body=json.dumps(body).encode())


async def bring(world: World, *items: object) -> Answer:
    return await world.receiver.receive(batch(*items))


def bringing(world: World, *items: object) -> asyncio.Task[Answer]:
    return asyncio.ensure_future(bring(world, *items))


def carried(request: Forwarded) -> list[Any]:
    """The ids in a body that the consumer saw; None for an item without."""
    return [item.get("id") for item in json.loads(request.body)]


def sent(world: World) -> list[list[Any]]:
    return [carried(request) for request in world.consumer.received]


def key(event_id: str) -> EventKey:
    return EventKey(digest(("orders",), (event_id,)), event_id)


def claim(world: World, event_id: str) -> Claim:
    return world.shop.claims.rows[key(event_id).digest]


def print_of(item: object) -> int:
    """The fingerprint of an item as `batch` writes it."""
    return fingerprint(json.dumps(item).encode())


async def hold(world: World, *event_ids: str) -> int:
    """Another process holds these; its token."""
    token = next(TOKENS)
    for event_id in event_ids:
        print_ = print_of({"id": event_id})
        await world.shop.claims.arrive(Ask(key(event_id), "orders", token, LEASE, print_), within=1)
    return token


async def end(world: World, token: int, ending: Ending, *event_ids: str) -> None:
    """That process ends them."""
    for event_id in event_ids:
        done = Settlement(key(event_id), "orders", token, print_of({"id": event_id}), ending)
        await world.shop.claims.settle(done)


def states(world: World, *event_ids: str) -> list[State | None]:
    rows = (world.shop.claims.rows.get(key(event_id).digest) for event_id in event_ids)
    return [None if row is None else row.state for row in rows]


def entries(world: World) -> list[Entry]:
    return [row.entry for row in world.shop.claims.entries.values()]
