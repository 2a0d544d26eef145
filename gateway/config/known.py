"""Names of what the gateway knows of providers: presets, and schemes of signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from gateway.config.kinds import one_word_of, text
from gateway.providers import presets, schemes


def _known(what: str, names: Iterable[str], see: str) -> Callable[[object], str]:
    there = tuple(names)

    def read(value: object) -> str:
        said = text(value)
        if said in there:
            return said
        meant = said.lower().replace("_", "-")
        near = [meant] if meant in there else get_close_matches(meant, there, 3)
        remedy = f"did you mean {' or '.join(near)}?" if near else see
        raise ValueError(f"{said!r} is no {what} that is known; {remedy}")

    return read


_SEE_PRESETS = "see `dedup-gateway providers`, or leave it out and write event_id: yourself"
_PRESETS = presets.names()
_SCHEMES = tuple(sorted(schemes.names()))

ProviderName = Annotated[
    str,
    PlainValidator(_known("provider", _PRESETS, _SEE_PRESETS)),
    WithJsonSchema(one_word_of(_PRESETS)),
]
SchemeName = Annotated[
    str,
    PlainValidator(_known("scheme", _SCHEMES, f"write one of {', '.join(_SCHEMES)}")),
    WithJsonSchema(one_word_of(_SCHEMES)),
]
