"""Routing: the configured routes as running receivers, each with its hop to a consumer.

A reload keeps what did not change, connections included. What did change is built anew, and the old
receiver ends the requests that began under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

from gateway.config import fingerprint
from gateway.core.headers import Networks
from gateway.core.route import Mode, Route, RouteTable
from gateway.flow.forward import Sender
from gateway.flow.observe import ObserveRoute
from gateway.flow.reach import Reach
from gateway.flow.receive import ForwardRoute, Shared
from gateway.upstream.hop import Hop

Receiver = ForwardRoute | ObserveRoute
KINDS: dict[Mode, Callable[[Route, Sender, Shared], Receiver]] = {
    Mode.FORWARD: ForwardRoute,
    Mode.OBSERVE: ObserveRoute,
}


@dataclass(frozen=True, slots=True)
class Running:
    """A route as it runs."""

    route: Route
    receiver: Receiver
    hop: Hop
    reach: Reach
    certificates: bytes
    """The content of the hop's TLS files: renewed ones need a new hop."""


class Routing:
    """Finds the receiver of a request."""

    def __init__(self, shared: Shared, new_hop: Callable[[Route], Hop]) -> None:
        self._shared = shared
        self._new_hop = new_hop
        self._running: dict[str, Running] = {}
        # Of earlier configurations. A request that began under one holds its hop, before it sends
        # too, so what is still here may still be used.
        self._replaced: WeakSet[Hop] = WeakSet()
        self._unclosed: list[Hop] = []
        self._trusted: Networks = ()
        self._table = RouteTable(())

    def find(self, target: str, host: bytes | None) -> Receiver | None:
        """The receiver for a raw target and a Host header."""
        route = self._table.find(target, host)
        return None if route is None else self._running[route.name].receiver

    def use(self, routes: tuple[Route, ...], trusted: Networks) -> None:
        """Put a configuration in force, from the next request on.

        Raises OSError when a TLS file of a route cannot be used; then nothing has changed.
        """
        before = self._running
        self._running = {
            route.name: self._run(route, trusted, before.get(route.name)) for route in routes
        }
        self._trusted = trusted
        self._table = RouteTable(routes)
        kept = {id(running.hop) for running in self._running.values()}
        gone = [old.hop for old in before.values() if id(old.hop) not in kept]
        self._replaced.update(gone)
        self._unclosed += gone

    async def close_replaced(self) -> None:
        """Close the idle connections of earlier configurations."""
        while self._unclosed:
            await self._unclosed.pop().close()

    def certificates(self) -> Iterator[tuple[str, float]]:
        """Route and expiry (epoch seconds) of each consumer certificate that was seen."""
        for name, running in self._running.items():
            if running.hop.certificate_expires is not None:
                yield name, running.hop.certificate_expires

    async def abort(self) -> None:
        """Every forward under way ends now, those of replaced routes too."""
        for hop in [*(running.hop for running in self._running.values()), *self._replaced]:
            await hop.abort()

    async def close(self) -> None:
        """Close the idle connections."""
        for running in self._running.values():
            await running.hop.close()

    def _run(self, route: Route, trusted: Networks, old: Running | None) -> Running:
        tls = route.upstream.tls
        certificates = fingerprint(Path(name) for name in (tls.ca, tls.cert, tls.key) if name)
        if old is not None and _same_hop(old, route, certificates):
            if old.route == route and trusted == self._trusted:
                return old
            hop, reach = old.hop, old.reach
        else:
            hop, reach = self._new_hop(route), Reach(route, self._shared.clock)
        sender = Sender(route, hop, trusted, self._shared.counts, self._shared.clock, reach)
        receiver = KINDS[route.mode](route, sender, self._shared)
        return Running(route, receiver, hop, reach, certificates)


def _same_hop(old: Running, new: Route, certificates: bytes) -> bool:
    same = old.route.upstream == new.upstream and old.route.status == new.status
    return same and old.certificates == certificates
