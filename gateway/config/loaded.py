"""The configuration as the program uses it: complete, valid, immutable."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from gateway.config.problems import Origin, Path, Problem
from gateway.config.route_settings import RouteSettings
from gateway.core.headers import Networks
from gateway.core.route import Route


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Paths of PEM files."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to take requests on. Port 0 is any free one."""

    host: str
    port: int
    tls: ServerTls | None


@dataclass(frozen=True, slots=True, repr=False)
class Dsn:
    """A Postgres of the operator's. Never shows its password."""

    text: str

    def __str__(self) -> str:
        # By hand: urlsplit of newer Pythons refuses a second host that is an IPv6 address.
        scheme, _, rest = self.text.partition("://")
        who, _, behind = rest.rpartition("@")
        if re.search("[/?#]", who):
            return f"{scheme}://…"  # an unescaped / or ? in the password moved the rest
        user = f"{who.partition(':')[0]}@" if who else ""
        return f"{scheme}://{user}{re.split('[?#]', behind, maxsplit=1)[0]}"

    def __repr__(self) -> str:
        return f"Dsn({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A Postgres of the gateway's own."""

    path: FilePath | None
    """Its data; None leaves the place to the program."""
    user: str | None
    """The system user that runs it when we are root; None for the usual choice."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process holds at most."""

    connections: int
    body_memory: int
    """Bytes."""
    body_timeout: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that was configured, defaults included."""

    listen: tuple[Listen, ...]
    admin: Listen
    store: Dsn | Embedded
    keep_ids: bool
    trusted_proxies: Networks
    limits: Limits
    drain_delay: float
    """Seconds."""
    log_deliveries: bool
    routes: tuple[Route, ...]
    accepted_short_retention: Mapping[str, str]
    """Route names, and the reason that their user gave."""
    accepted_new_memory: Mapping[str, str]
    """The same for routes that recognise nothing of what they remember."""
    written: tuple[RouteSettings, ...] = field(repr=False)
    """What the routes were made of, in their order."""
    unknown_secrets: frozenset[str]
    """Names of routes whose signature's secrets are in variables that are absent here."""
    unknown_keys: Mapping[str, str]
    """Names of routes, and a setting of each that its keys are made by and that an absent variable
    would have said: another key than the gateway's comes of it."""
    unknown_numbers: Mapping[str, str]
    """The same for what alerting rules compare with."""
    hidden: Mapping[str, str] = field(repr=False)
    """What no report shows, and what it shows in its place."""
    notices: tuple[Problem, ...]
    """Allowed, but probably not meant."""
    shortfalls: tuple[Problem, ...]
    """Those of the notices that `check` counts as wrong."""
    origins: Mapping[Path, Origin] = field(repr=False)
    """Who set what; a setting that is absent has its default."""
    files: tuple[FilePath, ...]
    """All files that the configuration was made from, certificates included."""
    held: tuple[FilePath, ...]
    """The certificates and public keys among them."""
    digest: tuple[bytes, ...]
    """Of their contents at the time, as `fingerprint` makes it."""

    @property
    def providers(self) -> Mapping[str, str]:
        """Route names, and the presets that they name."""
        return {one.name: one.provider for one in self.written if one.provider is not None}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices, one line each."""
        return tuple(str(notice) for notice in self.notices)

    def source_of(self, *path: str | int) -> str:
        """Who set a value: `gateway.yaml line 12`, `environment DEDUP__…`, `default`."""
        origin = self.origins.get(path)
        if origin is None:
            return "default"
        return origin.source if origin.line is None else f"{origin.source} line {origin.line}"


def changed(old: Loaded, new: Loaded) -> list[str]:
    """The settings that differ and are read only at start."""
    pairs = {
        "listen": (old.listen, new.listen),
        "admin": (old.admin, new.admin),
        "store": ((old.store, old.keep_ids), (new.store, new.keep_ids)),
        "limits": (old.limits, new.limits),
        "log_deliveries": (old.log_deliveries, new.log_deliveries),
    }
    return [name for name, (before, after) in pairs.items() if before != after]


def fingerprint(files: Iterable[FilePath]) -> tuple[bytes, ...]:
    """16 bytes for each of the files, which change when its content does.

    A file that cannot be read counts as empty: whoever loads it next says why.
    """
    return tuple(hashlib.blake2b(_content(file), digest_size=16).digest() for file in files)


def _content(file: FilePath) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
