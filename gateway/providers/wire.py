"""What schemes read of a delivery and write into it, byte by byte.

A header that a scheme reads has one value or none: two lines that differ, or a second spelling with
`_` for `-` that CGI takes for the same, are read by different consumers in different ways, so
nothing that such a delivery says is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from gateway.core.event import Delivery, RawHeaders


def lines(headers: RawHeaders, wanted: frozenset[bytes]) -> dict[bytes, bytes] | None:
    """The values of the headers of these lower-case names, by name; blank ones are left out.

    None where one of them has two values.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        low, dashed = _spelled(name)
        if dashed not in wanted:
            continue
        value = value.strip(b" \t")
        if low != dashed or found.setdefault(low, value) != value:
            return None
    return {name: value for name, value in found.items() if value}


# Senders use the same few names again and again; bounded, because strangers choose them.
@lru_cache(maxsize=512)
def _spelled(name: bytes) -> tuple[bytes, bytes]:
    """In lower case, and as CGI takes it."""
    low = name.lower()
    return low, low.replace(b"_", b"-")


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object's, for `object_pairs_hook`. Raises ValueError where one is there twice.

    Of two with one name the consumer may read the other one.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is there twice")
    return found


def put(headers: RawHeaders, names: Sequence[str], value: bytes) -> RawHeaders:
    """The lines with a value for all of them that have one of the names; all else as it came.

    Where there is none, one with the first name comes behind the others.
    """
    wanted = frozenset(name.lower().encode() for name in names)
    if any(name.lower() in wanted for name, _ in headers):
        return tuple((name, value if name.lower() in wanted else old) for name, old in headers)
    return (*headers, (names[0].encode(), value))


def url(delivery: Delivery, public_url: str | None) -> bytes | None:
    """The URL that the provider called; None where nobody can tell.

    `public_url` says scheme, host and port, and a path or a query of its own stands in for the
    request's. Without it, it is what the request itself says: how the peer spoke to this listener,
    and `Host`. `X-Forwarded-*` are not asked: whoever sends them chooses what was signed.
    """
    if public_url is None:
        host = lines(delivery.headers, _HOST)
        if not host:
            return None
        return f"{delivery.scheme}://".encode() + host[b"host"] + _ascii(delivery.target)
    public = urlsplit(public_url)
    return _ascii(f"{public.scheme}://{public.netloc}{target(delivery, public_url)}")


def target(delivery: Delivery, public_url: str | None) -> str:
    """Path and query that the provider called."""
    public = urlsplit(public_url or "")
    path, mark, query = delivery.target.partition("?")
    if public.path not in ("", "/"):
        path = public.path
    if public.query:
        mark, query = "?", public.query
    return f"{path}{mark}{query}"


def _ascii(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_HOST = frozenset({b"host"})
