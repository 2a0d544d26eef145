"""The files in config/ are valid, and the example shows everything that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from gateway.config import Embedded, check, load
from gateway.config.settings import Settings
from gateway.core.route import Mode
from tests.config.conftest import Read, write_pair

CONFIG = Path(__file__).parents[2] / "config"
EXAMPLE = (CONFIG / "gateway.example.yaml").read_text()
ENV = {"DATABASE_URL": "postgresql://h/d"}
HIDDEN = re.compile(r"^( *)#([a-z_]+:.*)$", re.MULTILINE)


def _settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        name = field.alias or name
        yield f"{above}{name}"
        for inner in _models(field.annotation):
            yield from _settings(inner, f"{above}{name}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _names(value: Any, above: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{above}{name}"
            yield from _names(inner, f"{above}{name}.")
    if isinstance(value, list):
        for inner in value:
            yield from _names(inner, above)


def test_the_example_is_valid_as_it_is(read: Read) -> None:
    loaded = read(EXAMPLE, env=ENV)
    assert {route.mode for route in loaded.routes} == set(Mode)
    assert not check(loaded).unsafe


def test_the_example_shows_every_setting() -> None:
    everything = yaml.load(HIDDEN.sub(r"\1\2", EXAMPLE), Loader=yaml.BaseLoader)
    # An admin listener is written like any other.
    wanted = {name for name in _settings(Settings) if not name.startswith("admin.listen.")}
    assert wanted - set(_names(everything)) == set()


@pytest.mark.parametrize("line", [match[0].strip() for match in HIDDEN.finditer(EXAMPLE)])
def test_each_hidden_setting_of_the_example_is_valid_when_shown(
    read: Read, tmp_path: Path, line: str
) -> None:
    text = EXAMPLE.replace(line, line.removeprefix("#"))
    if line.startswith(("#embedded", "#user")):
        text = text.replace('  dsn: "${DATABASE_URL}"', "").replace("#embedded", "embedded")
    (tmp_path / "tls").mkdir()
    for name in ("gateway", "internal", "client"):
        write_pair(tmp_path / "tls", name)
    if "client.pem" in line:
        text = text.replace("url: http://127", "url: https://127")
    read(text, env=ENV)


def test_the_defaults_that_the_example_shows_are_the_defaults() -> None:
    shown = {match[2] for match in HIDDEN.finditer(EXAMPLE)}
    models: set[type[BaseModel]] = {Settings, *_all_models(Settings)}
    for model in models:
        for name, field in model.model_fields.items():
            lines = [line for line in shown if line.startswith(f"{name}: ")]
            if lines and isinstance(field.default, str):
                assert f"{name}: {field.default}" in lines


def _all_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            yield inner
            yield from _all_models(inner)


def test_the_demo_runs_on_an_embedded_store_and_reachable_from_here_only() -> None:
    loaded = load(CONFIG / "demo.yaml", env={})
    assert isinstance(loaded.store, Embedded)
    assert [(one.host, one.port) for one in (*loaded.listen, loaded.admin)] == [
        ("127.0.0.1", 8080),
        ("127.0.0.1", 8081),
    ]
    assert [(route.name, route.path) for route in loaded.routes] == [("orders", "/hooks/orders")]
