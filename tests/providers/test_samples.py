"""Samples of every provider: a retry is the same event with the same body, and a sibling is kept
apart by each part of the scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gateway.core.event import Delivery
from gateway.core.keying import Reading
from gateway.core.location import Literal
from gateway.core.route import Route
from gateway.flow import events
from gateway.flow.events import Event
from gateway.providers import presets
from tests.providers import samples
from tests.providers.samples import sample

NAMES = [name for name in presets.names() if not presets.preset(name).passes]


def prints(route: Route, request: Delivery) -> dict[str, int]:
    """The fingerprints by event id."""
    found = events.read(Reading(request), route, 1)
    assert isinstance(found, Event), found
    if found.items:
        return {part.key.event_id: part.fingerprint for part in found.parts}
    return {found.key.event_id: found.fingerprint}


def test_there_is_a_sample_of_every_preset() -> None:
    assert samples.names() == list(presets.names())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_provider_changes_per_attempt_is_no_other_body(
    name: str, routes: Mapping[str, Route]
) -> None:
    given, route = sample(name), routes[name]
    first, again = prints(route, given.event), prints(route, given.retry)
    both = first.keys() & again.keys()  # a batch may come in another composition
    assert both
    assert {key: first[key] for key in both} == {key: again[key] for key in both}


def digests(route: Route, request: Delivery) -> set[bytes]:
    found = events.read(Reading(request), route, 1)
    assert isinstance(found, Event), found
    return {part.key.digest for part in found.parts} or {found.key.digest}


@pytest.mark.parametrize("name", NAMES)
def test_without_any_part_of_its_scope_an_event_and_a_sibling_would_be_one(
    name: str, routes: Mapping[str, Route]
) -> None:
    given, route = sample(name), routes[name]
    scope = route.recipe.scope
    for part in scope:
        if isinstance(part, Literal):  # the route's name, which all of them share
            continue
        wider = tuple(one for one in scope if one != part)
        without = replace(route, recipe=replace(route.recipe, scope=wider))
        event = digests(without, given.event)
        assert any(event & digests(without, one) for one in given.siblings), part
