"""Custody: settings about deliveries that the gateway stores, acknowledges and then owes.

What contradicts is refused. What has no effect where it stands, or not the wished one, is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from gateway.config import senders
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import DuplicateReply, RouteSettings
from gateway.core.durations import format_duration
from gateway.core.route import Mode, OnDoubt, OnStale, Route

# Of the provider's patience, for storing the delivery and for the way back.
_TO_ACKNOWLEDGE = timedelta(seconds=1)
_ABOUT_STORED = ("retry", "keep_payload", "high_water")


def faults(settings: RouteSettings, here: Path, touched: Callable[[Path], bool]) -> Iterator[Fault]:
    """Contradictions inside one route. `touched`: whether something is wrong with a setting."""
    for compared, look in _RELATIONS:
        # What stands in for a wrong value must not be found wanting beside another.
        if not any(touched((*here, *tail)) for tail in compared):
            yield from look(settings, here)


def advice(settings: RouteSettings, route: Route, here: Path) -> Iterator[Fault]:
    """What to say about the settings of one valid route."""
    if route.mode is Mode.OBSERVE:
        yield from _idle(route, here)
    if not stores(route):
        for name in _ABOUT_STORED:
            if name in settings.model_fields_set:
                message = "concerns stored deliveries, and as it is this route stores no new ones"
                remedy = "it will in mode: inbox, or with acknowledge_after or a hold"
                yield Fault((*here, name), message, remedy)
    yield from _too_late(route, here)
    yield from _perhaps_signed(settings, route, here)
    yield from _replays(route, here)


def stores(route: Route) -> bool:
    """Whether the route stores whole deliveries, now and then at least."""
    match route.mode:
        case Mode.OBSERVE:
            return False
        case Mode.INBOX:
            return True
        case Mode.FORWARD:
            waits = route.on_doubt is not OnDoubt.RETRY or route.on_stale is OnStale.HOLD
            return waits or route.acknowledge_after is not None


def patience(route: Route) -> timedelta | None:
    """How long the provider waits for an answer, where it has to wait for the consumer's."""
    answers = route.mode is Mode.FORWARD and route.acknowledge_after is not None
    waits = route.mode is not Mode.INBOX and not answers and route.pass_through is None
    return route.promise.timeout if waits and route.promise else None


def in_time(timeout: timedelta) -> str:
    """A value of `acknowledge_after` for a provider that waits so long."""
    return format_duration(max(timeout - 2 * _TO_ACKNOWLEDGE, timeout / 2))


def _acknowledging(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    after, timeout = settings.acknowledge_after, settings.upstream.timeout
    path = (*here, "acknowledge_after")
    if after is None:
        return
    if settings.mode is Mode.INBOX:
        message = "is for mode: forward; an inbox acknowledges at once"
        yield Fault(path, message, "remove it, or write mode: forward")
    elif after >= timeout:
        shown, most = format_duration(after), format_duration(timeout)
        message = f"{shown} is not less than upstream.timeout ({most}), which ends the forward"
        yield Fault(path, message, "write less, or remove it")


def _retrying(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    retry = settings.retry
    base, cap, give_up = (format_duration(one) for one in (retry.base, retry.cap, retry.give_up))
    if retry.base > retry.cap:
        message = f"{base} is longer than retry.cap ({cap})"
        yield Fault((*here, "retry", "base"), message, f"write {cap} or less, or raise cap")
    if retry.cap > retry.give_up:
        message = f"{cap} is longer than retry.give_up ({give_up}), so a pause could outlast it"
        remedy = f"write cap: {give_up} or less, or raise give_up"
        yield Fault((*here, "retry", "cap"), message, remedy)


def _doubting(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    asks = settings.on_doubt is OnDoubt.PROBE
    if asks and settings.probe is None:
        remedy = 'write probe: {url: "http://HOST:PORT/known?id={event_id}"} beside it'
        yield Fault((*here, "on_doubt"), "does not say where to ask", remedy)
    if settings.probe is not None and not asks:
        message = f"is never asked with on_doubt: {settings.on_doubt.value}"
        yield Fault((*here, "probe"), message, "write on_doubt: probe, or remove it")


def _ageing(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    told = settings.event_time or (settings.batch and settings.batch.event_time)
    if settings.on_stale is OnStale.HOLD and told is None:
        message = "needs the event's own time to tell what is old"
        yield Fault((*here, "on_stale"), message, "write event_time: json:/created or its kin")


def _replying(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    if settings.mode is Mode.INBOX and settings.duplicate_reply is DuplicateReply.REPLAY:
        message = "repeats the consumer's first reply, and an inbox answers before there is one"
        remedy = "write standard, or a reply of your own"
        yield Fault((*here, "duplicate_reply"), message, remedy)


_RELATIONS: tuple[
    tuple[tuple[Path, ...], Callable[[RouteSettings, Path], Iterator[Fault]]], ...
] = (
    ((("mode",), ("acknowledge_after",), ("upstream", "timeout")), _acknowledging),
    ((("retry",),), _retrying),
    ((("on_doubt",), ("probe",)), _doubting),
    ((("on_stale",), ("event_time",)), _ageing),
    ((("mode",), ("duplicate_reply",)), _replying),
)


def _idle(route: Route, here: Path) -> Iterator[Fault]:
    """The panic switch must not be refused for what it switches off, so this is only said."""
    said = {
        "acknowledge_after": route.acknowledge_after is not None,
        "on_doubt": route.on_doubt is not OnDoubt.RETRY,
        "on_stale": route.on_stale is OnStale.HOLD,
    }
    for name in (name for name, is_set in said.items() if is_set):
        message = "concerns no new delivery in observe, which stores none and answers none"
        yield Fault((*here, name), message, "it will once the mode is forward")


def _too_late(route: Route, here: Path) -> Iterator[Fault]:
    after, promise = route.acknowledge_after, route.promise
    if after is None or promise is None or promise.timeout is None or route.mode is Mode.OBSERVE:
        return
    if timedelta(seconds=after) > promise.timeout - _TO_ACKNOWLEDGE:
        hangs_up = format_duration(promise.timeout)
        message = (
            f"the provider hangs up after {hangs_up}, so the acknowledgement comes too late or "
            "barely in time, and the retry is provoked all the same"
        )
        yield Fault((*here, "acknowledge_after"), message, f"write {in_time(promise.timeout)}")


def _perhaps_signed(settings: RouteSettings, route: Route, here: Path) -> Iterator[Fault]:
    """Late deliveries of a provider that signs a time stamp only where somebody set that up."""
    given, known = senders.preset_of(settings), senders.scheme_of(settings)
    if given is None or given.signs_always or settings.signature or settings.late_delivery:
        return
    if known is not None and known.dated and stores(route):
        message = f"is not there, and {given.title} signs only where that was set up"
        remedy = (
            "write it if it was, because the consumer then finds late deliveries too old; else "
            "late_delivery: it signs nothing"
        )
        yield Fault((*here, "signature"), message, remedy)


def _replays(route: Route, here: Path) -> Iterator[Fault]:
    give_up = timedelta(seconds=route.retry.give_up)
    own, kept = format_duration(route.own_replay), format_duration(route.retention)
    if route.mode is Mode.INBOX and route.own_replay < give_up:
        message = f"{own} is shorter than retry.give_up, for which the gateway itself sends again"
        remedy = f"remove it, or write {format_duration(give_up)} or more"
        yield Fault((*here, "own_replay"), message, remedy)
    if route.promise is None and route.retention < route.own_replay:
        message = f"{kept} is shorter than own_replay ({own}), so such replays count as new"
        yield Fault((*here, "retention"), message, f"write {own} or more")
