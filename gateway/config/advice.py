"""Advice: settings that are allowed and probably not meant. Each is a warning at start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from gateway.config import custody, senders, signing
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import RouteSettings
from gateway.config.settings import Settings
from gateway.core.durations import format_duration
from gateway.core.retention import shortfall
from gateway.core.route import Mode, OnMissingId, OnStoreDown, Route

# Providers change their schedules every few years.
_OLD_PROMISE = timedelta(days=2 * 365)
_SERVER_FAILS = 500
# Slack, Discord, Meta: a consumer that does anything at all is too slow for them now and then.
_HARDLY_PATIENT = timedelta(seconds=3)
_TRY_AGAIN = frozenset({408, 425, 429})
# What people write who mean `preserve`.
_FOR_PRESERVE = frozenset(
    {
        "client",
        "incoming",
        "keep",
        "original",
        "pass",
        "passthrough",
        "preserved",
        "same",
        "sender",
        "true",
    }
)


def process_faults(settings: Settings) -> Iterator[Fault]:
    """What to say about the valid settings outside routes."""
    for index, networks in enumerate(settings.trusted_proxies):
        for network in networks:
            if network.prefixlen == 0:
                message = f"{network} trusts everybody, so any sender can claim any address"
                remedy = "write the networks of your own proxies"
                yield Fault(("trusted_proxies", index), message, remedy)


def faults(settings: RouteSettings, route: Route, here: Path, today: date) -> Iterator[Fault]:
    """What to say about one valid route. `today`: `date.max` where nobody knows the day."""
    if missing := short_retention(settings, route, here):
        yield missing
    elif settings.accept_short_retention and not shortfall(route.retention, route.floor):
        message = "the retention is long enough without it"
        yield Fault((*here, "accept_short_retention"), message, "remove it")
    if "POST" not in route.methods:
        message = "lacks POST, by which nearly all events come; they pass unprotected"
        yield Fault((*here, "methods"), message, "add POST, unless the provider never uses it")
    yield from _promise(settings, here, today)
    yield from _failures_as_success(settings, here)
    yield from _host(settings, here)
    yield from _waits(settings, route, here)
    yield from _without_effect(route, here)
    yield from _only_chance(route, here)
    yield from custody.advice(settings, route, here)


def short_retention(settings: RouteSettings, route: Route, here: Path) -> Fault | None:
    """The retention is below the floor and nobody has said why."""
    if settings.accept_short_retention or not shortfall(route.retention, route.floor):
        return None
    assert route.floor is not None
    kept, floor = format_duration(route.retention), format_duration(route.floor)
    return Fault(
        (*here, "retention"),
        f"{kept} is below the floor of {floor}, so the latest duplicates are forwarded as new",
        f"write {floor} or more, or accept_short_retention: REASON",
    )


def _promise(settings: RouteSettings, here: Path, today: date) -> Iterator[Fault]:
    promise, given = settings.promise, senders.preset_of(settings)
    if promise is None or settings.pass_through is not None:
        return
    for name in ("retry_horizon", "redrive_window"):
        if getattr(promise, name) is None:
            known = None if given is None else given.unknown.get(f"promise.{name}")
            why = f" ({known.value})" if known is not None else ""
            message = f"is unknown and counts as 7d{why}"
            yield Fault(
                (*here, "promise", name), message, "write what the provider says, 0s for none"
            )
    if promise.source is None or promise.checked is None:
        message = "does not say where it is from and when somebody looked"
        yield Fault((*here, "promise"), message, "write source: and checked:")
    elif today < date.max and today - promise.checked > _OLD_PROMISE:
        message = f"{promise.checked} is more than two years ago"
        remedy = "look again what the provider says, and write the day"
        yield Fault((*here, "promise", "checked"), message, remedy)


def _failures_as_success(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    failures = sorted(
        {one for one in settings.success_status if one in _TRY_AGAIN or one >= _SERVER_FAILS}
    )
    if failures:
        shown = ", ".join(map(str, failures))
        message = f"has {shown}, with which consumers say that they failed; that event is lost"
        remedy = "remove it, unless this consumer means success by it"
        yield Fault((*here, "success_status"), message, remedy)


def _host(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    host = settings.upstream.host
    if host.lower() not in _FOR_PRESERVE:
        return
    message = f"{host!r} is sent to the consumer as a host's name"
    remedy = "write preserve if the sender's Host is meant"
    yield Fault((*here, "upstream", "host"), message, remedy)


def _waits(settings: RouteSettings, route: Route, here: Path) -> Iterator[Fault]:
    upstream = (*here, "upstream")
    if route.upstream.first_byte_timeout > route.upstream.timeout:
        remedy = "lower it or remove it"
        yield Fault(
            (*upstream, "first_byte_timeout"), "is longer than timeout, which ends first", remedy
        )
    patience = custody.patience(route)
    if patience is None:
        return
    said, seconds = format_duration(patience), patience.total_seconds()
    answers = f"acknowledge_after: {custody.in_time(patience)} in mode: forward"
    beside = signing.late_too(settings)
    if patience <= _HARDLY_PATIENT:
        message = f"{said} is less than most consumers take now and then, which provokes retries"
        remedy = f"write {answers}, or mode: inbox{beside}"
        yield Fault((*here, "promise", "timeout"), message, remedy)
    elif route.upstream.slot_timeout + route.upstream.connect_timeout >= seconds:
        message = (
            f"the provider hangs up after {said}, before slot_timeout + connect_timeout are over"
        )
        yield Fault((*upstream, "slot_timeout"), message, "lower the two")
    elif route.upstream.timeout > seconds:
        message = (
            f"the provider hangs up after {said}; a slower success is recorded, and its retry "
            "answered as a duplicate, but the provider counts a failure"
        )
        remedy = f"watch dedup_slow_forwards_total; if it rises, {answers} answers in time{beside}"
        yield Fault((*upstream, "timeout"), message, remedy)
    if route.busy_wait == 0:
        message = f"{said} leaves no time to wait for an undecided event; its duplicates get 503"
        yield Fault((*here, "promise", "timeout"), message, "check that it is so short")


def _without_effect(route: Route, here: Path) -> Iterator[Fault]:
    if route.mode is not Mode.OBSERVE:
        return
    if route.missing_id is OnMissingId.REFUSE:
        remedy = "it will once the mode is forward"
        yield Fault(
            (*here, "missing_id"), "has no effect in observe, which refuses nothing", remedy
        )
    if route.on_store_down is OnStoreDown.FORWARD:
        message = "has no effect in observe, which always forwards"
        yield Fault((*here, "on_store_down"), message, "mind it before the mode becomes forward")


def _only_chance(route: Route, here: Path) -> Iterator[Fault]:
    """D2: whoever answers 503 counts on being asked again."""
    promise = route.promise
    if promise is None or promise.retry_horizon or route.pass_through is not None:
        return
    if route.mode is Mode.OBSERVE or route.on_store_down is OnStoreDown.FORWARD:
        return
    message = "the provider never retries, so each 503 of the gateway is a lost event"
    remedy = (
        "write on_store_down: forward, which lets doubles through while the store is away, "
        "or have failed events sent again at the provider"
    )
    yield Fault((*here, "promise", "retry_horizon"), message, remedy)
