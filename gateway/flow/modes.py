"""Modes: a route's receiver and deliverer, wired. After this there is no `if mode`."""

from __future__ import annotations

from typing import assert_never

from gateway.core.route import Mode, Route
from gateway.flow.accept import InboxRoute
from gateway.flow.deliver import Deliverer
from gateway.flow.doubt import Doubt
from gateway.flow.forward import Sender
from gateway.flow.guard import Guard
from gateway.flow.needs import Consumer, Verifier
from gateway.flow.notes import Notes
from gateway.flow.observe import ObserveRoute
from gateway.flow.receive import ForwardRoute
from gateway.flow.shared import Shared
from gateway.flow.weighed import Weighed

Innermost = ForwardRoute | ObserveRoute | InboxRoute
Receiver = Innermost | Weighed | Guard


def wire(
    route: Route,
    sender: Sender,
    prober: Consumer | None,
    verifier: Verifier | None,
    shared: Shared,
) -> tuple[Receiver, Deliverer]:
    """What takes a route's deliveries, and what sends its entries, in whatever mode.

    A route that left inbox mode, even for `observe`, still delivers what it had acknowledged.
    """
    notes = Notes(route, shared.counts, shared.parse, each_delivery=shared.log_deliveries)
    doubt = Doubt(route, prober, shared.inbox)
    deliverer = Deliverer(route, sender, doubt, notes, shared, slots=_slots(route))
    match route.mode:
        case Mode.FORWARD:
            innermost: Innermost = ForwardRoute(route, sender, doubt, deliverer, notes, shared)
        case Mode.INBOX:
            innermost = InboxRoute(route, sender, deliverer, notes, shared)
        case Mode.OBSERVE:
            innermost = ObserveRoute(route, sender, notes, shared)
        case _:
            assert_never(route.mode)
    receiver: Receiver = innermost
    if route.batch is not None:
        receiver = Weighed(innermost, sender, notes, shared)
    if verifier is not None:
        receiver = Guard(receiver, sender, verifier, notes, shared)
    return receiver, deliverer


def _slots(route: Route) -> int:
    """How many entries may be under way.

    Where deliveries wait for the same consumer, a backlog leaves half of its slots to them: they
    are answered 504 when they wait for one too long, and an entry just waits.
    """
    match route.mode:
        case Mode.INBOX:
            return route.upstream.concurrency
        case Mode.FORWARD | Mode.OBSERVE:
            return max(route.upstream.concurrency // 2, 1)
        case _:
            assert_never(route.mode)
