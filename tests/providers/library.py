"""A provider's own library: how it signs, and whether it accepts what somebody signed.

Where one only accepts, what it would have sent is put together here, from the provider's
documentation and without any code of the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.event import Delivery

URL = "https://hooks.example.com/hooks/shop?x=1"
"""Of all deliveries in the tables."""


@dataclass(frozen=True, slots=True)
class Library:
    """One of them."""

    name: str
    package: str
    """On PyPI."""
    scheme: str
    signs: Callable[[str, int], Delivery]
    """What the provider sends with a secret, at a time in epoch seconds."""
    accepts: Callable[[str, Delivery], bool]
    headers: tuple[str, ...]
    """Those under the signature, and the signature itself."""
    secrets: tuple[str, str] = ("whsec_current", "former secret")
    covers_body: bool = True
    """Whether each byte of the body is under the signature."""


def accepted(error: type[Exception], check: Callable[[], object]) -> bool:
    """Whether a check passes that raises where it does not."""
    try:
        check()
    except error:
        return False
    return True
