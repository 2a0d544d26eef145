"""Addresses: where to listen, whom to trust, what a route is for and where its consumer is.

Each function reads one text, or raises ValueError as a kind does (see `kinds`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from urllib.parse import urlsplit

from gateway.core.headers import Networks

_PORT = re.compile(r"[0-9]{1,5}")
_HIGHEST_PORT = 65535
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
_VISIBLE = re.compile(r"[!-~]*")
_BEFORE_TARGET = re.compile(r"[a-z]+://[^/?#]*")
# What a probe's URL has in place of the event's id.
ID_HERE = "{event_id}"
_PROBE = f"http://127.0.0.1:3000/known?id={ID_HERE}"
# What frameworks and other proxies use for "anything here".
_WILDCARD = re.compile(r"[*{}<>]")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Url:
    """A consumer's address."""

    scheme: str
    host: str
    """An IPv6 address without brackets."""
    port: int
    path: str | None
    """None where the URL has no path, or a lone slash."""


@dataclass(frozen=True, slots=True)
class ProbeUrl:
    """Where a consumer says whether it knows an event."""

    scheme: str
    host: str
    """An IPv6 address without brackets."""
    port: int
    target: str
    """Raw path and query, with `{event_id}` once in it."""


def address(said: str) -> Address:
    """`0.0.0.0:8080`, `[::1]:8080`; port 0 is any free one."""
    place, colon, port = said.rpartition(":")
    if colon and re.fullmatch("[0-9]+", port):
        _port_exists(port, said)
    if not colon or not _PORT.fullmatch(port):
        raise ValueError(f"{said!r} is not an address with a port; write it as in 127.0.0.1:8080")
    if not place or (":" in place and not place.startswith("[")):
        raise ValueError(f"{said!r} is not a host and a port; write 0.0.0.0:{port} or [::]:{port}")
    return Address(place.strip("[]"), int(port))


def network(said: str) -> Networks:
    """`10.0.0.0/8`, `192.0.2.7`."""
    try:
        return (ip_network(said),)
    except ValueError:
        pass
    try:
        meant = ip_network(said, strict=False)
    except ValueError:
        raise ValueError(f"{said!r} is not a network; write it as in 10.0.0.0/8") from None
    raise ValueError(f"{said!r} has bits beyond its prefix; write {meant}")


def host(said: str) -> str:
    """A name to compare with a Host header: lower case, no port."""
    said = said.lower().removesuffix(".")
    bare = _without_surroundings(said)
    if "*" in said:
        raise ValueError(f"{said!r} has a wildcard; write each name, or no hosts for any")
    if bare != said:
        shown = bare if _HOST.fullmatch(bare) else "hooks.example.com"
        raise ValueError(
            f"{redacted(said)!r} is more than a name; write the bare name, as in {shown}"
        )
    if not _HOST.fullmatch(said):
        raise ValueError(f"{said!r} is not a host name; write it as in hooks.example.com")
    return said


def path(said: str) -> str:
    """A route's path in raw form; `/` takes everything and becomes the empty text."""
    if not said.startswith("/"):
        raise ValueError(f"{said!r} does not start with a slash; write /{said}")
    if "?" in said or "#" in said:
        raise ValueError(f"{said!r} has a query or a fragment; write the path alone")
    if _WILDCARD.search(said):
        above = _WILDCARD.split(said)[0].rpartition("/")[0] or "/"
        raise ValueError(
            f"{said!r} has a wildcard, and a path has none; write {above}, which takes itself and "
            "what is below it"
        )
    if not _VISIBLE.fullmatch(said):
        raise ValueError(f"{said!r} has characters that no target has; percent-encode them")
    _without_dots(said, said)
    if said != "/" and said.endswith("/"):
        raise ValueError(f"{said!r} ends with a slash; write {said.rstrip('/') or '/'}")
    return "" if said == "/" else said


def url(said: str) -> Url:
    """`http://127.0.0.1:3000`, `https://billing.internal/base`."""
    scheme, divider, rest = said.partition("://")
    if not divider or scheme not in ("http", "https"):
        raise ValueError(f"{redacted(said)!r} is not an http or https URL; write http://HOST:PORT")
    if "@" in rest.partition("/")[0]:
        raise ValueError("has a user name or password in it; write the URL without them")
    if "?" in rest or "#" in rest:
        raise ValueError("has a query or a fragment; write the URL without, the sender's follows")
    _require_url_characters(said)
    if behind := re.search(r":([0-9]+)(/|$)", rest):
        _port_exists(behind[1], said)
    try:
        parts = urlsplit(said)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"{said!r} has no usable host and port; write http://HOST:PORT") from None
    written = f"[{name}]" if ":" in name else name
    if not _HOST.fullmatch(written) or port == 0:
        raise ValueError(f"{said!r} has no usable host and port; write http://HOST:PORT")
    _without_dots(parts.path, said)
    usual = 443 if scheme == "https" else 80
    return Url(
        scheme, name, usual if port is None else port, parts.path if parts.path.strip("/") else None
    )


def probe_url(said: str) -> ProbeUrl:
    """`http://127.0.0.1:3000/known?id={event_id}`: a path or query with the id's place in it."""
    before = _BEFORE_TARGET.match(said)
    base = url(said if before is None else before[0])
    target = said[before.end() :] if before else ""
    shown = redacted(said)
    if "#" in target:
        raise ValueError(f"{shown!r} has a fragment, which is never sent; write the URL without")
    if target.count(ID_HERE) != 1:
        often = f"more than one {ID_HERE}" if ID_HERE in target else f"no {ID_HERE} behind the host"
        raise ValueError(f"{shown!r} has {often}; write it once, as in {_PROBE}")
    if re.search("[{}<>]", target.replace(ID_HERE, "")):
        message = f"has braces or angle brackets, and only {ID_HERE} is put in"
        raise ValueError(f"{shown!r} {message}; write the URL that is really meant, as in {_PROBE}")
    if not _VISIBLE.fullmatch(target):
        raise ValueError(f"{shown!r} has characters that no URL has; percent-encode them")
    _without_dots(target.partition("?")[0], shown)
    return ProbeUrl(
        base.scheme, base.host, base.port, target if target.startswith("/") else f"/{target}"
    )


def authority(said: str) -> str:
    """A Host header's value: a name, perhaps with a port."""
    name, colon, port = said.rpartition(":")
    bare = name if colon and _PORT.fullmatch(port) else said
    if not _HOST.fullmatch(bare.lower()):
        raise ValueError(f"{said!r} is not a host; write preserve, upstream, or a name")
    return said


def _require_url_characters(said: str) -> None:
    if re.search("[{}<>]", said):
        message = "has braces or angle brackets, which nothing is put in place of"
        raise ValueError(f"{said!r} {message}; write the URL that is really meant")
    if not _VISIBLE.fullmatch(said):
        raise ValueError(f"{said!r} has characters that no URL has; percent-encode them")


def _without_surroundings(said: str) -> str:
    """The name in something that may be a URL."""
    authority = re.split("[/?#]", re.sub("^([a-z]+:)?//", "", said), maxsplit=1)[0]
    place = authority.rpartition("@")[2]
    return place.partition("]")[0] + "]" if place.startswith("[") else place.partition(":")[0]


def _port_exists(port: str, said: str) -> None:
    if int(port[:9]) > _HIGHEST_PORT:
        raise ValueError(f"{said!r} has a port above {_HIGHEST_PORT}; write one up to that")


def _without_dots(path: str, said: str) -> None:
    if any(step in (".", "..") for step in path.split("/")):
        raise ValueError(f"{said!r} has . or .. in it; write the path that is really meant")


def redacted(said: str) -> str:
    """An address without the user name and password in it."""
    # People paste URLs with passwords into the wrong place, and mistakes end up in logs.
    return re.sub(r"//[^/]*@", "//***@", said)
