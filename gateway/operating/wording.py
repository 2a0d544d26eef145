"""Times, ids and addresses as a person reads them, on a terminal that strangers cannot command."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.core.event import RawHeaders
from gateway.providers import schemes

# Their values open doors, or let somebody send the event once more; those of signatures and tokens
# that a scheme knows come on top.
_SECRET_NAMES = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"set-cookie", b"x-auth"}
)
_SECRET_WORDS = (b"token", b"secret", b"password", b"api-key", b"apikey", b"signature", b"hmac")
_FIRST = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()
HIDDEN = "(hidden; --full shows it)"


def visible(text: str) -> str:
    """Control characters as escapes: ids and targets come from whoever can send a request."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def several(number: int, one: str, more: str = "") -> str:
    """`1 time`, `2,000 times`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def dated(seconds: float) -> float:
    """The nearest time that a calendar has: a list, or an option, may say anything."""
    return min(max(seconds, _FIRST), _LAST)


def stamp(seconds: float) -> str:
    """`2026-11-30T16:49:04Z`."""
    moment = datetime.fromtimestamp(dated(seconds), UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def span(seconds: float) -> str:
    """The two largest units: `3d 4h`, `5m 12s`, `8s`."""
    left = max(round(seconds), 0)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, unit))
    shown = [f"{count}{unit}" for count, unit in parts[:2] if count]
    return " ".join(shown) or "0s"


def when(seconds: float, now: float) -> str:
    """A time, and how far away it is."""
    ago = now - seconds
    return f"{stamp(seconds)}, " + (f"{span(ago)} ago" if ago >= 0 else f"in {span(-ago)}")


def address(target: str, *, full: bool) -> str:
    """A target; its query may hold a secret."""
    path, mark, query = target.partition("?")
    return visible(path) + (f"?{visible(query) if full else '…'}" if mark else "")


def header_lines(headers: RawHeaders, *, full: bool) -> list[tuple[str, str]]:
    """Names and values, those of secrets hidden."""
    return [
        (visible(name.decode("latin-1")), visible(_value(name, value, full)))
        for name, value in headers
    ]


def _value(name: bytes, value: bytes, full: bool) -> str:
    if not full and is_secret(name):
        return HIDDEN
    return value.decode("utf-8", "backslashreplace").strip(" \t")


def is_secret(name: bytes) -> bool:
    """Whether a header's value is not for every screen."""
    lower = name.lower()
    if lower in _SECRET_NAMES or lower.replace(b"_", b"-") in schemes.carriers():
        return True
    return any(word in lower for word in _SECRET_WORDS)
