"""What no report, mistake or log line shows of a configuration.

What a variable or a file gave is shown as it was written, `${NAME}`, and what is compared as a
secret as `…`, wherever it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.config.document import Document
from gateway.config.hiding import long_enough
from gateway.config.problems import Path
from gateway.config.route_settings import RouteSettings
from gateway.config.settings import Settings
from gateway.core.location import describe

UNSEEN = "…"
# Of a route: what may be any text. Names, times, numbers and choices are shown as they are used.
_TEXTS = {
    "batch", "duplicate_reply", "event_id", "event_time", "event_type", "handshakes",
    "operation_key", "path", "probe", "scope", "signature", "upstream", "verify_token",
}  # fmt: skip
# Members of those that are no such text.
_CHOICES = {
    "concurrency", "connect_timeout", "first_byte_timeout", "give_up", "host", "max_reply",
    "methods", "scheme", "signed", "slot_timeout", "status", "timeout", "tolerance",
    "write_timeout",
}  # fmt: skip
_SECRET_PLACE = re.compile(r"token|secret|passw|passphrase|authorization|signature|api.?key", re.I)
_AUTHORITY = re.compile(r"[a-z]+://[^/?#]*", re.I)


def hidden(document: Document, settings: Settings) -> dict[str, str]:
    """What not to show, and what to show in its place. Names of routes are shown all the same."""
    names = {route.name for route in settings.routes}
    compared = dict(
        pair
        for index, route in enumerate(settings.routes)
        for pair in _compared(route, document, ("routes", index, "handshakes"))
    )
    found = compared | dict(_given(document))
    return long_enough(pair for pair in found.items() if pair[0] not in names)


def _given(document: Document) -> Iterator[tuple[str, str]]:
    """By variables and files."""
    for path, pieces in document.expanded.items():
        named = [step for step in path if isinstance(step, str)]
        if named[:1] == ["routes"] and named[1] in _TEXTS and named[-1] not in _CHOICES:
            yield from _behind_host(document.text(path) or "", dict(pieces)).items()


def _behind_host(whole: str, pieces: dict[str, str]) -> dict[str, str]:
    """Of a URL what stands behind the host, which is not secret; all of another value."""
    before = _AUTHORITY.match(whole)
    if before is None:
        return pieces
    behind = whole[before.end() :]
    inside = {value: written for value, written in pieces.items() if value in behind}
    is_given = any(behind in value for value in pieces)
    return inside or ({behind: f"/{UNSEEN}"} if is_given else {})


def _compared(
    route: RouteSettings, document: Document, handshakes: Path
) -> Iterator[tuple[str, str]]:
    """With what a sender shows, as a secret."""
    told = () if route.signature is None else route.signature.secrets
    yield from ((secret, UNSEEN) for secret in told)
    if route.verify_token is not None:
        yield route.verify_token, UNSEEN
    is_given = document.origin(handshakes).from_environment
    for wanted in (one for handshake in route.handshakes for one in handshake.match):
        if wanted.equals is None or wanted.by_token:
            continue
        if is_given or _SECRET_PLACE.search(describe(wanted.where)):
            yield wanted.equals, UNSEEN
