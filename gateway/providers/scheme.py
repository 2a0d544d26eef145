"""Schemes: the ways in which providers sign. `schemes.py` has them all, by name.

A scheme is a value that says what it reads, covers and needs, and makes two things out of a route's
`Signature`: a verifier of what comes in, and for shared secrets a signer of what goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Signature
from gateway.providers.keyset import Keyring

# Of headers that an id is read from and no signature covers.
RECORDED = "whoever recorded one delivery can send it as another event"


class Verifier(Protocol):
    """Checks one route's deliveries."""

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether the provider signed it. `now`: epoch seconds. Never raises."""
        ...


class Signer(Protocol):
    """Signs one route's deliveries anew."""

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """With the route's first secret and the time `now` (epoch seconds), in place of what came.

        All other lines keep their place and bytes.
        """
        ...


def any_secret(secret: str) -> str | None:
    """No fault: whatever it is, it may be one."""
    del secret
    return None


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to sign."""

    name: str
    headers: frozenset[bytes]
    """Lower-case names of the headers that it reads."""
    carriers: frozenset[bytes]
    """Those of them that have the signature in them, or the token itself: nothing for a screen."""
    covered: frozenset[bytes] | None
    """Headers that cannot be changed under a signature; None for whatever the delivery lists."""
    covers_body: bool
    """Whether a body that lost something has to be signed anew."""
    proof: str | None
    """How it was shown right: the library that was tried, or where the vector is from.

    None: by nothing but its description, so it is unverified.
    """
    verifier: Callable[[Signature, Keyring], Verifier]
    """Raises OSError and ValueError for keys that cannot be used."""
    signer: Callable[[Signature], Signer] | None = None
    """None where only the provider can sign: public keys, and signatures inside the body."""
    dated: bool = False
    """Whether it has a signed time stamp, which a late delivery outlives."""
    tolerance: float | None = None
    """Seconds that the time stamp may be away from now where the route says nothing.

    None: any. Providers that name no limit may send a retry under its first stamp, and where the
    whole body is signed, a replay within the retention is a duplicate anyway. Where it is not, a
    recording can carry other events, so Mailgun and PayPal have as long as they retry.
    """
    needs: tuple[str, ...] = ("secrets",)
    """The settings of `signature` that it cannot do without."""
    bare: bool = False
    """Whether what is signed may be a mere token, as a body that is nothing else is: whoever has us
    make an HMAC of one has a signature."""
    signs_url: bool = False
    """Whether what is signed has the URL in it, so that `public_url` matters."""
    fault: Callable[[str], str | None] = any_secret
    """Why a text cannot be one of its secrets, in words that do not quote it; None if it can."""

    def unsigned(self, names: Iterable[str]) -> list[str]:
        """Those of these headers that whoever recorded a delivery can replace."""
        if self.covered is None:
            return []
        found = (name for name in names if name.lower().encode() not in self.covered)
        return list({name.lower(): name for name in found}.values())

    @property
    def signs(self) -> bool:
        """Whether we can sign as the provider does."""
        return self.signer is not None
