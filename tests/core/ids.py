"""Deliveries that carry an id somewhere, and what is found in them."""

from __future__ import annotations

from gateway.core.event import Delivery, EventKey
from gateway.core.keying import (
    Reading,
    Recipe,
)
from gateway.core.location import Literal, parse_location

SCOPE = (Literal("orders"),)


def recipe(*parts: str, scope: tuple[str, ...] = ("literal:orders",)) -> Recipe:
    return Recipe(tuple(map(parse_location, scope)), tuple(map(parse_location, parts)))


BY_JSON = recipe("json:/event_id")
BY_HEADER = recipe("header:X-GitHub-Delivery")


def delivery(
    body: bytes = b"", *headers: tuple[bytes, bytes], target: str = "/hooks/orders"
) -> Delivery:
    return Delivery("POST", target, headers, body, "192.0.2.1", "http")


def identify(
    by: Recipe, body: bytes = b"", *headers: tuple[bytes, bytes], target: str = "/h"
) -> object:
    return Reading(delivery(body, *headers, target=target)).identify(by)


def key(
    by: Recipe, body: bytes = b"", *headers: tuple[bytes, bytes], target: str = "/h"
) -> EventKey:
    found = identify(by, body, *headers, target=target)
    assert isinstance(found, EventKey)
    return found


def with_id(raw: str) -> bytes:
    return b'{"event_id": ' + raw.encode() + b"}"
