"""Batches as providers send them, and what became of each of their items."""

from __future__ import annotations

import json
from typing import Any

from tests.rig import sender
from tests.rig.consumer import Received
from tests.rig.settings import Settings
from tests.rig.world import Claim, World

BATCH = {"items": "json:/*", "event_id": "json:/id", "event_type": "json:/type"}


def route(world: World, name: str, **more: Any) -> Settings:
    """A route whose bodies are lists of items, and nothing else has an id."""
    return world.route(name, **{"event_id": None, "batch": BATCH, **more})


def batch(name: str, *items: object, path: str = "/hooks/mail") -> bytes:
    """Of ids, or of whole items. `name`: what the consumer has a script for."""
    body = [item if isinstance(item, dict) else {"id": item} for item in items]
    lines = [("Content-Type", "application/json"), ("X-Rig", name)]
    return sender.request(path, json.dumps(body).encode(), headers=lines)


def ids(request: Received) -> list[Any]:
    """Those in a body that the consumer received; None for an item without."""
    return [item.get("id") for item in json.loads(request.body)]


def taken(world: World, *names: str) -> list[list[Any]]:
    """The items of each request that came under these names."""
    return [ids(request) for name in names for request in world.consumer.requests(name)]


async def claims(world: World, *event_ids: str) -> list[Claim | None]:
    return [await world.database.claim(event_id) for event_id in event_ids]


async def states(world: World, *event_ids: str) -> list[str | None]:
    found = await claims(world, *event_ids)
    return [None if claim is None else claim.state for claim in found]
