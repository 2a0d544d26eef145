"""The listeners' certificates. A renewed one serves the next connection, without a restart."""

from __future__ import annotations

import ssl

from gateway.config import Listen, ServerTls


class Certificates:
    """TLS contexts by their files; both listeners may share one."""

    def __init__(self) -> None:
        self._contexts: dict[ServerTls, ssl.SSLContext] = {}

    def context(self, place: Listen) -> ssl.SSLContext | None:
        """None for a listener without TLS. Raises OSError when a file cannot be used."""
        if place.tls is None:
            return None
        if place.tls not in self._contexts:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(place.tls.cert, place.tls.key)
            self._contexts[place.tls] = context
        return self._contexts[place.tls]

    def renew(self) -> None:
        """Read the files again. Raises OSError when one cannot be used.

        Certificate and key are replaced one after the other, so a look in between fails; the old
        pair serves on, and the next look finds both.
        """
        for tls, context in self._contexts.items():
            # Tried on a context that nobody uses: a pair that does not match must not half load.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(tls.cert, tls.key)
            context.load_cert_chain(tls.cert, tls.key)
