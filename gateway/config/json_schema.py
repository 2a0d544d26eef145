"""The JSON Schema of the configuration, for editors that complete and underline."""

from __future__ import annotations

from typing import Any

from gateway.config.settings import Settings


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12; each description has unit, default and damage."""
    made = _tidy(Settings.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dedup gateway",
        **made,
    }


def _tidy(node: Any) -> Any:
    """Without what only pydantic means: null for "not written", and titles made of names."""
    if isinstance(node, list):
        return [_tidy(one) for one in node if one != {"type": "null"}]
    if not isinstance(node, dict):
        return node
    tidied = {name: _tidy(one) for name, one in node.items() if not _is_noise(name, one)}
    choices = tidied.get("anyOf")
    if isinstance(choices, list) and len(choices) == 1:
        tidied |= choices[0]
        del tidied["anyOf"]
    if "default" in tidied:
        tidied["default"] = _typed(tidied["default"])
    if "description" in tidied and isinstance(tidied["description"], str):
        tidied["description"] = " ".join(tidied["description"].split())
    return tidied


def _is_noise(name: str, value: Any) -> bool:
    return (name == "title" and isinstance(value, str)) or (name == "default" and value is None)


def _typed(default: Any) -> Any:
    # Defaults are kept as text, like everything that a user writes; editors want YAML's types.
    match default:
        case "true" | "false":
            return default == "true"
        case str() if default.isdigit():
            return int(default)
        case _:
            return default
