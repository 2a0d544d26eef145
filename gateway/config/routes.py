"""Routes: from what was written to what the program uses. Every default is resolved here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path as FilePath
from typing import assert_never

from gateway.config import senders
from gateway.config.hop_settings import ProbeSettings, UpstreamSettings, UpstreamTlsSettings
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import (
    DuplicateReply,
    FixedReplySettings,
    RetrySettings,
    RouteSettings,
)
from gateway.config.sender_settings import PromiseSettings
from gateway.core import outcome, retention, route
from gateway.core.durations import format_duration
from gateway.core.keying import Recipe
from gateway.core.location import Literal
from gateway.core.retry import RetryPolicy
from gateway.core.route import LEASE_MARGIN, Mode, Probe, Route, Tls, Upstream

# Of one gateway process; a consumer that has to be asked is in trouble already.
_PROBES_AT_ONCE = 16
# Name look-up, connection and TLS of a probe, as for forwards; its wait for a slot too.
_PROBE_CONNECT = 2.0
# Only the status of its reply counts.
_PROBE_REPLY = 64 * 2**10


def build(settings: RouteSettings, folder: FilePath) -> Route:
    """One route. `folder`: what relative file names start from."""
    upstream = _upstream(settings.upstream, folder)
    promise = None if settings.promise is None else _promise(settings.promise)
    probe = None if settings.probe is None else _probe(settings.probe, upstream.tls)
    own_replay, kept, after = _own_replay(settings), settings.retention, settings.acknowledge_after
    return Route(
        name=settings.name,
        path=settings.path,
        hosts=settings.hosts,
        upstream=upstream,
        mode=settings.mode,
        pass_through=settings.pass_through,
        recipe=Recipe(
            settings.scope or (Literal(settings.name),), settings.event_id, settings.operation_key
        ),
        batch=senders.batch(settings),
        per_attempt=settings.per_attempt,
        signature=senders.signature(settings, folder),
        handshakes=senders.handshakes(settings),
        event_type=settings.event_type,
        event_time=settings.event_time,
        promise=promise,
        own_replay=own_replay,
        retention=retention.default_retention(promise, own_replay) if kept is None else kept,
        methods=frozenset(settings.methods),
        missing_id=settings.missing_id,
        on_store_down=settings.on_store_down,
        status=_status(settings),
        duplicate_reply=_reply(settings.duplicate_reply),
        lease=_seconds(settings.lease, _least_lease(upstream, probe)),
        body_limit=settings.body_limit,
        idempotency_key=settings.idempotency_key,
        on_doubt=settings.on_doubt,
        probe=probe,
        on_stale=settings.on_stale,
        acknowledge_after=None if after is None else after.total_seconds(),
        retry=_retry(settings.retry),
        keep_payload=settings.keep_payload,
        high_water=settings.high_water,
    )


def span_faults(built: Route, here: Path) -> Iterator[Fault]:
    """Times that are too short for others, defaults included."""
    least = _least_lease(built.upstream, built.probe)
    if built.lease < least:
        shown, needed = (format_duration(timedelta(seconds=s)) for s in (built.lease, least))
        asked = "" if built.probe is None else " + the probe's"
        message = (
            f"{shown} is less than slot_timeout + connect_timeout + timeout + 5s{asked}, "
            "so a slow forward would lose its claim to the retry that it provoked"
        )
        yield Fault((*here, "lease"), message, f"write {needed} or more, or remove it")
    if built.retention <= timedelta(0):
        message = "is zero, so no event would be remembered"
        yield Fault((*here, "retention"), message, "write a time, as in 30d")


def _upstream(settings: UpstreamSettings, folder: FilePath) -> Upstream:
    url, tls = settings.url, settings.tls or UpstreamTlsSettings()
    timeout = settings.timeout.total_seconds()
    upstream = Upstream(
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        path=url.path,
        host_header=None if settings.host == "preserve" else settings.host,
        tls=Tls(_file(tls.ca, folder), _file(tls.cert, folder), _file(tls.key, folder)),
        concurrency=settings.concurrency,
        slot_timeout=settings.slot_timeout.total_seconds(),
        connect_timeout=settings.connect_timeout.total_seconds(),
        write_timeout=settings.write_timeout.total_seconds(),
        first_byte_timeout=_seconds(settings.first_byte_timeout, timeout),
        timeout=timeout,
        max_reply=settings.max_reply,
    )
    if settings.host == "upstream":
        return replace(upstream, host_header=upstream.authority)
    return upstream


def _probe(settings: ProbeSettings, tls: Tls) -> Probe:
    """Asked with the certificates of the route's upstream, if over TLS at all."""
    url, timeout = settings.url, settings.timeout.total_seconds()
    connect = min(_PROBE_CONNECT, timeout)
    upstream = Upstream(
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        path=None,
        host_header=None,
        tls=tls if url.scheme == "https" else Tls(None, None, None),
        concurrency=_PROBES_AT_ONCE,
        slot_timeout=connect,
        connect_timeout=connect,
        write_timeout=timeout,
        first_byte_timeout=timeout,
        timeout=timeout,
        max_reply=_PROBE_REPLY,
    )
    asked = replace(upstream, host_header=upstream.authority)
    return Probe(asked, url.target, settings.give_up.total_seconds())


def _least_lease(upstream: Upstream, probe: Probe | None) -> float:
    """Who asks first holds the claim for as long as that takes, and then still has to send."""
    return upstream.longest + (0.0 if probe is None else probe.upstream.longest) + LEASE_MARGIN


def _retry(settings: RetrySettings) -> RetryPolicy:
    spans = settings.base, settings.cap, settings.give_up
    return RetryPolicy(*(span.total_seconds() for span in spans))


def _own_replay(settings: RouteSettings) -> timedelta:
    if settings.own_replay is not None:
        return settings.own_replay
    return settings.retry.give_up if settings.mode is Mode.INBOX else timedelta(0)


def _promise(settings: PromiseSettings) -> retention.Promise:
    horizon, window = settings.retry_horizon, settings.redrive_window
    return retention.Promise(
        timeout=settings.timeout,
        retry_horizon=retention.UNKNOWN_PART if horizon is None else horizon,
        redrive_window=retention.UNKNOWN_PART if window is None else window,
        source=settings.source or "",
        checked=settings.checked,
    )


def _status(settings: RouteSettings) -> outcome.StatusPolicy:
    success = outcome.SUCCESS | frozenset(settings.success_status)
    if settings.refused_status is None:
        return outcome.StatusPolicy(success, outcome.REFUSED_BEFORE_EFFECT - success)
    refused = frozenset(settings.refused_status)
    return outcome.StatusPolicy(success, refused, overload_is_refusal=False)


def _reply(settings: DuplicateReply | FixedReplySettings) -> route.DuplicateReply:
    match settings:
        case DuplicateReply.STANDARD:
            return route.StandardReply()
        case DuplicateReply.REPLAY:
            return route.ReplayReply()
        case FixedReplySettings(status=status, content_type=kind, body=body):
            fallback = "text/plain" if body else None
            return route.FixedReply(status, kind or fallback, body.encode())
        case _:
            assert_never(settings)


def _file(name: str | None, folder: FilePath) -> str | None:
    return None if name is None else str(folder / name)


def _seconds(span: timedelta | None, default: float) -> float:
    return default if span is None else span.total_seconds()
