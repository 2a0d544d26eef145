"""The ground of all settings: nothing unknown is taken, and nothing changes once it was read."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

STRICT = ConfigDict(
    extra="forbid",
    frozen=True,
    validate_default=True,
    use_attribute_docstrings=True,
    arbitrary_types_allowed=True,
)


class Strict(BaseModel):
    """Settings that take nothing unknown."""

    model_config = STRICT


def written(default: object) -> Any:
    """A default in the words of a user; it is read like any other value."""
    return Field(default=default)
