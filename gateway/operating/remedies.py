"""Remedies: what to do about what the notes of a route in `observe` have shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import assert_never

from gateway.core.durations import format_duration
from gateway.core.findings import Finding, Kind
from gateway.core.location import Location, canonical, describe, header_names
from gateway.core.observing import OTHER_TYPE, Observed, What
from gateway.core.route import Route
from gateway.operating.wording import several, visible
from gateway.providers.presets import Never, Preset, Value, names, preset


def said(finding: Finding, route: Route, observed: Observed) -> str:
    """What was seen, and what it means."""
    number = f"{finding.number:,}"
    deliveries = several(finding.of, "delivery", "deliveries")
    match finding.kind:
        case Kind.DELIVERY_ID:
            return _as_if_new(finding, route)
        case Kind.BUSINESS_ID:
            duplicates = several(finding.of, "duplicate")
            return (
                f"{number} of {duplicates} came with another body{_of_other_types(observed)}:"
                f" {_ids_of(route)} looks like the id of what several events are about, such as an"
                f" order. All but the first of them would be swallowed.{_as(finding)}"
            )
        case Kind.NO_ID:
            things = deliveries if route.batch is None else f"{deliveries} and items of batches"
            where = f" at {finding.detail}" if finding.detail else ""
            what = "usable operation and no usable id" if route.recipe.operation else "usable id"
            return (
                f"{number} of {things} had no {what}{where}: they would not be protected."
                f" {_why_without(finding)}"
            )
        case Kind.CONFLICTING:
            return f"{number} of {deliveries} would be refused with 400, for {finding.detail}."
        case Kind.UNSIGNED:
            return (
                f"{number} of {deliveries} would be refused with 401, the largest share for a"
                f" signature that is {finding.detail}."
            )
        case Kind.SHORT_PROMISE:
            return _older_than_the_floor(route, observed)
        case _:
            assert_never(finding.kind)


def _as_if_new(finding: Finding, route: Route) -> str:
    """Of an id, or of an operation, that hardly ever comes again."""
    bodies = several(finding.number, "body", "bodies")
    but = "" if finding.detail == What.SAME_BODY else ", the same but for the id in them"
    own = finding.of - finding.number
    place, noun = key_of(route), "operation" if route.recipe.operation else "id"
    looks = "another operation" if route.recipe.operation else "the id of a delivery, new"
    return (
        f"{bodies} came again under another {noun}{but}, and {own:,} under their own:"
        f" {place} looks like {looks} every time."
        f" No duplicate would be recognised.{_as(finding)}"
    )


def remedy(finding: Finding, route: Route, observed: Observed, provider: str | None) -> str:
    """What to do about it."""
    sample = f"dedup-gateway try --route {route.name} FILE"
    match finding.kind:
        case Kind.DELIVERY_ID:
            return f"{_same_in_both(route, provider)} Try it with {sample}."
        case Kind.BUSINESS_ID:
            return _known(route, provider) + _one_id_for_several(route, observed)
        case Kind.NO_ID:
            return (
                f"Save one of these deliveries and see with {sample} what is there. Where another"
                " kind of event has its id elsewhere, write both: event_id: A | B."
            )
        case Kind.CONFLICTING:
            return f"Save one of these deliveries and see with {sample} what is there."
        case Kind.UNSIGNED:
            if finding.detail == "expired":
                return (
                    "The secret is right. Compare the clocks of this machine and the provider;"
                    " deliveries that come late need a longer signature.tolerance."
                )
            return (
                "Compare secret and scheme with what the provider's page says of this endpoint, and"
                " where the scheme signs the URL public_url with the one that it has; see"
                f" with {sample} what a delivery's signature comes to."
            )
        case Kind.SHORT_PROMISE:
            return (
                "Raise promise.retry_horizon or promise.redrive_window to what was seen; the"
                " retention has to be at least their sum."
            )
        case _:
            assert_never(finding.kind)


def _same_in_both(route: Route, provider: str | None) -> str:
    attempts = "Look at two attempts of one event:"
    if route.recipe.operation:
        others = "and in the other events of its operation"
        return f"{attempts} operation_key has to be what is the same in both, {others}."
    what = "event_id has to be what is the same in both, and in no other event."
    return f"{_known(route, provider)}{attempts} {what}"


def _one_id_for_several(route: Route, observed: Observed) -> str:
    operations = "" if route.recipe.operation else _FOR_OPERATIONS
    return (
        "Compare the bodies of two deliveries of one id. If they are different events,"
        f" {_more_parts(route, observed)}. If only what changes with every attempt differs, such as"
        f" a time of sending, name that in per_attempt.{operations}"
    )


_FOR_OPERATIONS = " operation_key is for events that have ids of their own."


def _more_parts(route: Route, observed: Observed) -> str:
    """What to make of an id that several events have."""
    setting, parts, kind = _read_as(route)
    written = [describe(part) for part in parts]
    differs = _number_of_other_types(observed)
    if differs and kind is not None and describe(kind) not in written:
        listed = ", ".join([*written, describe(kind)])
        return f"add their type to the id, as in {setting}: [{listed}], or take another"
    if len(parts) > 1:
        what = f"the {len(parts)} parts of {setting} do not tell them apart"
        return f"{what}: add one that does, or take others"
    own = "".join(written)
    return f"make the id of several parts, as in {setting}: [{own}, json:/type], or take another"


def _read_as(route: Route) -> tuple[str, tuple[Location, ...], Location | None]:
    """Setting and places of the ids that are compared, and where the type is."""
    if route.batch is not None:
        return "batch.event_id", route.batch.parts, route.batch.event_type
    if route.recipe.parts:
        return "event_id", route.recipe.parts, route.event_type
    return "operation_key", route.recipe.operation, route.event_type


def _ids_of(route: Route) -> str:
    """Where its events' ids are, which an operation key stands in for."""
    parts = ", ".join(map(describe, route.recipe.parts))
    return parts if route.recipe.operation and parts else key_of(route)


def key_of(route: Route) -> str:
    """What the route's key is made of, as somebody wrote it."""
    made_of = route.recipe.operation or route.recipe.parts
    pieces = [describe(part) for part in made_of]
    if route.batch is not None:
        pieces += [f"{describe(part)} of each item" for part in route.batch.parts]
    return ", ".join(pieces) or "no key"


def _as(finding: Finding) -> str:
    return "" if finding.example is None else f" One of them: {visible(finding.example)}."


def _of_other_types(observed: Observed) -> str:
    others = _number_of_other_types(observed)
    return f", at least {others:,} of them with another type, too" if others else ""


def _number_of_other_types(observed: Observed) -> int:
    return observed.by_detail(What.MISMATCH).get(OTHER_TYPE, 0)


def _why_without(finding: Finding) -> str:
    if finding.number * 2 > finding.of:
        return "The place looks mistyped."
    return "Another kind of event may have its id elsewhere, or none."


def _older_than_the_floor(route: Route, observed: Observed) -> str:
    oldest, floor = observed.oldest, route.floor
    assert oldest is not None
    assert floor is not None
    age = format_duration(timedelta(hours=oldest.greatest // 3600))
    example = "" if oldest.example is None else f" ({visible(oldest.example)})"
    return (
        f"A duplicate came {age} after the first one{example}, and the promise on file ends after"
        f" {format_duration(floor)}: it is too short."
    )


def _known(route: Route, provider: str | None) -> str:
    """What presets say of the places that the route reads."""
    for given, warning in _warnings(route, provider):
        instead = _event_id(given)
        better = f" Its event id is {instead}." if instead else ""
        return f"{given.title}: never {warning.where} ({warning.why}).{better} "
    meant = None if provider is None else _event_id(preset(provider))
    if meant is None or meant == ", ".join(map(describe, _read(route))):
        return ""
    return f"The preset {provider} has {meant}. "


def _warnings(route: Route, provider: str | None) -> Iterator[tuple[Preset, Never]]:
    # Without a provider only headers tell whose they are: anybody's body has an `id`.
    read = {canonical(part) for part in _read(route)}
    headers = {f"header:{name.lower()}" for name in header_names(_read(route))}
    for name in names() if provider is None else (provider,):
        given = preset(name)
        for one in given.never:
            kind, _, rest = one.where.partition(":")
            place = f"{kind}:{rest.lower()}" if kind == "header" else one.where
            if place in headers or (provider is not None and place in read):
                yield given, one


def _read(route: Route) -> tuple[Location, ...]:
    """Where ids are: in the items of a batch, else in the body."""
    return route.recipe.parts if route.batch is None else route.batch.parts


def _event_id(given: Preset) -> str | None:
    fact = given.settings.get("batch.event_id") or given.settings.get("event_id")
    return None if fact is None else _written(fact.value)


def _written(value: Value) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
