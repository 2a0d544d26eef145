"""Sealing: what checks a route's deliveries and signs them anew, and the keys for it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.signature import Signature
from gateway.fetching import Fetching
from gateway.flow.needs import Signer, Verifier
from gateway.keys import KeyStore
from gateway.providers import schemes

Seals = tuple[Verifier, Signer | None]
"""Of one route; without a signer where the delivery goes on as it came."""


class Sealing:
    """One for the process, made in its loop: what was fetched for one route serves the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._fetching = Fetching()
        self._keys = KeyStore(self._fetching.fetch, clock)

    def seals(self, signature: Signature) -> Seals:
        """Those of one route. Raises OSError or ValueError when its keys cannot be used."""
        return schemes.verifier(signature, self._keys), schemes.signer(signature)

    async def watch(self) -> None:
        """Keep the keys fresh for good."""
        await self._keys.watch()

    async def close(self) -> None:
        """Fetch nothing more."""
        await self._keys.close()
        await self._fetching.close()
