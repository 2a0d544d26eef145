"""Layers: flags over the environment over the file, and all of them over presets (`preset_layer`).

`DEDUP__STORE__DSN` sets `store.dsn`, `DEDUP__ROUTES__0__MODE` the mode of the first route,
`DEDUP__ROUTES__0__METHODS='[POST, PUT]'` a whole list. A variable that starts with `DEDUP__` and
leads nowhere is a mistake: a limit that somebody believes to have set is worse than none.

The outcome is the one source of `Settings`. pydantic-settings' own environment source can neither
reach into a list by index nor name the variable in a mistake, and ignores variables that it does
not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.config import yaml_lines
from gateway.config.document import Document, Value
from gateway.config.problems import Origin, Path, Problem, dotted

PREFIX = "DEDUP__"
_INLINE = "write a list as in [POST, PUT], a mapping as in {url: http://127.0.0.1:3000}"
# Flags that are not called as their setting is.
_FLAGS: Mapping[str, Path] = {
    "admin": ("admin", "listen"),
    "embedded": ("store", "embedded"),
    "upstream": ("routes", 0, "upstream", "url"),
    "path": ("routes", 0, "path"),
    "event_id": ("routes", 0, "event_id"),
    "provider": ("routes", 0, "provider"),
}


def lay_environment(document: Document, env: Mapping[str, str]) -> list[Problem]:
    """Put the environment's settings over the document's."""
    named = [(_path(name), name, env[name]) for name in env if name.startswith(PREFIX)]
    problems = []
    for path, name, text in sorted(named, key=lambda one: _order(one[0])):
        origin = Origin(f"environment {name}")
        if not all(step != "" for step in path):
            problems.append(_wrong(path, origin, "names no setting", "write DEDUP__A__B for a.b"))
            continue
        value, mistakes = _parsed(text)
        problems += [_wrong(path, origin, one.message, one.remedy) for one in mistakes]
        if not mistakes:
            problems += _put(document, path, value, origin)
    return problems


def lay_flags(document: Document, flags: Mapping[str, object]) -> list[Problem]:
    """Put flags over everything else; `None` is a flag that was not given."""
    problems = []
    for name, given in flags.items():
        if given is None:
            continue
        path = _FLAGS.get(name) or tuple(_step(step) for step in name.split("."))
        origin = Origin("flag --" + name.replace(".", "-").replace("_", "-"))
        value: Value = (
            [str(one) for one in given] if isinstance(given, list | tuple) else str(given)
        )
        problems += _put(document, path, value, origin)
    return problems


def _put(document: Document, path: Path, value: Value, origin: Origin) -> list[Problem]:
    blocked = document.put(path, value, origin)
    if blocked is None:
        return []
    return [_wrong(path, origin, f"cannot be set, {blocked}", "set the whole of it instead")]


def _parsed(text: str) -> tuple[Value, list[Problem]]:
    """Lists and mappings as YAML writes them inline; everything else is the text itself."""
    if not text.lstrip().startswith(("[", "{")) or text.lstrip().startswith("[::"):
        return text, []
    document, problems = yaml_lines.read(f"value: {text}", "")
    if problems and not document.root:  # the parser gave up; what it advises is for a file
        problems = [replace(one, remedy=_INLINE) for one in problems]
    return document.root.get("value", ""), problems


def _path(name: str) -> Path:
    return tuple(_step(step) for step in name.removeprefix(PREFIX).lower().split("__"))


def _order(path: Path) -> tuple[tuple[bool, str | int], ...]:
    """Whole values before their parts, and list items in their order."""
    return tuple((isinstance(step, str), step) for step in path)


def _step(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() else text


def _wrong(path: Path, origin: Origin, message: str, remedy: str) -> Problem:
    return Problem(dotted(path), str(origin), None, message, remedy)
