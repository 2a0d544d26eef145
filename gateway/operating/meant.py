"""Which event, or which entries, a command line means."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gateway import sources
from gateway.config import ConfigError, Loaded, hide_in, try_sample
from gateway.core import keying
from gateway.core.durations import parse_duration
from gateway.core.inbox import EntryState
from gateway.core.location import FirstOf, Literal, Location, describe
from gateway.core.operating import UNDELIVERED
from gateway.core.route import Route
from gateway.failures import sentence
from gateway.operating.options import Event, Which
from gateway.operating.wording import several
from gateway.sources import Unusable
from gateway.store.operator import By, Desk, Filter

_KEY = re.compile("[0-9a-fA-F]{32}")


class Kept(NamedTuple):
    """An event whose key only the store can tell: the claim that keeps one of these ids."""

    route: str
    event_ids: tuple[str, ...]
    by_operation: bool = False
    """Whether the claim is that of an operation, which another event may have taken last."""


def key(config: Path | None, event: Event) -> bytes | Kept:
    """The key of the one event that is meant, or how to find it.

    Raises Unusable and ConfigError.
    """
    ways = [
        bool(event.ids), event.body is not None, event.key is not None, bool(event.operation),
    ]  # fmt: skip
    if ways.count(True) != 1:
        raise Unusable(
            "name one event: its ID or --operation with --route, or --body FILE, or --key HEX"
        )
    if event.key is not None:
        if not _KEY.fullmatch(event.key):
            raise Unusable(f"--key: {event.key!r} is not a key; write its 32 hex digits")
        return bytes.fromhex(event.key)
    if event.body is not None:
        return _carried(config, event.route, event.body)
    return _named(config, event)


def operation(config: Path | None, route: str | None) -> tuple[str, ...]:
    """Where a route's operation key is read; empty where it has none, or where that is unknown."""
    try:
        loaded = sources.read(config, variables_required=False)
    except ConfigError:  # whoever asks about an event is not helped by a mistake elsewhere
        return ()
    found = [one.recipe.operation for one in loaded.routes if one.name == route]
    shown = tuple(describe(part) for parts in found for part in parts)
    return hide_in(shown, loaded.hidden)


def entries(desk: Desk, which: Which, *, otherwise: tuple[EntryState, ...]) -> Filter:
    """The entries that are meant; `otherwise` are the states where none is named.

    Raises Unusable.
    """
    if which.why is not None and not which.why.isprintable():
        raise Unusable("--why takes visible text")
    routes = None
    if which.route is not None:
        if which.route not in desk.routes:
            there = ", ".join(sorted(desk.routes)) or "none at all"
            raise Unusable(f"no route {which.route!r} ever claimed an event here; there is {there}")
        routes = (desk.routes[which.route],)
    return Filter(
        routes=routes,
        states=tuple(map(_state, which.states)) or otherwise,
        before=max(desk.now - older_than(which), 0.0),
        why=which.why,
    )


def older_than(which: Which) -> float:
    """Seconds. Raises Unusable."""
    if which.older_than is None:
        return 0.0
    try:
        return parse_duration(which.older_than).total_seconds()
    except ValueError as error:
        raise Unusable(f"--older-than: {error}") from None


def waiting(which: Which) -> Which:
    """The same, where it is about entries that an operator may act on. Raises Unusable."""
    older_than(which)
    if not which.states:
        raise Unusable("name one event by its ID, or many by --state dead, held or pending")
    for state in map(_state, which.states):
        if state not in UNDELIVERED or state is EntryState.LEASED:
            raise Unusable(f"--state: {state} entries are left alone; write dead, held or pending")
    return which


def by(who: str | None, why: str | None) -> By:
    """Who acts. Raises Unusable."""
    texts = []
    for option, text in (("--by NAME", who), ("--reason TEXT", why)):
        if text is None or not text.strip():
            raise Unusable(f"write {option}: every action is recorded with who did it and why")
        if not text.isprintable():
            raise Unusable(f"{option} takes visible text on one line")
        texts.append(text.strip())
    return By(*texts)


def _state(text: str) -> EntryState:
    try:
        return EntryState(text)
    except ValueError:
        there = ", ".join(EntryState)
        raise Unusable(f"--state: {text!r} is no state of an entry; there is {there}") from None


def named(loaded: Loaded, name: str) -> Route:
    """The route of that name, with the keys that it has in the gateway. Raises Unusable."""
    for route in loaded.routes:
        if route.name == name:
            require_keys(loaded, name)
            return route
    there = ", ".join(route.name for route in loaded.routes)
    raise Unusable(f"no route is called {name!r}; there is {there}")


def require_keys(loaded: Loaded, name: str | None) -> None:
    """Raises Unusable where a variable is absent, so that the route would make other keys here."""
    setting = loaded.unknown_keys.get(name or "")
    if setting is not None:
        raise Unusable(
            f"{setting} of route {name} has a variable that is not set here, so that its keys would"
            " be others; set it as the gateway has it"
        )


def _carried(config: Path | None, route: str | None, file: str) -> bytes:
    loaded = sources.read(config, variables_required=False)
    # Whoever has the request may lack the secret of its day; what is stored under it is shown.
    unsigned = tuple(replace(one, signature=None) for one in loaded.routes)
    loaded = replace(loaded, routes=unsigned)
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = try_sample(loaded, route, raw)
    except (OSError, ValueError) as error:
        raise Unusable(f"--body: {sentence(error)}") from None
    require_keys(loaded, found.route)
    keys = {item.key for item in found.items if item.key is not None}
    if len(keys) > 1:
        raise Unusable(
            f"--body {file}: a batch of {len(keys)} events; name one of them by its ID,"
            " or by --key as try prints it"
        )
    if keys:
        return bytes.fromhex(*keys)
    if found.key is None:
        why = found.why or found.verdict
        raise Unusable(f"--body {file}: {why}" + ("" if route else "; --route NAME may help"))
    return bytes.fromhex(found.key)


def _named(config: Path | None, event: Event) -> bytes | Kept:
    """By its ID or its operation."""
    if event.route is None:
        raise Unusable("an ID is one within its route; write --route NAME with it")
    route = named(sources.read(config, variables_required=False), event.route)
    recipe = route.recipe
    if event.operation:
        if not recipe.operation:
            raise Unusable(f"route {route.name} has no operation_key; write the event's ID")
        return keying.digest(_scope(route), _parts(route, (recipe.operation,), event.operation)[0])
    if recipe.operation:
        return Kept(route.name, (",".join(event.ids),), by_operation=True)
    found = _ids(route, event.ids)
    if len(found) == 1 and all(isinstance(part, Literal) for part in recipe.scope):
        return keying.digest(_scope(route), found[0])
    # Only a delivery tells what it is one within, so the id is looked for as claims keep it.
    return Kept(route.name, tuple(",".join(parts) for parts in found))


def _scope(route: Route) -> list[str]:
    """Its texts, as the route's recipe has them."""
    scope = [part.text for part in route.recipe.scope if isinstance(part, Literal)]
    if len(scope) < len(route.recipe.scope):
        moving = ", ".join(
            describe(part) for part in route.recipe.scope if not isinstance(part, Literal)
        )
        raise Unusable(
            f"an id of route {route.name} is one within {moving} of its delivery;"
            " write --body FILE with a whole request, or --key HEX"
        )
    return scope


def _ids(route: Route, ids: tuple[str, ...]) -> list[list[str]]:
    """The texts of an id, as a single event has it, or an item of a batch, or either."""
    of_items = () if route.batch is None else route.batch.parts
    return _parts(route, tuple(filter(None, (route.recipe.parts, of_items))), ids)


def _parts(
    route: Route, choices: tuple[tuple[Location, ...], ...], ids: tuple[str, ...]
) -> list[list[str]]:
    """The texts of an id, or of an operation, for each of the choices that it fits."""
    if any(not text.strip() for text in ids):
        raise Unusable("a blank ID is no id")
    fitting = [texts for parts in choices if (texts := _fitted(parts, ids)) is not None]
    if fitting:
        return [texts for number, texts in enumerate(fitting) if texts not in fitting[:number]]
    moving = [[part for part in parts if not isinstance(part, Literal)] for parts in choices]
    wanted = ", or ".join(
        f"{several(len(parts), 'part')}, in this order: {' '.join(map(describe, parts))}"
        for parts in moving
    )
    raise Unusable(f"an id of route {route.name} has {wanted}")


def _fitted(parts: tuple[Location, ...], ids: tuple[str, ...]) -> list[str] | None:
    """A text for each part; those that never change need not be given."""
    moving = [part for part in parts if not isinstance(part, Literal)]
    if len(ids) == 1 and len(parts) > 1:
        # as logs and lists show it; ids that hold commas themselves have to be given one by one
        pieces = tuple(ids[0].split(","))
        ids = pieces if len(pieces) in (len(parts), len(moving)) else ids
    if len(ids) == 1 and moving and _may_be_one(moving):
        ids = ids * len(moving)
    if len(ids) == len(parts) and all(map(_may_be, parts, ids)):
        return list(ids)
    if len(ids) != len(moving):
        return None
    given = iter(ids)
    return [part.text if isinstance(part, Literal) else next(given) for part in parts]


def _may_be_one(parts: Sequence[Location]) -> bool:
    """Whether all parts may be one value: `[json:/id | json:/mail, json:/id | json:/at]`."""
    first, *others = [set(part.options) if isinstance(part, FirstOf) else {part} for part in parts]
    return bool(first.intersection(*others))


def _may_be(part: Location, text: str) -> bool:
    return not isinstance(part, Literal) or part.text == text
