"""Loading: file, environment and flags become one valid configuration, or all their mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path as FilePath

from gateway.config import (
    layers,
)
from gateway.config.assembly import Assembly
from gateway.config.document import Document
from gateway.config.loaded import (
    Dsn,
    Embedded,
    Loaded,
)
from gateway.config.problems import Fault, Origin
from gateway.providers.presets import preset

_CHOSEN = Origin("serve --upstream")
_NO_FLAGS: Mapping[str, object] = {}


def load(
    path: FilePath | None,
    *,
    env: Mapping[str, str],
    flags: Mapping[str, object] = _NO_FLAGS,
    variables_required: bool = True,
    today: date = date.max,
) -> Loaded:
    """The configuration in a file (or in none), under the environment's and the flags' settings.

    Relative file names in it start from the file's folder. `variables_required`: False has
    something stand in for absent variables, to check a file where its secrets are not. `today`: the
    day after which no promise can have been looked at.
    Raises ConfigError with every mistake.
    """
    name = "settings" if path is None else path.name
    loading = Assembly(Document(name), FilePath() if path is None else path.parent)
    if path is not None:
        loading.read(path)
    loading.expand(env, required=variables_required)
    loading.problems += layers.lay_environment(loading.document, env)
    loading.problems += layers.lay_flags(loading.document, flags)
    return loading.finish(today)


def quick(
    upstream_url: str,
    path: str,
    event_id: str | None,
    *,
    provider: str | None = None,
    env: Mapping[str, str],
    flags: Mapping[str, object] = _NO_FLAGS,
    today: date = date.max,
) -> Loaded:
    """One route without a file: what `serve --upstream URL --path P --event-id L` runs.

    Or with a `provider`, whose preset says where the id is. The store is embedded unless
    environment or flags name another. Raises ConfigError.
    """
    document = Document("command line")
    loading = Assembly(document, FilePath())
    loading.problems += layers.lay_environment(document, env)
    route = {"upstream": upstream_url, "path": path, "provider": provider, "event_id": event_id}
    loading.problems += layers.lay_flags(document, route)
    loading.problems += layers.lay_flags(document, flags)
    if not document.has(("routes", 0, "name")):
        document.put(("routes", 0, "name"), _name_for(path), _CHOSEN)
    if any(document.has(("store", kind)) for kind in ("dsn", "embedded")):
        return _warned(loading, loading.finish(today), *_unverified(document))
    document.put(("store", "embedded"), ".", _CHOSEN)
    loaded = loading.finish(today)
    embedded = Fault(
        ("store",),
        "an embedded Postgres on this machine, chosen because nothing names another",
        "write a file with store: before a second gateway runs, or each has a memory of its own",
    )
    loaded = replace(loaded, store=Embedded(path=None, user=None))
    return _warned(loading, loaded, embedded, *_unverified(document))


def _warned(loading: Assembly, loaded: Loaded, *faults: Fault) -> Loaded:
    notices = map(loading.document.problem, faults)
    return replace(loaded, notices=(*loaded.notices, *notices))


def _unverified(document: Document) -> Iterator[Fault]:
    """No flag has secrets, so a route of a provider looks safer here than it is."""
    name = document.text(("routes", 0, "provider"))
    if name is None or document.has(("routes", 0, "signature")) or preset(name).passes:
        return
    message = f"deliveries are not verified: a forged id blocks the real one of {name}"
    remedy = f"set {layers.PREFIX}ROUTES__0__SIGNATURE__SECRETS, or write a file with signature:"
    yield Fault(("routes", 0, "signature"), message, remedy)


def load_store(path: FilePath | None, *, env: Mapping[str, str]) -> Dsn | Embedded:
    """Where claims are kept; no other setting has to be there, nor a variable that it names.

    Raises ConfigError.
    """
    name = "settings" if path is None else path.name
    loading = Assembly(Document(name), FilePath() if path is None else path.parent)
    if path is not None:
        loading.read(path)
    root = loading.document.root
    loading.document.root = {"store": root["store"]} if "store" in root else {}
    loading.expand(env, required=True)
    mine = {name: env[name] for name in env if name.startswith(f"{layers.PREFIX}STORE__")}
    loading.problems += layers.lay_environment(loading.document, mine)
    whatever = {"upstream": "http://consumer.invalid", "path": "/", "event_id": "json:/id"}
    layers.lay_flags(loading.document, whatever)
    loading.document.put(("routes", 0, "name"), "any", _CHOSEN)
    return loading.finish(date.max).store


def _name_for(path: str) -> str:
    """A route's name made of its path: part of every key, so the same at each start."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")[:63] or "all"
