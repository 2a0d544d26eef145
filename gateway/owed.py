"""What is owed on routes that a configuration lacks: acknowledged events that are undelivered.

A route that is removed or renamed takes its entries' address with it. So such a configuration is
refused, at start and at a reload, until they are delivered, dropped, or the route is back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from gateway.core.claim import StoreAway
from gateway.core.route import Route
from gateway.store.store import Store

log = logging.getLogger("gateway.app")

# A start waits so long for the store's first word; without one it goes on, as it must.
FIRST_WORD = 5.0


class RoutesMissing(ValueError):
    """The configuration lacks routes whose acknowledged events are undelivered."""


async def refuse_missing(store: Store, routes: Iterable[Route]) -> None:
    """Raises RoutesMissing; StoreAway when the store cannot say."""
    owed = await store.orphans([route.name for route in routes])
    if owed:
        counts = ", ".join(f"{name} ({entries})" for name, entries in owed.items())
        raise RoutesMissing(
            f"acknowledged events are undelivered on routes that are not configured: {counts};"
            " put each route back under its name until `dedup-gateway inbox list --route NAME` is"
            " empty; what is dead or held there waits for `inbox redrive`, `complete` or `drop`"
        )


async def refuse_missing_at_start(store: Store, routes: Iterable[Route]) -> None:
    """The same; a store that is away is no reason not to start. Raises RoutesMissing."""
    await store.first_look(FIRST_WORD)
    if store.problem is not None:
        return
    try:
        await refuse_missing(store, routes)
    except StoreAway as away:
        log.warning("owed_unknown", extra={"detail": str(away)})


async def refuse_missing_at_reload(
    store: Store, before: Iterable[Route], after: tuple[Route, ...]
) -> None:
    """The same when a route goes. Raises RoutesMissing, also where the store cannot say."""
    gone = {route.name for route in before} - {route.name for route in after}
    if not gone:
        return
    try:
        await refuse_missing(store, after)
    except StoreAway as away:
        names = ", ".join(sorted(gone))
        raise RoutesMissing(
            f"the store is away, so nobody knows whether {names} still owes events ({away});"
            " put the route back, or reload again when the store is there"
        ) from away
