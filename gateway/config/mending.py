"""Mending: wrong settings out of the way, so that the rest is looked at in the same run.

Nothing that was mended is ever used: it was reported, and the configuration is refused. The
exception are stand-ins for variables that a check without its environment lacks (see `expansion`).
"""

from __future__ import annotations

from copy import deepcopy

from gateway.config.document import Document, Value
from gateway.config.problems import Origin, Path

# Of a route: without one of their members the others mean nothing.
_GROUPS = (("batch",), ("handshakes",), ("signature",))
_NOBODY = Origin("a stand-in")


def mended(document: Document, wrong: list[Path]) -> Document:
    """A copy without the wrong members, and with something wherever one is required."""
    copy = deepcopy(document)
    for path in wrong:
        member = _member(path)
        if copy.has(member):
            copy.drop(member)
            copy.placeholders.discard(member)
    if "store" not in copy.root:
        copy.put(("store", "embedded"), "data", _NOBODY)
    copy.root.setdefault("routes", [])
    listed = copy.root["routes"]
    for index, route in enumerate(listed if isinstance(listed, list) else []):
        for tail, value in _required(index):
            identified = tail == ("event_id",) and _identified(route)
            if (
                isinstance(route, dict)
                and not copy.has(("routes", index, *tail))
                and not identified
            ):
                copy.put(("routes", index, *tail), value, _NOBODY)
        asked: Path = ("routes", index, "probe", "url")
        if isinstance(route, dict) and isinstance(route.get("probe"), dict) and not copy.has(asked):
            copy.put(asked, "http://consumer.invalid/{event_id}", _NOBODY)
    return copy


def _identified(route: Value) -> bool:
    return isinstance(route, dict) and any(name in route for name in ("batch", "pass_through"))


def _required(index: int) -> list[tuple[Path, Value]]:
    return [
        (("name",), f"route-{index}"),
        (("path",), f"/route-{index}"),
        (("event_id",), "json:/id"),
        (("upstream", "url"), "http://consumer.invalid"),
    ]


def _member(path: Path) -> Path:
    """The nearest named thing: an item taken out of a list would renumber the others.

    Of groups whose members need each other, the group.
    """
    if path[2:3] in _GROUPS:
        return path[:3]
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path
