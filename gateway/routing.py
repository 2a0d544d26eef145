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
from gateway.config.senders import is_url
from gateway.core.addressing import RouteTable
from gateway.core.headers import Networks
from gateway.core.outcome import StatusPolicy
from gateway.core.route import Route, Tls, Upstream
from gateway.core.signature import Signature
from gateway.flow.deliver import Deliverer
from gateway.flow.deliverers import Deliverers
from gateway.flow.forward import Sender
from gateway.flow.modes import Receiver, wire
from gateway.flow.reach import Reach
from gateway.flow.shared import Shared
from gateway.sealing import Seals
from gateway.upstream.hop import Hop

NewHop = Callable[[Upstream, StatusPolicy], Hop]
NewSeals = Callable[[Signature], Seals]
"""Raises OSError or ValueError when the keys cannot be used."""
# A probe's 200 says that the consumer knows the event; what else it says, `flow/doubt.py` reads.
KNOWN = StatusPolicy(frozenset({200}), frozenset(), overload_is_refusal=False)


@dataclass(frozen=True, slots=True)
class Running:
    """A route as it runs."""

    route: Route
    receiver: Receiver
    deliverer: Deliverer
    hop: Hop
    prober: Hop | None
    reach: Reach
    certificates: tuple[bytes, ...]
    """The content of the hops' TLS files: renewed ones need new hops."""
    seals: Seals | None
    """None where nothing is checked."""
    keys: tuple[bytes, ...]
    """The content of the files of public keys, in the same way."""

    @property
    def hops(self) -> list[Hop]:
        """To the consumer, and to where it is asked about events."""
        return [self.hop] if self.prober is None else [self.hop, self.prober]


class Routing:
    """Finds the receiver of a request."""

    def __init__(self, shared: Shared, new_hop: NewHop, new_seals: NewSeals) -> None:
        self._shared = shared
        self._new_seals = new_seals
        self.deliverers = Deliverers(shared)
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

        Raises OSError or ValueError when a TLS file or a key of a route cannot be used; then
        nothing has changed.
        """
        before = self._running
        self._running = {
            route.name: self._run(route, trusted, before.get(route.name)) for route in routes
        }
        self._trusted = trusted
        self._table = RouteTable(routes)
        self.deliverers.use(running.deliverer for running in self._running.values())
        kept = {id(hop) for running in self._running.values() for hop in running.hops}
        gone = [hop for old in before.values() for hop in old.hops if id(hop) not in kept]
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
        in_force = [hop for running in self._running.values() for hop in running.hops]
        for hop in [*in_force, *self._replaced]:
            await hop.abort()

    async def close(self) -> None:
        """Close the idle connections."""
        for running in self._running.values():
            for hop in running.hops:
                await hop.close()

    def _run(self, route: Route, trusted: Networks, old: Running | None) -> Running:
        certificates, keys = fingerprint(_files(route)), fingerprint(_keys(route))
        if old is not None and _same_hops(old, route, certificates):
            if old.route == route and old.keys == keys and trusted == self._trusted:
                return old
            hop, prober, reach = old.hop, old.prober, old.reach
        else:
            hop = self._new_hop(route.upstream, route.status)
            reach = Reach(route, self._shared.clock)
            prober = None if route.probe is None else self._new_hop(route.probe.upstream, KNOWN)
        seals = self._seals(route, keys, old)
        verifier, signer = seals or (None, None)
        shared = self._shared
        sender = Sender(
            route, hop, trusted, shared.counts, shared.clock, reach, signer, shared.epoch
        )
        receiver, deliverer = wire(route, sender, prober, verifier, shared)
        return Running(
            route, receiver, deliverer, hop, prober, reach, certificates, seals, keys
        )  # fmt: skip

    def _seals(self, route: Route, keys: tuple[bytes, ...], old: Running | None) -> Seals | None:
        """Those of before where they are the same: they may have fetched keys."""
        if route.signature is None:
            return None
        if old is not None and (old.route.signature, old.keys) == (route.signature, keys):
            return old.seals
        return self._new_seals(route.signature)


def _files(route: Route) -> Iterator[Path]:
    of_probe = () if route.probe is None else (route.probe.upstream.tls,)
    for tls in (route.upstream.tls, *of_probe):
        yield from (Path(name) for name in _names(tls))


def _keys(route: Route) -> Iterator[Path]:
    keys = () if route.signature is None else route.signature.keys
    return (Path(key) for key in keys if not is_url(key))


def _names(tls: Tls) -> list[str]:
    return [name for name in (tls.ca, tls.cert, tls.key) if name]


def _same_hops(old: Running, new: Route, certificates: tuple[bytes, ...]) -> bool:
    before = old.route
    same = before.upstream == new.upstream and before.status == new.status
    return same and before.probe == new.probe and old.certificates == certificates
