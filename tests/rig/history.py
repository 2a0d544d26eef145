"""What has to hold over any history of deliveries, whatever was killed in between."""

from __future__ import annotations

from collections.abc import Iterable

from tests.rig.consumer import Consumer


def check(consumer: Consumer, acknowledged: Iterable[str], sent: Iterable[str]) -> None:
    """Acknowledged: at least one effect. Sent: at most one effect from an unmarked forward.

    Raises AssertionError that names the events.
    """
    lost = [event for event in acknowledged if not consumer.effects(event)]
    doubled = [
        (event, consumer.effects(event))
        for event in sent
        if sum(not effect.marked for effect in consumer.effects(event)) > 1
    ]
    assert not lost, f"acknowledged without an effect: {lost}"
    assert not doubled, f"more than one unmarked effect: {doubled}"
