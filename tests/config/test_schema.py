"""The JSON Schema: it takes what the program takes, and editors refuse what it would not."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.config import ConfigError, schema
from gateway.config.kinds import location
from gateway.config.places import condition
from gateway.config.preset_layer import EVIDENCE
from gateway.config.settings import Settings
from gateway.providers import presets
from tests.config.conftest import Read
from tests.readme import ROOT, blocks

EXAMPLES = [
    *(text for text in blocks("yaml") if "routes:" in text),
    *(path.read_text("utf-8") for path in sorted((ROOT / "config").glob("*.yaml"))),
]


@cache
def validator() -> Draft202012Validator:
    made = schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def whole(**route: Any) -> dict[str, Any]:
    """A configuration with one route."""
    upstream = {"url": "http://127.0.0.1:3000"}
    orders = {"name": "orders", "path": "/hooks/orders", "upstream": upstream, **route}
    return {"store": {"embedded": "./data"}, "routes": [orders]}


def faults(written: object) -> list[str]:
    return [f"{one.json_path}: {one.message}" for one in validator().iter_errors(written)]


def test_the_schema_is_one() -> None:
    assert faults(whole(event_id="json:/id")) == []


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_fit_it(text: str) -> None:
    # Without a store they are pieces of a file; each says what it is about.
    written = {"store": {"embedded": "./data"}, **yaml.safe_load(text)}
    assert faults(json.loads(json.dumps(written, default=str))) == []


def of_preset(name: str) -> dict[str, Any]:
    """What a preset sets, as a route would write it."""
    text = (ROOT / f"gateway/providers/presets/{name}.yaml").read_text("utf-8")
    route: dict[str, Any] = {}
    for path, fact in yaml.safe_load(text)["settings"].items():
        *around, last = path.split(".")
        here = route
        for step in around:
            here = here.setdefault(step, {})
        here[last] = [_written(one) for one in fact["value"]] if last in LISTS else fact["value"]
    return route


LISTS = ("handshakes",)


def _written(told: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in told.items() if name not in EVIDENCE}


@pytest.mark.parametrize("name", presets.names())
def test_what_a_preset_sets_fits_it(name: str) -> None:
    assert faults(whole(**of_preset(name))) == []


TAKEN = [
    {"event_id": "sha256(json:/a) | json:/b"},
    {"event_id": "json:/a | sha256(form:b | form:c)"},
    {"event_id": " json:/a "},
    {"event_id": ["header:X-Id", "json:/a | literal:-"]},
    {"success_status": "208", "high_water": "7", "resign": "false", "methods": "post"},
    {"success_status": 208, "high_water": 7, "resign": False, "methods": ["POST"]},
    {"event_id": "${WHERE}"},
    {"handshakes": [{"match": ["sha256(json:/a) = b", "no json:/c | json:/d"]}]},
    {"handshakes": {"match": "json:/type = url | verification"}},
]
REFUSED = [
    {"event_id": "sha256(json:/a) | b"},
    {"event_id": "json:/a | b"},
    {"event_id": "json:/a |json:/b | "},
    {"event_id": "jsn:/a"},
    {"event_id": ""},
    {"handshakes": [{"match": ["type = b"]}]},
    {"handshakes": [{"match": ["no type"]}]},
    {"unknown": "setting"},
    {"success_status": "20"},
    {"high_water": 0},
    {"resign": "yes"},
    {"methods": "PSOT"},
]


@pytest.mark.parametrize("route", TAKEN)
def test_what_the_program_takes_fits_it(read: Read, route: dict[str, Any]) -> None:
    written = whole(**{"event_id": "json:/id", **route})
    assert faults(written) == []
    read(json.dumps(written), env={"WHERE": "json:/id"})


@pytest.mark.parametrize("route", REFUSED)
def test_what_the_program_refuses_does_not_fit_it(read: Read, route: dict[str, Any]) -> None:
    written = whole(**{"event_id": "json:/id", **route})
    assert faults(written)
    with pytest.raises(ConfigError):
        read(json.dumps(written))


PLACES = st.sampled_from(["json:/a", "header:X-Y", "form:b", "query:c d", "literal:| -", "a", ""])
PIECES = st.recursive(
    PLACES,
    lambda inner: st.one_of(
        inner.map(lambda one: f"sha256({one})"),
        st.lists(inner, min_size=2, max_size=3).map(" | ".join),
        st.tuples(inner, st.sampled_from(["|", " |", ")", "(", " = ", "  |\t"]), inner).map(
            "".join
        ),
    ),
    max_leaves=6,
)


@given(PIECES)
def test_whatever_location_the_program_takes_the_schema_takes(text: str) -> None:
    for setting, reader in (("event_id", location), ("handshakes", condition)):
        try:
            reader(text)
        except ValueError:
            continue
        told: Any = text if setting == "event_id" else [{"match": [text]}]
        assert faults(whole(**{"event_id": "json:/id", setting: told})) == []


def test_the_schema_allows_no_more_than_the_program_does() -> None:
    definitions = schema()["$defs"]
    status = definitions["FixedReplySettings"]["properties"]["status"]["anyOf"][0]
    assert (status["minimum"], status["maximum"]) == (200, 299)
    timeout = json.dumps(definitions["UpstreamSettings"]["properties"]["timeout"])
    assert "const" not in timeout


def test_every_setting_in_the_schema_says_what_it_is() -> None:
    made = schema()
    for model in (made, *made["$defs"].values()):
        for variant in (model, *model.get("anyOf", ())):
            for name, setting in variant.get("properties", {}).items():
                assert setting.get("description"), name
    assert set(made["properties"]) == set(Settings.model_fields)
    assert made["properties"]["drain_delay"]["default"] == "5s"
    assert made["additionalProperties"] is False
    assert '"null"' not in json.dumps(made)
