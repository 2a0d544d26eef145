"""README's table of providers says what the presets say."""

from __future__ import annotations

from gateway.providers import presets
from scripts.providers_table import put
from tests.readme import README, table


def test_the_table_of_providers_is_that_of_the_presets() -> None:
    assert set(table("Providers", "Provider")) == set(presets.names())
    assert put(README) == README, "run `python -m scripts.providers_table`"
