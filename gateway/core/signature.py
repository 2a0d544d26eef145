"""Signatures: what a route checks before any claim, and what a check may say.

A forged id must never take the slot of a real one, so a signature is checked on the raw body before
the id is read (D10). `providers/` has the schemes: what is signed, where the result is, and how it
is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

VALID, UNCHECKED = "valid", "unchecked"
"""What a check may find besides flaws, in metrics."""
VERIFIED = (b"Dedup-Verified", b"1")
"""The last line of a delivery that was checked, where it is to be signed anew. It goes with the
stored ones, no sender can bring it, and it ends before the consumer: what nobody checked must never
leave us under our signature."""


class Flaw(StrEnum):
    """Why a signature is none."""

    MISSING = "missing"
    """There is none, or it cannot be read."""
    WRONG = "wrong"
    """No secret of the route's made it, for these bytes."""
    EXPIRED = "expired"
    """Right, and its time stamp is further from now than the tolerance."""


@dataclass(frozen=True, slots=True)
class Valid:
    """The provider signed it. `secret`: the place among the route's secrets of the one it used."""

    secret: int


@dataclass(frozen=True, slots=True)
class Invalid:
    """It is not to be believed."""

    flaw: Flaw


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Nobody knows: the keys cannot be had. `why`: in few words for people."""

    why: str


Checked = Valid | Invalid | Unchecked


@dataclass(frozen=True, slots=True)
class Signature:
    """How a route's deliveries are signed. Secrets and keys are all tried."""

    scheme: str
    """Its name in `providers/`."""
    secrets: tuple[str, ...] = field(repr=False)
    """Shared with the provider; for schemes with public keys these are the keys as text."""
    keys: tuple[str, ...]
    """Public keys: paths of PEM or JWKS files, and https URLs of JWKS."""
    tolerance: float | None
    """Seconds that a time stamp may be away from now; None for schemes without, or for any."""
    public_url: str | None
    """What the provider calls us by, where it signs the URL: scheme, host, port; a path replaces
    the request's."""
    expected: tuple[tuple[str, str], ...]
    """What else has to be so, by name: `audience`, `issuer`, `email`, `webhook_id`."""
    headers: frozenset[bytes]
    """Lower-case names of the headers that the check reads."""
    resign: bool
    """Whether what goes to the consumer is signed anew, with the first secret and a fresh time."""
