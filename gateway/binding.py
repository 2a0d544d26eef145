"""Binding an address that was configured: told when it is bound, and by its setting when not."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from ssl import SSLContext

from gateway.config import Listen

log = logging.getLogger("gateway.app")

# Setting, flag and variable: the sample's command line has no flags for addresses.
ADMIN = "admin.listen", "--admin", "DEDUP__ADMIN__LISTEN"
DELIVERIES = "listen", "--listen", "DEDUP__LISTEN"

Open = Callable[[str, int, SSLContext | None], Awaitable[tuple[str, int]]]
"""Takes host, port and TLS, gives host and port as bound; raises OSError."""


async def bind(open_at: Open, place: Listen, tls: SSLContext | None, *, admin: bool) -> str:
    """HOST:PORT as bound. Raises OSError, which says where to write another address."""
    try:
        host, port = await open_at(place.host, place.port, tls)
    except OSError as error:
        setting, flag, name = ADMIN if admin else DELIVERIES
        said = error.strerror or str(error)
        if not said.startswith("cannot listen on"):  # a name that nobody knows, say
            said = f"cannot listen on {_address(place.host, place.port)}: {said}"
        remedy = f"write another address under {setting}, or {flag} HOST:PORT, or {name}=HOST:PORT"
        raise OSError(error.errno, f"{said}; {remedy}") from error
    address = _address(host, port)
    log.info("listening", extra={"what": "admin" if admin else "deliveries", "address": address})
    return address


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
