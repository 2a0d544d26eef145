"""Hiding: texts that are not to be shown, taken out of everything that is said.

A report is searched as a whole: a secret turns up in a location, in a reply, in a handshake's
answer, and in sentences about any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

# Hiding every 1 or on would make reports unreadable, and hide no secret.
_SHORTEST = 4

T = TypeVar("T")


def long_enough(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What is hidden of such texts, and what is shown in its place."""
    return {text: shown for text, shown in pairs if len(text) >= _SHORTEST}


def hide(text: str, hidden: Mapping[str, str]) -> str:
    """The text without them, however it quotes them."""
    known = {form: shown for one, shown in hidden.items() for form in _forms(one)}
    if not known:
        return text
    longest_first = sorted(known, key=len, reverse=True)
    return re.sub("|".join(map(_whole, longest_first)), lambda match: known[match[0]], text)


def hide_in(found: T, hidden: Mapping[str, str]) -> T:
    """The same in all the texts of a report."""
    hid: T = _hid_in(found, hidden)
    return hid


def _hid_in(found: Any, hidden: Mapping[str, str]) -> Any:
    match found:
        case str():
            return hide(found, hidden)
        case tuple() | list():
            return type(found)(_hid_in(one, hidden) for one in found)
        case dict():
            return {name: _hid_in(one, hidden) for name, one in found.items()}
        case _ if is_dataclass(found) and not isinstance(found, type):
            members = {one.name: getattr(found, one.name) for one in fields(found)}
            return replace(found, **_hid_in(members, hidden))
        case _:
            return found


def _forms(text: str) -> set[str]:
    """As it is, and as Python and JSON quote it."""
    return {text, repr(text)[1:-1], json.dumps(text)[1:-1]}


def _whole(text: str) -> str:
    """Not in the middle of a longer word."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return before + re.escape(text) + after
