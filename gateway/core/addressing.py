"""Addressing: which route a request is for, and what target its consumer sees."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.route import Route


class RouteTable:
    """Which route a request is for: the most specific host wins, then the longest path."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._by_host: dict[str | None, list[Route]] = {}
        for route in sorted(routes, key=lambda r: len(r.path), reverse=True):
            for host in route.hosts or (None,):
                self._by_host.setdefault(host, []).append(route)
        self._any_hosts = any(route.hosts for route in routes)

    def find(self, target: str, host: bytes | None) -> Route | None:
        """Compares raw paths, segment by segment, undecoded."""
        path = target.partition("?")[0]
        if self._any_hosts and (name := bare_host(host)) is not None:
            route = _longest(self._by_host.get(name, ()), path)
            if route is not None:
                return route
        return _longest(self._by_host.get(None, ()), path)


def bare_host(host: bytes | None) -> str | None:
    """A Host header's name in lower case, without port and final dot."""
    if not host:
        return None
    text = host.decode("latin-1").lower()
    name = text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
    return name.rstrip(".")


def rewritten(target: str, route: Route) -> str:
    """The target that the consumer sees.

    An upstream path replaces the route's; the rest and the raw query follow. A target that was
    stored while the route had another path keeps its query only: nobody knows its rest any more.
    """
    if route.upstream.path is None:
        return target
    path, mark, query = target.partition("?")
    inside = _longest((route,), path) is not None
    rest = target[len(route.path) :] if inside else mark + query
    path = route.upstream.path.rstrip("/") if rest.startswith("/") else route.upstream.path
    return path + rest


def _longest(routes: Sequence[Route], path: str) -> Route | None:
    for route in routes:
        if path.startswith(route.path) and path[len(route.path) : len(route.path) + 1] in ("", "/"):
            return route
    return None
