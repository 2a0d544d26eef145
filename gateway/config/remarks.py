"""Remarks: what a route's choices mean, a sentence each, for whoever has to live with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import assert_never

from gateway.config.custody import stores
from gateway.core.batch import OnMixed
from gateway.core.durations import format_duration
from gateway.core.route import Mode, OnDoubt, OnMissingId, OnStale, OnStoreDown, Route


def remarks(route: Route) -> tuple[str, ...]:
    """Of one route. Equal words for equal choices, so that they can be said once for all routes."""
    if route.pass_through is not None:
        return ("pass_through: everything is forwarded, doubles included; nothing is claimed",)
    if route.mode is Mode.OBSERVE:
        return ("observe: everything is forwarded, doubles included; duplicates are only counted",)
    return (
        *_modes(route),
        _without_id(route),
        *_batches(route),
        _without_store(route),
        *_in_doubt(route),
        *_while_old(route),
        *_while_stored(route),
    )


def _modes(route: Route) -> Iterator[str]:
    if route.mode is Mode.INBOX:
        yield (
            "inbox: the provider is told success before the consumer has seen the event and never "
            "learns of a failure; the gateway tries again, and what stays undelivered is dead and "
            "waits for a person"
        )
    elif route.acknowledge_after is not None:
        yield (
            "acknowledge_after: once a delivery was acknowledged the provider never learns of a "
            "failure; the gateway tries again, and what stays undelivered is dead and waits for a "
            "person"
        )


def _without_id(route: Route) -> str:
    match route.missing_id:
        case OnMissingId.FORWARD:
            return "missing_id forward: without a usable id a delivery passes unprotected, counted"
        case OnMissingId.REFUSE:
            return (
                "missing_id refuse: without a usable id a delivery gets 400; the provider loses it"
            )
        case _:
            assert_never(route.missing_id)


def _batches(route: Route) -> Iterator[str]:
    if route.batch is None:
        return
    if route.batch.on_mixed is OnMixed.FILTER:
        yield "on_mixed filter: of a batch with new items and seen ones the new ones are forwarded"
    else:
        yield (
            "on_mixed whole: a batch with new items and seen ones is forwarded whole, marked by "
            "Dedup-Possible-Duplicate; a consumer that ignores the mark doubles the seen ones"
        )


def _without_store(route: Route) -> str:
    match route.on_store_down:
        case OnStoreDown.REFUSE:
            return (
                "on_store_down refuse: without its store the gateway answers 503; a provider that "
                "never retries loses the event, which on_store_down: forward avoids at the price "
                "of doubles"
            )
        case OnStoreDown.FORWARD:
            return (
                "on_store_down forward: without its store the gateway lets doubles through, marked"
            )
        case _:
            assert_never(route.on_store_down)


def _in_doubt(route: Route) -> Iterator[str]:
    match route.on_doubt:
        case OnDoubt.RETRY:
            if not route.idempotency_key:
                yield (
                    "idempotency_key false: a second send after doubt is marked by "
                    "Dedup-Possible-Duplicate only; set true if the consumer knows Idempotency-Key"
                )
        case OnDoubt.HOLD:
            yield (
                "on_doubt hold: an event whose earlier attempt may have had its effect is "
                "acknowledged, which ends the provider's retries, and is sent again only by a "
                "person"
            )
        case OnDoubt.PROBE:
            yield (
                "on_doubt probe: the consumer is asked before such an event is sent again; one "
                "that stays undecided is acknowledged after probe.give_up, which ends the "
                "provider's retries, and waits for a person"
            )
        case _:
            assert_never(route.on_doubt)
    if route.idempotency_key:
        yield (
            "idempotency_key true: forwards carry an Idempotency-Key; a consumer that replays a "
            "stored 500 under it never gets past that"
        )


def _while_old(route: Route) -> Iterator[str]:
    if route.on_stale is OnStale.HOLD:
        yield (
            "on_stale hold: a new event older than the retention is acknowledged, which ends the "
            "provider's retries, and is sent only by a person"
        )


def _while_stored(route: Route) -> Iterator[str]:
    if not stores(route):
        return
    yield (
        "keep_payload: stored deliveries are whole ones, with the personal data in them; they go "
        f"{_kept(route.keep_payload)} they were delivered or dropped, and not before"
    )
    if route.mode is Mode.INBOX:
        yield (
            f"high_water: with {route.high_water} pending or leased events of a route, its new "
            "ones get 503; what is dead or held does not count"
        )


def _kept(span: timedelta) -> str:
    return f"{format_duration(span)} after" if span else "as soon as"
