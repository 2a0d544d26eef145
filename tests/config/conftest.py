from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gateway.config import ConfigError, Loaded, load
from tests.rig.certificate import self_signed

Read = Callable[..., Loaded]
Mistakes = Callable[..., list[str]]

# A whole, valid file; `{route}` and `{top}` are where a test puts its lines.
WHOLE = """\
store: {{embedded: ./data}}
{top}
routes:
  - name: orders
    path: /hooks/orders
    upstream: {{url: "http://127.0.0.1:3000"}}
    event_id: json:/event_id
{route}
"""


def whole(*, top: str = "", route: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in dedent(route).splitlines())
    return WHOLE.format(top=dedent(top).strip(), route=lines)


def without_place(lines: list[str]) -> list[str]:
    """What is said, without the file and the line."""
    return [line.partition(": ")[2] for line in lines]


def write_pair(folder: Path, name: str) -> None:
    """A self-signed certificate and its key, NAME.pem and NAME.key."""
    cert, key = self_signed(folder)
    cert.replace(folder / f"{name}.pem")
    key.replace(folder / f"{name}.key")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Load a text as gateway.yaml, dedented."""

    def read_text(
        text: str,
        env: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Loaded:
        file = tmp_path / "gateway.yaml"
        file.write_text(dedent(text))
        return load(file, env=env or {}, flags=flags or {}, **options)

    return read_text


@pytest.fixture
def mistakes(read: Read) -> Mistakes:
    """The lines that are said about a text that cannot be used."""

    def said(text: str, **given: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(text, **given)
        return str(caught.value).splitlines()

    return said
