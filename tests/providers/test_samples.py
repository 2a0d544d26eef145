"""Samples of every provider, and that a retry counts as the same event with the same body."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.core.event import Delivery
from gateway.core.keying import Reading
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
