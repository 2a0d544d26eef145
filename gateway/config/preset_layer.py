"""The layer of presets: a provider's settings, under everything that somebody wrote.

A preset only fills in. What it fills in says so by its origin: `preset stripe (verified)`. Some of
its settings belong together: an id of the route's own replaces the preset's whole idea of what an
event is there, batches and reasons to pass everything through included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.config.document import Document, Value
from gateway.config.problems import Origin, Path
from gateway.core.route import Mode
from gateway.providers.presets import Fact, Preset, names, preset

# What says where a route's events are. Written in the route, any of them stands for all.
_IDENTITY = ("event_id", "batch", "pass_through")
# The places that a preset's batch names are inside of its items.
_INSIDE_ITEMS = "per_attempt"
_PROMISED = ("promise.retry_horizon", "promise.redrive_window", "promise.timeout")
# Settings whose members are filled in one by one; of the others all are the route's own or none.
_BY_MEMBER = frozenset({"promise", "signature"})
# Of an item of a list in a preset: what is evidence, and no setting.
EVIDENCE = frozenset({"confidence", "source", "note"})


def lay_presets(document: Document) -> None:
    """Put the preset of each route that names one under its settings."""
    routes = document.root.get("routes")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        name = route.get("provider") if isinstance(route, dict) else None
        if isinstance(route, dict) and isinstance(name, str) and name in names():
            _lay(document, ("routes", index), route, preset(name))


def origin(given: Preset, fact: Fact) -> Origin:
    """Who says so, and how well it is known."""
    return Origin(f"preset {given.name} ({fact.confidence.value})")


def _lay(document: Document, here: Path, route: Mapping[str, Value], given: Preset) -> None:
    laid = dict(_laid(document, here, route, given))
    identified = any(path.partition(".")[0] in ("event_id", "batch") for path in laid)
    if given.doubt is not None and identified and "mode" not in route:
        doubted = Origin(f"preset {given.name} (doubtful id)")
        document.put((*here, "mode"), Mode.OBSERVE.value, doubted)
    promised = [laid[path] for path in _PROMISED if path in laid]
    for group in {path.partition(".")[0] for path in laid if "." in path}:
        if not document.has((*here, group)):
            document.put((*here, group), {}, Origin(f"preset {given.name}"))
    for path, fact in laid.items():
        value = _value(path, fact.value, route)
        document.put((*here, *path.split(".")), value, origin(given, fact))
    if promised and not document.has((*here, "promise", "source")):
        _lay_source(document, (*here, "promise"), given, promised)


def _laid(
    document: Document, here: Path, route: Mapping[str, Value], given: Preset
) -> Iterator[tuple[str, Fact]]:
    """The facts that have a place in the route."""
    left_out = set(_IDENTITY) if any(name in route for name in _IDENTITY) else set()
    if given.passes and not left_out:
        left_out.add("promise")  # of events, of which there are none
    elif left_out and not _has_items_of(route, given):
        left_out.add(_INSIDE_ITEMS)
    if not isinstance(route.get("signature"), dict):
        left_out.add("signature")
    for path, fact in given.settings.items():
        head = path.partition(".")[0]
        whole = head not in _BY_MEMBER
        written = head in route if whole else document.has((*here, *path.split(".")))
        silent = path == "duplicate_reply" and _says_nothing(fact.value)
        if head not in left_out and not written and not silent:
            yield path, fact


def _has_items_of(route: Mapping[str, Value], given: Preset) -> bool:
    """Whether what the preset says of an item, or of a body, holds in the route too."""
    fact, batch = given.settings.get("batch.items"), route.get("batch")
    if fact is None:
        return True
    items = batch.get("items") if isinstance(batch, dict) else None
    return (items if isinstance(items, list) else [items]) == fact.value


def _says_nothing(reply: Value) -> bool:
    """Any success will do, so ours does, which says what it is."""
    return isinstance(reply, dict) and reply == {"status": "200"}


def _value(path: str, value: Value, route: Mapping[str, Value]) -> Value:
    match path, value:
        case "scope", list():
            # Two routes of one provider never take each other's events.
            return [str(route.get("name") or "unnamed"), *value]
        case "handshakes", list():
            return [_setting(one) for one in value]
        case _:
            return value


def _setting(one: Value) -> Value:
    if not isinstance(one, dict):
        return one
    return {name: value for name, value in one.items() if name not in EVIDENCE}


def _lay_source(document: Document, promise: Path, given: Preset, promised: list[Fact]) -> None:
    """Where the promise was read and when, where it is the preset's."""
    source = next((fact.source for fact in promised if fact.source), None)
    where = Origin(f"preset {given.name}")
    nowhere = f"preset {given.name}, which names no page for it"
    document.put((*promise, "source"), source or nowhere, where)
    if not document.has((*promise, "checked")):
        document.put((*promise, "checked"), given.checked.isoformat(), where)
