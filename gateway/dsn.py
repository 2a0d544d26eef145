"""What makes a Postgres address unreadable, found before anybody tries to connect.

The driver reads parts of it only when it connects, some in a way that nobody meant: what follows an
unescaped `#` or `/` of a password is dropped, or becomes the host. Nothing here repeats a password.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

_MISPLACED = (
    "has @ # / ? or a bracket where none can be; "
    "percent-encode them in the password, as in %40 for @"
)
_HIGHEST_PORT = 65535
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PORT_BEHIND = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
# Where a bare @ can be meant.
_NAMES = ("user", "password", "application_name", "passfile")


def require_readable(dsn: str) -> None:
    """Raises ValueError: what is wrong, a semicolon, and what to write instead."""
    scheme, divider, rest = dsn.partition("://")
    if not divider or scheme not in ("postgresql", "postgres"):
        remedy = "write postgresql://user:password@host/database"
        raise ValueError(f"is not a Postgres URL, which begins with postgresql://; {remedy}")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    who, _, hosts = authority.partition("@") if "@" in authority else ("", "", authority)
    path, _, query = rest[len(authority) :].partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    if "#" in rest or "@" in hosts + path or not _usable(who) or _runs_on(query):
        raise ValueError(_MISPLACED)
    # What looks like a port may be the start of a password when an @ follows.
    shown = "@" not in query
    for host in (hosts or settings.get("host") or ":").split(","):
        _require_host(host, shown)
    for port in settings.get("port", "").split(","):
        _require_port(port, shown=True)
    _require_settings(settings)


def _usable(who: str) -> bool:
    if re.search(r"[\[\]]", who):
        return False
    try:
        urlsplit(f"//{who}@host")  # refuses letters that count as / or @ once normalised
    except ValueError:
        return False
    return True


def _runs_on(query: str) -> bool:
    """Whether it is the end of a password that had a question mark."""
    parts = (part.partition("=") for part in query.split("&"))
    return any("@" in name or ("@" in text and name not in _NAMES) for name, _, text in parts)


def _require_host(host: str, shown: bool) -> None:
    if not host:
        raise ValueError("has a host without a name; write host1,host2 without a comma too many")
    if host.startswith(("/", "%2F", "%2f")):
        return  # a folder with a socket
    found = _PORT_BEHIND.fullmatch(host)
    if not found:
        raise ValueError("has a host that cannot be read; write a name, or [::1] for IPv6")
    _require_port(found[2] or "", shown)


def _require_port(port: str, shown: bool) -> None:
    said = f"port {port!r}" if shown else "the port"
    if port and not re.fullmatch("[0-9]{1,9}", port):
        raise ValueError(f"{said} is not a number; write one, as in host:5432, or none")
    if port and not 1 <= int(port) <= _HIGHEST_PORT:
        raise ValueError(f"{said} does not exist; write one from 1 to {_HIGHEST_PORT}")


def _require_settings(settings: dict[str, str]) -> None:
    if not re.fullmatch("[0-9]{1,6}", settings.get("statement_cache_size", "0")):
        raise ValueError("statement_cache_size is not a number; write 0 behind a pooler, or none")
    if settings.get("sslmode", "disable") not in _SSL_MODES:
        raise ValueError(f"sslmode is none that there is; write one of {', '.join(_SSL_MODES)}")
