"""Composing: the key of a row of somebody else's records, as the route would make it of a delivery.

A column is named by the place where a delivery has its value: `json:/order/id`, `header:X-Topic`.
Where an id has only one part that is no literal, `id` will do, and so do `scope` and `operation`
for theirs. A column `sha256(…)` has the digest, and one of the place inside what it is the digest
of. `a | b` has a column for each, empty where the event has nothing there, or one for all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Conflicting, Missing, Reading, Recipe, sha256_of
from gateway.core.location import (
    FirstOf,
    Header,
    Literal,
    Location,
    Sha256,
    canonical,
    describe,
    parse_location,
)
from gateway.core.retention import parse_event_time
from gateway.core.route import Route
from gateway.operating.formats import Row
from gateway.sources import Unusable

_DIGEST = re.compile("[0-9a-f]{64}")
_NO_DELIVERY = Delivery("POST", "/", (), b"", "", "http")
_NO_COLUMN = "is in no column"
# What D4 takes for no id wherever it stands.
_NEVER_AN_ID = (type(None), bool, float, Decimal, list, dict)


class NoKey(NamedTuple):
    """Why nothing can be made of a row."""

    why: str
    """What is wrong, and what to write."""
    lacks_column: bool = False
    """Then so do all rows of a table."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row has the value of a location."""

    location: Location
    columns: tuple[str, ...]
    """The first that is there counts."""
    inner: tuple[_Place, ...]
    optional: bool = False
    """Whether it may lack the column altogether."""


class _Plan(NamedTuple):
    recipe: Recipe
    places: Mapping[Location, _Place]


class Composer:
    """Keys, times and types of one route's events. Raises Unusable for a route that has none."""

    def __init__(self, route: Route) -> None:
        if route.pass_through is not None:
            raise Unusable(f"route {route.name} passes everything on: it has no ids")
        own, batch = route.recipe, route.batch
        recipes = [own] if own.parts or own.operation else []
        if batch is not None:  # an item has a key like any other event
            recipes.append(replace(own, parts=batch.parts))
        self._plans = [_Plan(recipe, _places(recipe)) for recipe in recipes]
        items = (None, None) if batch is None else (batch.event_time, batch.event_type)
        self._times = _names("time", route.event_time, items[0])
        self._types = _names("type", route.event_type, items[1])

    @property
    def wanted(self) -> str:
        """The columns that a row has to have, for people."""
        return ", or else ".join(dict.fromkeys(map(_wanted, self._plans)))

    def compose(self, row: Row) -> EventKey | NoKey:
        """The key of the event that a row is about."""
        if row.wrong is not None:
            return NoKey(row.wrong)
        values = _values(row)
        if isinstance(values, NoKey):
            return values
        where = ""
        for plan in self._plans:
            found = _RowReading(values, plan.places).identify(plan.recipe)
            if isinstance(found, EventKey):
                return found
            if isinstance(found, Missing):
                return NoKey(f"{found.where} has no value that is an id")
            if found.why != _NO_COLUMN:
                return NoKey(f"{found.where} {found.why}")
            where = where or found.where
        return NoKey(f"{where} {_NO_COLUMN}; write {self.wanted}", lacks_column=True)

    def time(self, row: Row) -> float | NoKey | None:
        """When it was, in epoch seconds; None where the row does not say."""
        value = _first(row, self._times)
        if isinstance(value, datetime):
            moment = value.timestamp() if value.tzinfo else None
        elif value is None or not str(value).strip():
            return None
        else:
            moment = parse_event_time(str(value))
        if moment is None:
            remedy = "as 2026-08-25T09:30:00Z, with an offset, or as epoch seconds"
            return NoKey(f"{self._times[-1]} {str(value)!r} is no certain time; write it {remedy}")
        return moment

    def type(self, row: Row) -> str | None:
        """The event's type; None where the row does not say."""
        value = _first(row, self._types)
        return value if isinstance(value, str) and value.strip() else None


class _RowReading(Reading):
    """A row, read as the delivery that has the same values."""

    __slots__ = ("_columns", "_places")

    def __init__(self, columns: Mapping[str, object], places: Mapping[Location, _Place]) -> None:
        super().__init__(_NO_DELIVERY)
        self._columns = columns
        self._places = places

    def values(self, locations: Iterable[Location]) -> list[str] | Missing | Conflicting:
        values = []
        for location in locations:
            if isinstance(location, Literal):
                values.append(location.text)
                continue
            place = self._places[location]
            found = self._value(place)
            if isinstance(found, Conflicting) and found.why == _NO_COLUMN and place.optional:
                return Missing(found.where)
            if not isinstance(found, str):
                return found
            values.append(found)
        return values

    def _value(self, place: _Place) -> str | Missing | Conflicting:
        for column in place.columns:
            if column in self._columns:
                return _usable(self._columns[column], place.location)
        location = place.location
        if isinstance(location, Literal):
            return location.text
        if isinstance(location, Sha256):
            return sha256_of(self._value(place.inner[0]))
        found: str | Missing | Conflicting = Conflicting(describe(location), _NO_COLUMN)
        for option in place.inner:
            found = self._value(option)
            if not isinstance(found, Missing):
                break
        return found


def _usable(value: object, location: Location) -> str | Missing | Conflicting:
    """A column's value as an id, by the rules for ids of deliveries (D4, D8)."""
    if isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value)
    elif isinstance(value, Decimal) and value == value.to_integral_value():
        value = f"{value:f}" if value.as_tuple().exponent == 0 else value
    if isinstance(value, str):
        if isinstance(location, Header):
            value = value.strip(" \t")  # as whatever reads HTTP does
        elif isinstance(location, Sha256) and not _DIGEST.fullmatch(value) and value.strip():
            inner = describe(location.inner)
            why = f"is no digest of 64 hex digits; or write {inner} for what it is made of"
            return Conflicting(describe(location), why)
        return value if value.strip() else Missing(describe(location))
    if isinstance(value, _NEVER_AN_ID):
        return Missing(describe(location))
    return Conflicting(describe(location), f"is a {type(value).__name__}; select it as text")


def _places(recipe: Recipe) -> dict[Location, _Place]:
    places: dict[Location, _Place] = {}
    groups = {"scope": recipe.scope, "id": recipe.parts, "operation": recipe.operation}
    for alias, locations in groups.items():
        moving = _moving(locations)
        aliases = (alias,) if len(moving) == 1 else ()
        for location in moving:
            place = _place(location)
            there = places.get(location, place)
            optional = alias == "id" and bool(recipe.operation)  # its operation says it all
            places[location] = replace(
                place,
                columns=(*there.columns, *aliases),
                optional=optional if there is place else there.optional and optional,
            )
    return places


def _place(location: Location) -> _Place:
    if isinstance(location, Literal):
        return _Place(location, (), ())
    inner: tuple[Location, ...] = ()
    if isinstance(location, Sha256):
        inner = (location.inner,)
    elif isinstance(location, FirstOf):
        inner = location.options
    return _Place(location, (canonical(location),), tuple(map(_place, inner)))


def _moving(locations: Iterable[Location]) -> list[Location]:
    return [one for one in dict.fromkeys(locations) if not isinstance(one, Literal)]


def _wanted(plan: _Plan) -> str:
    said = []
    for location, place in plan.places.items():
        if not place.optional:
            _, *aliases = place.columns
            ways = " or ".join(map(repr, (describe(location), *aliases)))
            said.append(f"a column {ways}")
    return ", and ".join(said)


def _names(alias: str, *locations: Location | None) -> tuple[str, ...]:
    places = [canonical(one) for one in locations if one is not None]
    return (*dict.fromkeys(places), alias)


def _first(row: Row, names: tuple[str, ...]) -> object:
    values = _values(row)
    if isinstance(values, NoKey):
        return None
    return next((values[name] for name in names if name in values), None)


def _values(row: Row) -> Mapping[str, object] | NoKey:
    """By canonical place."""
    places = _canonical(tuple(row.values))
    if len(places) < len(row.values):
        return NoKey("two columns are the same place; leave one out")
    return dict(zip(places, row.values.values(), strict=True))


@lru_cache(maxsize=1024)
def _canonical(names: tuple[str, ...]) -> tuple[str, ...]:
    """Fewer than the names where two are spellings of one place."""
    return tuple(dict.fromkeys(map(_place_named, names)))


def _place_named(name: str) -> str:
    try:
        return canonical(parse_location(name))
    except ValueError:
        return name
