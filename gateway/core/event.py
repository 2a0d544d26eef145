"""The nouns: an event's key, and one delivery of it exactly as it came over the wire.

What is made for every single delivery is a NamedTuple, here and in the modules around: as immutable
as a frozen dataclass, and made in a third of its time. There are eight or so a delivery.
"""

from __future__ import annotations

from typing import NamedTuple

RawHeaders = tuple[tuple[bytes, bytes], ...]
"""Header lines in the order, spelling and number in which they came."""


class EventKey(NamedTuple):
    """What a claim is unique on, and the id behind it for people."""

    digest: bytes
    """16 bytes of BLAKE2b over the length-prefixed scope and id; see `keying.digest`."""
    event_id: str
    """As the provider wrote it, whole. The parts of a composite id are joined with a comma."""


class Part(NamedTuple):
    """One of the events that a batch carries: what it is claimed by."""

    key: EventKey
    fingerprint: int
    """Of its own bytes."""


class Delivery(NamedTuple):
    """One inbound HTTP request, complete. Bytes are never decoded and encoded again."""

    method: str
    target: str
    """The raw request target (origin form, so it starts with a slash); ASCII."""
    headers: RawHeaders
    body: bytes
    peer: str
    """IP address of the socket's other end."""
    scheme: str
    """`http` or `https`: how the peer spoke to this listener."""

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` in lower case."""
        for line, value in self.headers:
            if line.lower() == name:
                return value
        return None
