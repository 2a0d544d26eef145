from __future__ import annotations

import pytest

from gateway.config import load
from gateway.core.route import Route
from gateway.providers import presets

ROUTE = '  - {{name: {0}, path: /{0}, provider: {0}, upstream: {{url: "http://127.0.0.1:1"}}}}\n'


@pytest.fixture(scope="session")
def routes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Route]:
    """A route of each preset, which says nothing but its provider."""
    file = tmp_path_factory.mktemp("presets") / "gateway.yaml"
    lines = "".join(map(ROUTE.format, presets.names()))
    file.write_text(f"store: {{embedded: ./data}}\nroutes:\n{lines}")
    return {route.name: route for route in load(file, env={}, flags={}).routes}
