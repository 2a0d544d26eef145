"""Whatever somebody writes, the answer is a configuration or a list of mistakes."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import ConfigError, Loaded, load

EXAMPLE = (Path(__file__).parents[2] / "config" / "gateway.example.yaml").read_text()
VALID = yaml.load(EXAMPLE.replace("${DATABASE_URL}", "postgresql://h/d"), Loader=yaml.BaseLoader)

anything = st.recursive(
    st.sampled_from(["", "x", "0", "-1", "30s", "/", "/a", "true", "null", "${X}", "$$", "[::1]:5"])
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    found = []
    for step, inner in members:
        found.append((*path, step))
        if isinstance(inner, dict | list):
            found += _places(inner, (*path, step))
    return found


PLACES = _places(VALID)


def _with(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = deepcopy(VALID)
    here: Any = changed
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return changed


def _outcome(text: str, folder: Path, env: dict[str, str]) -> Loaded | ConfigError:
    file = folder / "gateway.yaml"
    file.write_text(text, "utf-8")
    try:
        return load(file, env=env)
    except ConfigError as error:
        return error


@given(st.sampled_from(PLACES), anything)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_strange_value_anywhere_is_taken_or_reported(
    tmp_path: Path, path: tuple[str | int, ...], value: Any
) -> None:
    found = _outcome(yaml.safe_dump(_with(path, value), allow_unicode=True), tmp_path, {})
    if isinstance(found, ConfigError):
        assert found.problems
        assert all(problem.message and problem.remedy for problem in found.problems)


@given(
    st.lists(
        st.sampled_from(["ROUTES", "0", "1", "9", "STORE", "MODE", "LISTEN", "DSN", ""]), max_size=4
    ),
    st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=12),
)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_strange_variable_is_taken_or_reported(
    tmp_path: Path, steps: list[str], value: str
) -> None:
    text = yaml.safe_dump(VALID, allow_unicode=True)
    found = _outcome(text, tmp_path, {"DEDUP__" + "__".join(steps): value})
    if isinstance(found, ConfigError):
        assert found.problems


@given(st.text(max_size=60))
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_strange_file_is_reported(tmp_path: Path, text: str) -> None:
    assert isinstance(_outcome(text.encode("utf-8", "replace").decode(), tmp_path, {}), ConfigError)
