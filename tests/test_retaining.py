"""What a configuration says of how long its routes' claims are kept."""

from __future__ import annotations

from pathlib import Path

import yaml

from gateway.config import load
from gateway.core.canary import Memory
from gateway.retaining import kept
from tests.rig import settings


def test_routes_that_share_a_scope_keep_each_others_claims_for_the_longest_retention(
    tmp_path: Path,
) -> None:
    routes = [
        settings.route("one", 3000, scope="header:X-Shop", retention="40d"),
        settings.route("two", 3000, scope="header:x-shop", retention="50d"),
        settings.route("alone", 3000, retention="35d", accept_new_memory="meant"),
        settings.route("short", 3000, retention="1d", accept_short_retention="meant, too"),
    ]
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(settings.file("postgresql://h/d", *routes)))
    found = {one.route.name: one for one in kept(load(file, env={}, flags={}))}
    days = {name: one.retention / 86400 for name, one in found.items()}
    assert days == {"one": 50, "two": 50, "alone": 35, "short": 1}
    old = Memory(9e9, 9e9, None)
    needed = {name: one.expected(old, old.age) / 86400 for name, one in found.items()}
    assert needed == {"one": 33, "two": 33, "alone": 33, "short": 1}
    assert [name for name, one in found.items() if one.accepts_new] == ["alone"]
    assert found["one"].told.retention == 50 * 86400
    assert "retry horizon 3d" in found["one"].told.source
