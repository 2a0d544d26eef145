"""Trials: one request read by one route, in the steps that deliveries take, with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

from gateway.config import absence, identity, local_keys
from gateway.config.loaded import Loaded
from gateway.config.sender_report import condition_words, duplicates_words, member_words
from gateway.core import batch, handshake, spans
from gateway.core.batch import Batch
from gateway.core.document import bytes_of
from gateway.core.durations import format_duration
from gateway.core.event import Delivery, EventKey
from gateway.core.headers import BadNomination, end_to_end
from gateway.core.keying import Conflicting, Missing, Reading, Recipe
from gateway.core.location import Location, describe, parse_location
from gateway.core.retention import parse_event_time
from gateway.core.route import Mode, OnMissingId, Probe, Route
from gateway.core.signature import Flaw, Invalid, Signature, Unchecked, Valid

Facts = dict[str, Any]
"""Fields of a sample by their names, `verdict` and `why` among them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One location and what was there."""

    where: str
    value: str | None
    """None where nothing usable is."""


@dataclass(frozen=True, slots=True)
class SampleItem:
    """One item of a batch."""

    event_id: str | None
    key: str | None
    """32 hex digits; None without a usable id."""
    event_type: str | None
    event_time: str | None
    repeat: bool
    """Whether an earlier item has its key."""
    why: str | None
    """There is no usable id."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried, by which route."""

    loaded: Loaded
    index: int
    """The route's place."""
    route: Route
    delivery: Delivery
    now: float
    """Epoch seconds."""


def tried(trial: Trial) -> Facts:
    """What the route makes of it."""
    route = trial.route
    try:
        lines = end_to_end(trial.delivery.headers, route.decisive)
    except BadNomination as error:
        return _facts("refused", f"Connection names {error}, which decides: 400")
    delivery = trial.delivery._replace(headers=lines)
    reading = Reading(delivery)
    known = handshake.find(route.handshakes, reading)
    signed, refusal = _signature(trial, delivery)
    if refusal is not None and (known is None or known.signed):
        return _facts("refused", refusal, signature=signed)
    if known is not None:
        return {"signature": signed, **_handshake(trial, reading, known)}
    if delivery.method not in route.methods:
        return _facts("passed", f"{delivery.method} is not among the route's methods: {_CLAIMLESS}")
    if route.pass_through is not None:
        return _facts("passed", f"{route.pass_through}: {_CLAIMLESS}", signature=signed)
    return {"signature": signed, **_event(trial, reading)}


_CLAIMLESS = "forwarded, never claimed"


def _facts(verdict: str, why: str | None, **others: Any) -> Facts:
    return {"verdict": verdict, "why": why, **others}


def _signature(trial: Trial, delivery: Delivery) -> tuple[str | None, str | None]:
    """What is known of the signature, and why the delivery is refused for it."""
    route, told = trial.route, trial.route.signature
    if told is None or delivery.method not in route.methods:
        return None, None
    if route.name in trial.loaded.unknown_secrets:
        return "not checked: a variable with its secret is not set here", None
    if told.headers and not delivery.headers:
        return "not checked: a body alone has no headers", None
    match local_keys.check(told, delivery, trial.now):
        case Valid(secret):
            which = f" by secret {secret}" if len(told.secrets) > 1 else ""
            return f"valid{which} ({told.scheme})", None
        case Unchecked(why):
            return f"not checked: {why}", None
        case Invalid(Flaw.EXPIRED):
            return f"valid ({told.scheme}), {_expired(told)}", None
        case Invalid(flaw):
            said = {Flaw.MISSING: "there is none that can be read"}.get(flaw, "no secret made it")
            refusal = None if route.mode is Mode.OBSERVE else f"signature {flaw.value}: 401"
            return f"{flaw.value}: {said} ({told.scheme})", refusal
        case other:
            assert_never(other)


def _expired(told: Signature) -> str:
    span = "its tolerance"
    if told.tolerance is not None:
        span = format_duration(timedelta(seconds=told.tolerance))
    return f"but signed more than {span} ago, as saved requests are: sent now it would get 401"


def _handshake(trial: Trial, reading: Reading, known: handshake.Handshake) -> Facts:
    route, place = trial.route, trial.route.handshakes.index(known)
    written = trial.loaded.written[trial.index].handshakes[place]
    words = f"{' '.join(written.methods)} {condition_words(written)}".strip()
    said = None
    if known.greeting is not None and route.mode is not Mode.OBSERVE:
        secrets = () if route.signature is None else route.signature.secrets
        said = handshake.say(known.greeting, reading, secrets[0] if secrets else None)
    if said is None:
        return _facts("passed", f"a handshake: {_CLAIMLESS}", handshake=words)
    body = said.body.decode("utf-8", "replace")
    return _facts(
        "passed",
        "a handshake: answered, never claimed or forwarded",
        handshake=f"{words}: answered {said.status} {body}".rstrip(),
    )


def _event(trial: Trial, reading: Reading) -> Facts:
    route = trial.route
    common: Facts = {
        "scope": _parts(reading, route.recipe.scope),
        "event_type": None if route.event_type is None else reading.text(route.event_type),
        "event_time": None if route.event_time is None else _time_at(reading, route.event_time),
        "duplicate": None if route.mode is Mode.OBSERVE else duplicates_words(route),
        "notes": tuple(_warnings(trial)),
    }
    if route.batch is not None:
        found = batch.read(reading, route.batch, route.recipe, route.per_attempt)
        if found is not None:
            return common | _batch(trial, found)
    common |= {
        "parts": _parts(reading, route.recipe.parts),
        "operation": _parts(reading, route.recipe.operation),
        "left_out": _left_out(route, reading.json_text()),
    }
    return common | _single(trial, reading)


def _warnings(trial: Trial) -> Iterable[str]:
    written = trial.loaded.written[trial.index]
    for _, location, never in identity.nevers(written):
        yield f"{describe(location)} is no event id of {written.provider}'s: {never.why}"


def _single(trial: Trial, reading: Reading) -> Facts:
    route = trial.route
    match reading.identify(route.recipe):
        case EventKey() as key:
            probe = None if route.probe is None else _question(route.probe, key.event_id)
            named = {"event_id": key.event_id, "key": key.digest.hex(), "probe": probe}
            return _facts("keyed", None, **named)
        case Missing() as missing:
            return _missing(route, reading.delivery, missing)
        case Conflicting(where, why):
            return _facts("refused", f"{where}: {why}: 400")
        case other:
            assert_never(other)


def _missing(route: Route, delivery: Delivery, missing: Missing) -> Facts:
    try:
        why = f" ({absence.reason(delivery, parse_location(missing.where))})"
    except ValueError:  # in words: the items of a batch
        why = ""
    said = f"no usable id at {missing.where}{why}"
    if route.missing_id is OnMissingId.REFUSE:
        return _facts("refused", f"{said}: 400")
    return _facts("unkeyed", f"{said}: forwarded unprotected")


def _batch(trial: Trial, found: Batch | Missing | Conflicting) -> Facts:
    route, policy = trial.route, trial.route.batch
    assert policy is not None
    if isinstance(found, Conflicting):
        return _facts("refused", f"{found.where}: {found.why}: 400")
    if isinstance(found, Missing):
        return _missing(route, trial.delivery, found)
    if not found.items:
        return _facts("passed", f"a batch without items: {_CLAIMLESS}")
    text = Reading(trial.delivery).json_text() or ""
    seen: set[str] = set()
    items = [_item(trial, item, text, seen) for item in found.items]
    facts: Facts = {
        "items": tuple(items),
        "left_out": tuple(
            dict.fromkeys(
                member
                for item in found.items
                for member in _left_out(route, text[item.span.start : item.span.end])
            )
        ),
    }
    if not seen:
        where = ", ".join(map(describe, policy.parts))
        return facts | _missing(route, trial.delivery, Missing(f"any item, {where}"))
    return _facts("keyed", f"a batch of {len(items)}, mixed ones: {policy.on_mixed.value}", **facts)


def _item(trial: Trial, item: batch.Item, text: str, seen: set[str]) -> SampleItem:
    time = None if item.event_time is None else _time(item.event_time)
    if item.part is None:
        assert trial.route.batch is not None
        alone = trial.delivery._replace(body=bytes_of(text[item.span.start : item.span.end]))
        values = Reading(alone).values(trial.route.batch.parts)
        where = values.where if isinstance(values, Missing | Conflicting) else ""
        why = f"{where} {absence.reason(alone, parse_location(where))}" if where else "unknown"
        return SampleItem(None, None, item.event_type, time, repeat=False, why=why)
    key = item.part.key
    repeat = key.digest.hex() in seen
    seen.add(key.digest.hex())
    return SampleItem(key.event_id, key.digest.hex(), item.event_type, time, repeat, None)


def _left_out(route: Route, text: str | None) -> tuple[str, ...]:
    """Members that are there, and not compared."""
    found = []
    for pointer in route.per_attempt if text is not None else ():
        try:
            there = spans.values(text or "", pointer)
        except spans.Unreadable:
            break
        if there:
            found.append(member_words(pointer))
    return tuple(found)


def _question(probe: Probe, event_id: str) -> str:
    upstream = probe.upstream
    asked = replace(probe, target=probe.shown).target_of(event_id)
    return f"GET {upstream.scheme}://{upstream.authority}{asked}"


def _parts(reading: Reading, locations: tuple[Location, ...]) -> tuple[Part, ...]:
    parts = []
    for location in locations:
        found = reading.identify(Recipe((), (location,)))
        value = found.event_id if isinstance(found, EventKey) else None
        parts.append(Part(describe(location), value))
    return tuple(parts)


def _time_at(reading: Reading, location: Location) -> str | None:
    text = reading.text(location)
    return None if text is None else _time(text)


def _time(text: str) -> str:
    seconds = parse_event_time(text)
    if seconds is None:
        return f"{text} (not used: neither RFC 3339 with an offset nor an epoch)"
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{text} (beyond the calendar)"
