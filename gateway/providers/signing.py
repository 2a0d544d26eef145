"""Signing: message authentication codes under a shared secret, and how they are compared.

Reading a delivery says which marks it carries, what they may have been made of, and when. Marks are
compared as they are written, byte by byte: one that decodes to the right digest and is spelled in
another way was changed by somebody. Every secret is tried on every text, and comparing two marks of
one length takes as long whatever is in them, so time tells nothing about the secrets or which of
them was right. It does tell how many texts and marks there were, which the sender knows.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers.keyset import Keyring

SIZES = {"sha1": 20, "sha256": 32}


class Encoding(Enum):
    """How a digest is written."""

    HEX = "hex"
    BASE64 = "base64"

    def write(self, digest: bytes) -> bytes:
        """The text of a digest; lower case in hex, with padding in base64."""
        return digest.hex().encode() if self is Encoding.HEX else base64.b64encode(digest)

    def alphabet(self, digest: str) -> str:
        """A regular expression for the texts that a digest may have."""
        size = SIZES[digest]
        if self is Encoding.HEX:
            return f"[0-9a-f]{{{2 * size}}}"
        padding = -size % 3
        return f"[A-Za-z0-9+/]{{{4 * (size // 3) + 4 - padding}}}{'=' * padding}"


@dataclass(frozen=True, slots=True)
class Signed:
    """What a delivery says about its signature."""

    marks: tuple[bytes, ...]
    """As they are written; one of them has to be right."""
    texts: tuple[bytes, ...]
    """What may have been signed: providers are not always sure of their own URL."""
    time: float | None = None
    """Epoch seconds of the time stamp that is part of the text; None for schemes without."""
    digest: str = "sha256"


Read = Callable[[Delivery, str | None], Signed | None]
"""Reads a delivery, and the route's public URL where the URL is signed; None where the signature is
missing or makes no sense."""


def judge(secret: int | None, time: float | None, tolerance: float | None, now: float) -> Checked:
    """What a check says. `secret`: the place of the one that was right, None for none.

    Only what is right can be too old: a forger learns nothing from it, and an operator who reads
    `expired` knows that the secret is fine.
    """
    if secret is None:
        return Invalid(Flaw.WRONG)
    if time is not None and tolerance is not None and abs(now - time) > tolerance:
        return Invalid(Flaw.EXPIRED)
    return Valid(secret)


class MacVerifier:
    """Checks marks that were made with a shared secret."""

    def __init__(
        self, read: Read, signature: Signature, encoding: Encoding, derive: Callable[[str], bytes]
    ) -> None:
        """Raises ValueError for a secret that is none."""
        self._read = read
        self._keys = keys(signature, derive)
        self._encoding = encoding
        self._public_url, self._tolerance = signature.public_url, signature.tolerance

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether one of the secrets made one of the marks."""
        signed = self._read(delivery, self._public_url)
        if signed is None:
            return Invalid(Flaw.MISSING)
        secret = maker(signed, self._keys, self._encoding)
        return judge(secret, signed.time, self._tolerance, now)


def verifier(
    read: Read, encoding: Encoding, derive: Callable[[str], bytes]
) -> Callable[[Signature, Keyring], MacVerifier]:
    """What makes a scheme's verifiers."""

    def made(signature: Signature, keyring: Keyring) -> MacVerifier:
        del keyring  # the secrets are all there is to it
        return MacVerifier(read, signature, encoding, derive)

    return made


def maker(signed: Signed, keys: Iterable[bytes], encoding: Encoding) -> int | None:
    """The place of the first key that made one of the marks; None for none."""
    found = None
    for place, key in enumerate(keys):
        for text in signed.texts:
            made = encoding.write(hmac.digest(key, text, signed.digest))
            if matches(made, signed.marks) and found is None:
                found = place
    return found


def matches(made: bytes, marks: Iterable[bytes]) -> bool:
    """Whether one of the marks is the one made; all are compared."""
    right = False
    for mark in marks:
        right |= hmac.compare_digest(made, mark)
    return right


def plain(secret: str) -> bytes:
    """The secret's own bytes."""
    return secret.encode("utf-8", "surrogateescape")


def keys(signature: Signature, derive: Callable[[str], bytes]) -> tuple[bytes, ...]:
    """The keys of a route's secrets, in their order. Raises ValueError for what is none."""
    return tuple(derive(secret) for secret in signature.secrets)
