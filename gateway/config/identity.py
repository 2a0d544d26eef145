"""Identity: settings about what an event is here, and what is wrong with them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from gateway.config import senders
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import RouteSettings
from gateway.core.batch import OnMixed
from gateway.core.headers import ends_here
from gateway.core.location import (
    FirstOf,
    Header,
    Location,
    canonical,
    describe,
    header_names,
    may_be_constant,
    parse_location,
)
from gateway.core.route import Mode, OnDoubt
from gateway.providers.presets import Never

HOW_TO_IDENTIFY = "event_id: json:/id, or header:NAME, form:NAME, query:NAME"


def faults(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    """Locations that cannot tell events apart, and settings that contradict each other."""
    yield from _what_an_event_is(settings, here)
    for member, locations in _read(settings):
        for name in header_names(locations):
            if ends_here(name.encode()):
                message = f"header:{name} ends at the gateway and never carries an id"
                yield Fault((*here, *member), message, "write another header")
    yield from _batch(settings, here)
    yield from _operation(settings, here)


def _what_an_event_is(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    if settings.pass_through is not None:
        yield from _passing(settings, here)
    elif settings.event_id:
        yield from _constant(settings.event_id, (*here, "event_id"))
    elif "event_id" in settings.model_fields_set:
        remedy = "write event_id: json:/id or its kin"
        yield Fault((*here, "event_id"), "is an empty list", remedy)
    elif settings.batch is None:
        message = "missing"
        if settings.provider is not None:
            message = f"missing, and the preset {settings.provider} knows none"
        yield Fault((*here, "event_id"), message, f"write {HOW_TO_IDENTIFY}")
    if settings.batch is not None:
        path = (*here, "batch", "event_id")
        if settings.batch.event_id:
            yield from _constant(settings.batch.event_id, path)
        else:
            yield Fault(path, "is an empty list", "write event_id: json:/id or its kin")


def _passing(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    given = senders.preset_of(settings)
    theirs = None if given is None else given.settings.get("pass_through")
    if settings.operation_key and theirs is not None and theirs.value == settings.pass_through:
        message = f"is for events, and the preset {settings.provider} knows no safe id of them"
        remedy = f"write {HOW_TO_IDENTIFY} beside it, or remove it"
        yield Fault((*here, "operation_key"), message, remedy)
        return
    both = [name for name in ("event_id", "batch", "operation_key") if getattr(settings, name)]
    if both:
        message = f"says that nothing here is deduplicated, and {' and '.join(both)} how it is"
        yield Fault((*here, "pass_through"), message, "keep one of the two")
    if settings.mode is Mode.INBOX:
        message = "inbox stores events, and pass_through says that there are none here"
        yield Fault((*here, "mode"), message, "write mode: forward, or an event_id")


def _constant(locations: tuple[Location, ...], path: Path) -> Iterator[Fault]:
    if not all(may_be_constant(part) for part in locations):
        return
    message = "can be the same for unrelated deliveries, which would all count as one event"
    shared = next((name for name in header_names(locations) if may_be_constant(Header(name))), None)
    what = f"header:{shared}" if shared else "literal:"
    yield Fault(path, message, f"write where the id is; {what} only beside it")


def _read(settings: RouteSettings) -> Iterator[tuple[Path, Iterable[Location]]]:
    yield ("event_id",), settings.event_id
    yield ("scope",), settings.scope
    yield ("operation_key",), settings.operation_key
    if settings.batch is not None:
        yield ("batch", "event_id"), settings.batch.event_id


def _batch(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    if settings.batch is None:
        if settings.on_mixed is not None:
            message = "is about batches, and this route has none"
            yield Fault((*here, "on_mixed"), message, "remove it, or write batch:")
        return
    if not settings.batch.items:
        yield Fault(
            (*here, "batch", "items"), "is an empty list", "write items: json:/* or its kin"
        )
    if settings.on_doubt is OnDoubt.PROBE:
        message = "probe asks about one event, and a batch has several"
        yield Fault((*here, "on_doubt"), message, "write retry or hold")


def _breaks_signatures(settings: RouteSettings) -> bool:
    filters = settings.on_mixed is OnMixed.FILTER and not settings.resign
    return filters and senders.covers_body(settings)


def _for_a_consumer_that_checks(settings: RouteSettings) -> str:
    known = senders.scheme_of(settings)
    if known is not None and known.signs:
        return "write resign: true, with signature.secrets, or whole, unless it checks none"
    return "write whole, unless it checks none"


def _operation(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    path = (*here, "operation_key")
    if not settings.operation_key:
        if "operation_key" in settings.model_fields_set:
            yield Fault(path, "is an empty list", "remove it, or write [literal:ticket, json:/id]")
        return
    if settings.batch is not None:
        message = "names one operation, and a batch has several events"
        yield Fault(path, message, "remove it, or batch")
    yield from _constant(settings.operation_key, path)


def advice(settings: RouteSettings, here: Path, *, keep_ids: bool) -> Iterator[Fault]:
    """What is allowed and probably not meant."""
    yield from _doubt(settings, here)
    if settings.pass_through is not None and settings.provider is not None:
        message = "nothing here is deduplicated, repeats included"
        yield Fault((*here, "pass_through"), message, "write event_id: where there is a safe one")
    if _breaks_signatures(settings):
        # Said and not refused: many a consumer checks nothing, which only its people know.
        message = "a filtered batch does not verify at a consumer that checks the signature"
        yield Fault((*here, "on_mixed"), message, _for_a_consumer_that_checks(settings))
    for path, location, never in nevers(settings):
        message = f"{describe(location)} is no event id of {settings.provider}'s: {never.why}"
        remedy = "leave it out for the preset's, or write where the event's own id is"
        yield Fault((*here, *path), message, remedy)
    if settings.operation_key and not keep_ids:
        message = "without store.keep_ids another event of an operation looks like a repeated one"
        remedy = "write keep_ids: true, or take both as one in metrics and claims show"
        yield Fault((*here, "operation_key"), message, remedy)
    mixed = senders.batch(settings)
    if mixed and mixed.on_mixed is OnMixed.WHOLE and settings.on_doubt is OnDoubt.HOLD:
        message = "a mixed batch that would go whole waits for a person, its new items with it"
        yield Fault((*here, "on_doubt"), message, "write resign: true, so that only new items go")


def _doubt(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    given = senders.preset_of(settings)
    if given is None or given.doubt is None or not is_the_presets(settings):
        return
    message = f"the preset's id is doubtful: {given.doubt}"
    remedy = (
        "watch it in observe, and have `dedup-gateway report` judge the key before mode: forward"
    )
    if settings.mode is not Mode.OBSERVE:
        remedy = "write mode: observe until `dedup-gateway report` has judged the key"
    yield Fault((*here, "mode"), message, remedy)


def is_the_presets(settings: RouteSettings) -> bool:
    """Whether the ids are read where the route's preset says."""
    theirs = {path: _canonical(parts) for path, parts in _of_preset(settings)}
    ours = {path: tuple(map(canonical, parts)) for path, parts in _ids(settings) if parts}
    return bool(ours) and ours == theirs


def _ids(settings: RouteSettings) -> Iterator[tuple[Path, tuple[Location, ...]]]:
    yield ("event_id",), settings.event_id
    if settings.batch is not None:
        yield ("batch", "event_id"), settings.batch.event_id


def _of_preset(settings: RouteSettings) -> Iterator[tuple[Path, list[str]]]:
    given = senders.preset_of(settings)
    for path in (("event_id",), ("batch", "event_id")):
        fact = None if given is None else given.settings.get(".".join(path))
        if fact is not None:
            value = fact.value
            yield path, [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _canonical(parts: list[str]) -> tuple[str, ...]:
    return tuple(canonical(parse_location(part)) for part in parts)


def nevers(settings: RouteSettings) -> Iterator[tuple[Path, Location, Never]]:
    """Where the route's ids are something that its provider's preset warns of.

    What the preset takes as one part of an id is wrong only by itself.
    """
    given = senders.preset_of(settings)
    if given is None:
        return
    parts = {one for _, written in _of_preset(settings) for one in _canonical(written)}
    parts = {option for part in parts for option in part.split(" | ")}
    for path, locations in _ids(settings):
        for location, never in product(locations, given.never):
            alone = len(locations) == 1 and not isinstance(location, FirstOf)
            if _reads(location, never.where, parts if not alone else frozenset()):
                yield path, location, never


def _reads(location: Location, where: str, fine: Collection[str]) -> bool:
    """`fine`: what may be read all the same."""
    if isinstance(location, FirstOf):
        return any(_reads(option, where, fine) for option in location.options)
    try:
        meant = canonical(parse_location(where))
    except ValueError:  # in words: it is not in the request
        return False
    return meant == canonical(location) and meant not in fine
