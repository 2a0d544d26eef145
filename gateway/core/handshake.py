"""Handshakes: requests by which a provider tests an endpoint. They are no events and never claimed.

They pass through to the consumer, or are answered for it where the route says so: by what the
request itself says, and nothing that anybody keeps.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.core.document import bytes_of
from gateway.core.event import RawHeaders
from gateway.core.keying import Reading
from gateway.core.location import Location

# What a proof is made of: a random token. Anybody may ask for one, and an HMAC of whatever they
# like, under the secret that signs deliveries, would sign their forgeries; those have a time
# stamp's dot or colon in them, or a body's braces. Where a scheme may sign less than that
# (`Scheme.bare`), configuration refuses a proof that anybody may ask for.
_TOKEN = re.compile(r"[A-Za-z0-9_+/-]{1,128}={0,2}")


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that a request has, has with a certain value, or lacks."""

    where: Location
    equals: str | None = field(default=None, repr=False)
    """None for any value. It may be a token that only the provider and the route know."""
    absent: bool = False

    def holds(self, reading: Reading) -> bool:
        """Whether a request is so."""
        if self.absent:
            return reading.lacks(self.where)
        found = reading.text(self.where)
        if found is None:
            return False
        return self.equals is None or hmac.compare_digest(bytes_of(found), bytes_of(self.equals))


@dataclass(frozen=True, slots=True)
class Proof:
    """The hex HMAC-SHA256 of a random token: shows that we have the route's first secret."""

    of: Location


@dataclass(frozen=True, slots=True)
class Greeting:
    """What answers a handshake."""

    status: int
    content_type: str | None
    headers: tuple[tuple[str, Location], ...] = ()
    text: Location | None = None
    """The body."""
    members: tuple[tuple[str, Location | Proof], ...] = ()
    """Or those of a JSON object."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """One kind of them."""

    methods: frozenset[str]
    """Empty for any."""
    conditions: tuple[Condition, ...]
    """All of them hold."""
    signed: bool
    """Whether the provider signs it as it signs deliveries."""
    greeting: Greeting | None
    """None where only the consumer can answer."""

    def matches(self, reading: Reading) -> bool:
        """Whether a request is one of this kind."""
        if self.methods and reading.delivery.method not in self.methods:
            return False
        return all(condition.holds(reading) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Said:
    """A greeting in the words of one request."""

    status: int
    headers: RawHeaders
    body: bytes


def find(handshakes: Iterable[Handshake], reading: Reading) -> Handshake | None:
    """The handshake that a request is; None for an event."""
    return next((one for one in handshakes if one.matches(reading)), None)


def say(greeting: Greeting, reading: Reading, secret: str | None) -> Said | None:
    """The answer to a request; None where the request, or we, lack what belongs into it.

    `secret`: the route's first, for a proof.
    """
    lines: list[tuple[bytes, bytes]] = []
    if greeting.content_type is not None:
        lines.append((b"Content-Type", greeting.content_type.encode()))
    for name, where in greeting.headers:
        value = reading.text(where)
        if value is None or not value.isprintable() or not value.isascii():
            return None
        lines.append((name.encode(), value.encode()))
    body = _body(greeting, reading, secret)
    return None if body is None else Said(greeting.status, tuple(lines), body)


def _body(greeting: Greeting, reading: Reading, secret: str | None) -> bytes | None:
    if not greeting.members:
        text = "" if greeting.text is None else reading.text(greeting.text)
        return None if text is None else bytes_of(text)
    said = {}
    for name, value in greeting.members:
        found = _proof(value, reading, secret) if isinstance(value, Proof) else reading.text(value)
        if found is None:
            return None
        said[name] = found
    return json.dumps(said).encode()


def _proof(proof: Proof, reading: Reading, secret: str | None) -> str | None:
    token = reading.text(proof.of)
    if token is None or secret is None or not _TOKEN.fullmatch(token):
        return None
    return hmac.digest(secret.encode(), token.encode(), "sha256").hex()
