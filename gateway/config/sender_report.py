"""What `check` says of a route's provider: what is known, what is used of it, and how well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from gateway.config import senders
from gateway.config.loaded import Loaded
from gateway.config.places import Wanted
from gateway.config.preset_layer import origin
from gateway.config.route_settings import RouteSettings
from gateway.config.sender_settings import HandshakeSettings
from gateway.core.batch import OnMixed
from gateway.core.durations import format_duration
from gateway.core.location import Location, describe, header_names
from gateway.core.route import FixedReply, ReplayReply, Route, StandardReply
from gateway.core.signature import Signature
from gateway.core.spans import Pointer
from gateway.providers.presets import Confidence, Fact, Preset, Value
from gateway.providers.scheme import RECORDED
from gateway.providers.schemes import scheme

_IDS = frozenset({"event_id", "batch.event_id"})
_CONFIDENCE = {
    Confidence.VERIFIED: "verified",
    Confidence.MEMORY: "from memory",
    Confidence.CONFLICTING: "sources disagree",
    Confidence.INFERRED: "inferred",
}


@dataclass(frozen=True, slots=True)
class Unproven:
    """A fact of a preset that the route uses and that was not verified."""

    setting: str
    value: str | None
    """None where it has members of its own."""
    confidence: str
    source: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class SenderFindings:
    """One route's provider, in words."""

    provider: str | None
    """None without a preset."""
    traps: int
    """How many `dedup-gateway providers` names."""
    doubt: str | None
    """Why the preset's id may not be the event's."""
    pass_through: str | None
    """Why nothing is deduplicated."""
    batch: str | None
    operation_key: str | None
    per_attempt: str | None
    """Members that do not count where bodies are compared."""
    signature: str
    verified_by: str | None
    """What showed that the check is right; None without a check, or where nothing did."""
    unsigned: str | None
    """What a key is made of although the signature does not cover it."""
    resign: bool
    late_delivery: str | None
    handshakes: tuple[str, ...]
    duplicates: str
    """What they are told."""
    special: str | None
    """How the provider reads certain replies."""
    unproven: tuple[Unproven, ...]
    sources: dict[str, str]
    """Settings that the preset gave, and where each was read; those with a source only."""


def sender(loaded: Loaded, index: int, route: Route) -> SenderFindings:
    """Of one route."""
    written = loaded.written[index]
    given = senders.preset_of(written)
    used = dict(_used(loaded, index, given))
    return SenderFindings(
        provider=None if given is None else _provider(given),
        traps=0 if given is None else len(given.traps),
        doubt=given.doubt if given is not None and _IDS & set(used) else None,
        pass_through=route.pass_through,
        batch=_batch(route, written),
        operation_key=_listed(route.recipe.operation),
        per_attempt=", ".join(map(member_words, route.per_attempt)) or None,
        signature=_unchecked(written) if route.signature is None else _checked(route.signature),
        verified_by=None if route.signature is None else scheme(route.signature.scheme).proof,
        unsigned=_unsigned(route),
        resign=written.resign,
        late_delivery=written.late_delivery,
        handshakes=tuple(_handshake(one, written) for one in written.handshakes),
        duplicates=duplicates_words(route),
        special=None if given is None or given.special is None else _fact(given.special),
        unproven=tuple(_unproven(used)),
        sources={path: fact.source for path, fact in used.items() if fact.source is not None},
    )


def _provider(given: Preset) -> str:
    seen = f"evidence {given.evidence}, looked at {given.checked}"
    return f"{given.title} (preset {given.name}, {seen})"


def _used(loaded: Loaded, index: int, given: Preset | None) -> Iterator[tuple[str, Fact]]:
    """The facts that the route took from its preset."""
    for path, fact in given.settings.items() if given is not None else ():
        there = loaded.origins.get(("routes", index, *path.split(".")))
        if given is not None and there == origin(given, fact):
            yield path, fact


def _unproven(used: dict[str, Fact]) -> Iterator[Unproven]:
    for path, fact in used.items():
        if fact.confidence is not Confidence.VERIFIED:
            how = _CONFIDENCE[fact.confidence]
            yield Unproven(path, _shown(fact.value), how, fact.source, fact.note)


def _shown(value: Value) -> str | None:
    match value:
        case str():
            return value
        case list() if all(isinstance(one, str) for one in value):
            return ", ".join(map(str, value))
        case _:
            return None


def _fact(fact: Fact) -> str:
    how = "" if fact.confidence is Confidence.VERIFIED else f" ({_CONFIDENCE[fact.confidence]})"
    return f"{_shown(fact.value) or ''}{how}"


def _batch(route: Route, written: RouteSettings) -> str | None:
    policy = route.batch
    if policy is None:
        return None
    places = ", ".join(member_words((*pointer, "*")) for pointer in policy.items)
    mixed = {
        OnMixed.FILTER: "filter, so that only new items are forwarded",
        OnMixed.WHOLE: "whole, marked, with the items that were seen",
    }[policy.on_mixed]
    if written.on_mixed is None and policy.on_mixed is OnMixed.WHOLE:
        mixed += ", because the signature covers the body and resign is false"
    return f"items {places}, each by {_listed(policy.parts)}; mixed ones: {mixed}"


def _listed(locations: Iterable[Location]) -> str | None:
    return ", ".join(map(describe, locations)) or None


def member_words(pointer: Pointer) -> str:
    """As a user writes it."""
    return "json:" + "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in pointer)


def _unchecked(written: RouteSettings) -> str:
    known = senders.scheme_of(written)
    said = "not checked here: the consumer judges"
    return said if known is None else f"{said} (the provider signs: {known.name})"


def _checked(told: Signature) -> str:
    said = [told.scheme]
    for what, number in (("secret", len(told.secrets)), ("key source", len(told.keys))):
        if number:
            said.append(f"{number} {what}" + ("s" if number > 1 else ""))
    if scheme(told.scheme).dated:
        span = told.tolerance
        within = "of any age" if span is None else f"within {_span(span)}"
        said.append(f"time stamp {within}")
    if told.public_url is not None:
        said.append(f"called at {told.public_url}")
    said += [f"{name} {value}" for name, value in told.expected]
    return ", ".join(said)


def _unsigned(route: Route) -> str | None:
    told, recipe = route.signature, route.recipe
    if told is None or route.pass_through is not None:
        return None
    read = (*recipe.scope, *(recipe.operation or recipe.parts))
    items = () if route.batch is None else route.batch.parts
    names = scheme(told.scheme).unsigned(header_names((*read, *items)))
    return f"{', '.join(names)}: {RECORDED}" if names else None


def _span(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def _handshake(told: HandshakeSettings, written: RouteSettings) -> str:
    said = f"{' '.join(told.methods)} {condition_words(told)}".strip()
    unknown = written.verify_token is None and any(wanted.by_token for wanted in told.match)
    if told.answer is None:
        return f"{said}: passed to the consumer"
    if not written.answer_handshakes:
        return f"{said}: passed to the consumer; answer_handshakes: true would answer it"
    if unknown:
        return f"{said}: passed to the consumer, because there is no verify_token"
    return f"{said}: answered {told.answer.status}"


def condition_words(told: HandshakeSettings) -> str:
    """What makes a request this handshake."""
    return " and ".join(map(_condition, told.match)) or "any"


def _condition(wanted: Wanted) -> str:
    if wanted.absent:
        return f"no {describe(wanted.where)}"
    where = describe(wanted.where)
    return where if wanted.equals is None else f"{where} = {wanted.equals}"


def duplicates_words(route: Route) -> str:
    """What duplicates are told."""
    match route.duplicate_reply:
        case StandardReply():
            return '200 {"received": true, "duplicate": true}'
        case ReplayReply():
            return "what the first delivery was told"
        case FixedReply(status=status, content_type=kind, body=body):
            words = (str(status), kind or "", body.decode("utf-8", "replace"))
            return " ".join(filter(None, words)) + ("" if body else ", without a body")
        case _:
            assert_never(route.duplicate_reply)
