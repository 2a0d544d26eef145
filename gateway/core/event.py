"""The nouns: an event's key, and one delivery of it exactly as it came over the wire."""

from __future__ import annotations

from dataclasses import dataclass

RawHeaders = tuple[tuple[bytes, bytes], ...]
"""Header lines in the order, spelling and number in which they came."""


@dataclass(frozen=True, slots=True)
class EventKey:
    """What a claim is unique on, and the id behind it for people."""

    digest: bytes
    """16 bytes of BLAKE2b over the length-prefixed scope and id; see `keying.digest`."""
    event_id: str
    """As the provider wrote it, whole. The parts of a composite id are joined with a comma."""


@dataclass(frozen=True, slots=True)
class Delivery:
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
