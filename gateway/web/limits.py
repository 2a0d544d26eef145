"""Limits of the provider's side: what strangers may cost us before a request is even complete."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What all connections of a process share. `Route.body_limit` bounds a single body."""

    connections: int
    """Open at once, over all listeners; more are closed unread. An idle one costs about 6 KiB,
    one that holds back the end of a small body up to 64 KiB more."""
    body_memory: int
    """Bytes for the bodies in memory at one time, beyond the first 64 KiB of each. Too small makes
    large deliveries wait and in the end answers 503; the process may need twice this amount,
    because the hop to the consumer can hold a copy."""
    body_timeout: float
    """Seconds from the end of the head to the end of the body, and once more from when there is
    room for a large one; then 408. A reply must be taken in the same time."""
    # A little longer than the 60 s after which the usual balancers drop an idle connection: the
    # side that reuses a connection should be the side that closes it.
    idle_timeout: float = 65.0
    """Seconds without a complete head, on a new connection as well as between two requests."""
    # Providers send 10 to 30 lines, proxies in front of us add a handful.
    header_lines: int = 64
