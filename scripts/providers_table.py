"""Puts the presets into the table of README's section "Providers"."""

from __future__ import annotations

import re
from pathlib import Path

from gateway import catalogue
from gateway.providers import presets
from gateway.providers.presets import Preset

README = Path(__file__).parents[1] / "README.md"
HEAD = """\
| Provider | Event id | Scope | Promise | Signature | Duplicate | Mind |
|---|---|---|---|---|---|---|
"""


def table() -> str:
    """A line for each preset."""
    return HEAD + "".join(_line(presets.preset(name)) for name in presets.names())


def put(text: str) -> str:
    """README with the table as it has to be. Raises ValueError where it has no such table."""
    # The lines between the head of the table and the next that is none of it.
    found = re.compile(re.escape(HEAD) + r"(\|.*\n)*")
    if not found.search(text):
        raise ValueError("README has no table of providers")
    return found.sub(lambda _: table(), text)


def _line(one: Preset) -> str:
    scope = one.settings.get("scope")
    cells = [
        f"`{one.name}`",
        catalogue.event_id(one) if one.passes else f"`{catalogue.event_id(one)}`",
        "" if scope is None else f"`{catalogue.abridged(scope.value)}`",
        catalogue.promise(one),
        catalogue.signature(one),
        _reply(catalogue.duplicate_reply(one)),
        ", ".join(catalogue.remarks(one)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _reply(said: str) -> str:
    status, _, body = said.partition(" ")
    return said if not body or body == "empty" else f"{status} `{body}`"


if __name__ == "__main__":
    README.write_text(put(README.read_text("utf-8")), "utf-8")
