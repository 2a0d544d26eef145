"""Secrets: how the text that a provider shows becomes the key that it signs with."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable

from gateway.providers.signing import plain

WEBHOOK_SECRET = "whsec_"


def standard(secret: str) -> bytes:
    """Of Standard Webhooks: base64 behind `whsec_`, padded or not. Raises ValueError."""
    encoded = secret.removeprefix(WEBHOOK_SECRET)
    key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    if not key:
        raise ValueError("nothing behind the prefix")
    return key


def hexadecimal(secret: str) -> bytes:
    """Of Adyen. Raises ValueError."""
    key = binascii.a2b_hex(secret)
    if not key:
        raise ValueError("nothing")
    return key


def sha1_of(secret: str) -> bytes:
    """Of Braintree."""
    return hashlib.sha1(plain(secret)).digest()


def fault_of(derive: Callable[[str], bytes], wanted: str) -> Callable[[str], str | None]:
    """Why a text is no secret, for keys that not every text makes. `wanted`: what it should be."""

    def fault(secret: str) -> str | None:
        try:
            derive(secret)
        except ValueError:
            return f"it is not {wanted}"
        return None

    return fault
