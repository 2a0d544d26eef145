"""Fingerprints: whether one id came with one body. Wrong keys announce themselves by them."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from gateway.core.document import bytes_of, text_of
from gateway.core.spans import Pointer, Steps, lacking


def fingerprint(
    body: bytes, per_attempt: Collection[Pointer] = (), steps: Steps | None = None
) -> int:
    """Eight bits that nearly always change when the body does, 0 to 255.

    `per_attempt`: members of a JSON body that change with every attempt, or come with some of them
    only, and are left out.
    """
    return zlib.crc32(lasting(body, per_attempt, steps)) & 0xFF


def lasting(body: bytes, per_attempt: Collection[Pointer], steps: Steps | None = None) -> bytes:
    """What of a body stays the same with every attempt; all of it where it is no JSON."""
    if not per_attempt:
        return body
    try:
        return bytes_of(lacking(text_of(body), per_attempt, steps))
    except ValueError:  # in no encoding of JSON, no JSON, or too much of it
        return body
