"""Composing: the key of a row of somebody else's records, as the route would make it of a delivery.

A column is named by the place where a delivery has its value: `json:/order/id`, `header:X-Topic`.
Where an id has only one part that is no literal, `id` will do, and so do `scope` and `operation`
for theirs; of several alternatives that begin alike, `id` is what they begin with. A column
`sha256(…)` has the digest, and one of the place inside what it is the digest of. `a | b` has a
column for each, empty where the event has nothing there, or one for all of it; beside a literal
they may be left out, which is to say that deliveries have nothing there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from gateway.core.event import Delivery, EventKey
from gateway.core.keying import Conflicting, Missing, Reading, Recipe, sha256_of
from gateway.core.location import (
    FirstOf,
    Literal,
    Location,
    Sha256,
    canonical,
    describe,
    may_be_constant,
    parse_location,
)
from gateway.core.route import Route
from gateway.operating.cells import as_id, as_moment, is_blank
from gateway.operating.formats import Row
from gateway.sources import Unusable

_NO_DELIVERY = Delivery("POST", "/", (), b"", "", "http")
_NO_COLUMN = "is in no column"


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
    falls_back: bool = False
    """Whether the literal among its alternatives stands for those that lack a column."""


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
        self._composed = 0
        self._absent = Counter[str]()

    @property
    def wanted(self) -> str:
        """The columns that a row has to have, for people."""
        return ", or else ".join(dict.fromkeys(map(_wanted, self._plans)))

    @property
    def absent(self) -> tuple[str, ...]:
        """Places that no row so far has a column for, so that deliveries are taken to lack them."""
        return tuple(one for one, rows in self._absent.items() if rows == self._composed)

    def compose(self, row: Row) -> EventKey | NoKey:
        """The key of the event that a row is about."""
        if row.wrong is not None:
            return NoKey(row.wrong)
        values = _values(row)
        if isinstance(values, NoKey):
            return values
        where = ""
        for plan in self._plans:
            reading = _RowReading(values, plan.places, exact=row.exact)
            found = reading.identify(plan.recipe)
            if isinstance(found, EventKey):
                self._composed += 1
                self._absent.update(reading.absent)
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
        if is_blank(value):
            return None
        moment = as_moment(value)
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

    __slots__ = ("_columns", "_exact", "_places", "absent")

    def __init__(
        self, columns: Mapping[str, object], places: Mapping[Location, _Place], *, exact: bool
    ) -> None:
        super().__init__(_NO_DELIVERY)
        self._columns = columns
        self._places = places
        self._exact = exact
        self.absent = set[str]()
        """Places for which a literal stands in."""

    def values(self, locations: Iterable[Location]) -> list[str] | Missing | Conflicting:
        values = []
        for location in locations:
            if isinstance(location, Literal):
                values.append(location.text)
                continue
            place = self._places[location]
            found = self._value(place, exact=self._exact)
            if place.optional and _lacks_column(found):
                return Missing(describe(location))
            if not isinstance(found, str):
                return found
            values.append(found)
        return values

    def _value(self, place: _Place, *, exact: bool) -> str | Missing | Conflicting:
        location = place.location
        for column in place.columns:
            if column in self._columns:
                return as_id(self._columns[column], location, exact=exact)
        if isinstance(location, Literal):
            return location.text
        if isinstance(location, Sha256):  # what it is made of may well be lines
            return sha256_of(self._value(place.inner[0], exact=True))
        found: str | Missing | Conflicting = Conflicting(describe(location), _NO_COLUMN)
        for option in place.inner:
            found = self._value(option, exact=exact)
            if place.falls_back and _lacks_column(found):
                self.absent.add(describe(option.location))
            elif not isinstance(found, Missing):
                break
        return found


def _lacks_column(found: str | Missing | Conflicting) -> bool:
    return isinstance(found, Conflicting) and found.why == _NO_COLUMN


def _places(recipe: Recipe) -> dict[Location, _Place]:
    places: dict[Location, _Place] = {}
    groups = {"scope": recipe.scope, "id": recipe.parts, "operation": recipe.operation}
    for alias, locations in groups.items():
        moving = _moving(locations)
        short = {_only(moving): alias}
        # Something has to be read, or else all rows would be one event.
        falls_back = alias == "scope" or not all(map(may_be_constant, moving))
        for location in moving:
            place = _place(location, short, falls_back=falls_back)
            there = places.get(location, place)
            optional = alias == "id" and bool(recipe.operation)  # its operation says it all
            places[location] = replace(
                place,
                columns=tuple(dict.fromkeys((*there.columns, *place.columns))),
                optional=optional if there is place else there.optional and optional,
                falls_back=place.falls_back and there.falls_back,
            )
    return places


def _place(location: Location, short: Mapping[Location | None, str], *, falls_back: bool) -> _Place:
    """`short`: which place has a short name."""
    if isinstance(location, Literal):
        return _Place(location, (), ())
    inner: tuple[Location, ...] = ()
    if isinstance(location, Sha256):
        inner = (location.inner,)
    elif isinstance(location, FirstOf):
        inner = location.options
    aliases = (short[location],) if location in short else ()
    return _Place(
        location,
        (canonical(location), *aliases),
        tuple(_place(one, short, falls_back=falls_back) for one in inner),
        falls_back=falls_back and _has_literal(location),
    )


def _only(moving: list[Location]) -> Location | None:
    """What one value of an event says all of: the only part, or what all parts begin with."""
    if len(moving) == 1:
        return moving[0]
    begins = {one.options[0] if isinstance(one, FirstOf) else None for one in moving}
    return begins.pop() if len(begins) == 1 else None


def _has_literal(location: Location) -> bool:
    return isinstance(location, FirstOf) and any(
        isinstance(option, Literal) for option in location.options
    )


def _moving(locations: Iterable[Location]) -> list[Location]:
    return [one for one in dict.fromkeys(locations) if not isinstance(one, Literal)]


def _wanted(plan: _Plan) -> str:
    wanted: dict[str, None] = {}
    for place in plan.places.values():
        if not (place.optional or place.falls_back):
            first = place.inner[0] if isinstance(place.location, FirstOf) else place
            shown = first if len(first.columns) > 1 else place
            _, *aliases = shown.columns
            ways = " or ".join(map(repr, (describe(shown.location), *aliases)))
            wanted[f"a column {ways}"] = None
    return ", and ".join(wanted)


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
