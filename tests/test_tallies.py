"""Tallies: told once, whatever becomes of a scrape."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.tallies import Tallies


def test_a_scrape_that_fails_half_way_counts_nothing_twice() -> None:
    registry = CollectorRegistry()
    tally = Tallies(registry, prefix="t").counter("steps", "Steps.", "route", "verdict")
    tally["orders", "first"] += 1
    tally["one label short"] += 1
    for _ in range(3):
        with pytest.raises(ValueError, match="label"):
            generate_latest(registry)
        tally["one label short"] += 1
    del tally["one label short"]
    generate_latest(registry)
    assert registry.get_sample_value("t_steps_total", {"route": "orders", "verdict": "first"}) == 1
