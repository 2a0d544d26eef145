"""Which configuration a command line means, and what to write where it means none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from gateway.config import ConfigError, Dsn, Embedded, Loaded, Problem, load, load_store, quick
from gateway.config.layers import PREFIX

DEFAULT_FILE = Path("gateway.yaml")
NO_FILE = Problem("", str(DEFAULT_FILE), None, "is not in this folder", "write --config FILE")
_ONE_ROUTE = (
    "write --config FILE, or for one route without a file: "
    "dedup-gateway serve --upstream URL --path PATH --event-id WHERE, or --provider NAME"
)
_NO_FLAGS: Mapping[str, object] = {}


class Unusable(Exception):
    """Flags that do not go together; the message says what to write."""


def file(config: Path | None) -> Path | None:
    """The one that was named, else the folder's, if it is there."""
    if config is not None:
        return config
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def read(
    config: Path | None,
    flags: Mapping[str, object] = _NO_FLAGS,
    *,
    variables_required: bool = True,
    serving: bool = False,
) -> Loaded:
    """The file that was named, else the folder's, under environment and flags.

    `serving`: whether the command could do without a file. Raises ConfigError.
    """
    path = file(config)
    absent = replace(NO_FILE, remedy=_ONE_ROUTE) if serving else NO_FILE
    if path is None and not _environment():
        raise ConfigError([absent])
    try:
        return load(
            path,
            env=os.environ,
            flags=flags,
            variables_required=variables_required,
            today=date.today(),
        )
    except ConfigError as error:
        if path is not None:
            raise
        raise ConfigError([*error.problems, absent]) from None


def one_route(
    config: Path | None, given: Mapping[str, str | None], flags: Mapping[str, object]
) -> Loaded:
    """Without a file: `given` are upstream, path, and event_id or provider or both.

    Raises Unusable and ConfigError.
    """
    there = {name: value for name, value in given.items() if value is not None}
    if config is not None:
        others = _named(there)
        raise Unusable(f"--config does not go with {others}; leave out --config, or {others}")
    wanted = ["upstream", "path", "event_id"] if "provider" not in there else ["upstream", "path"]
    if missing := [name for name in wanted if name not in there]:
        needs = _named(missing) + (" or --provider" if "event_id" in missing else "")
        raise Unusable(
            f"without a file, serve needs {needs} beside {_named(there)}, as in "
            "--upstream http://127.0.0.1:3000 --path /hooks/orders --event-id json:/event_id"
        )
    loaded = quick(
        there["upstream"],
        there["path"],
        there.get("event_id"),
        provider=there.get("provider"),
        env=os.environ,
        flags=flags,
        today=date.today(),
    )
    if not DEFAULT_FILE.exists():
        return loaded
    message, remedy = "gateway.yaml in this folder is not read", "leave --upstream out to use it"
    unread = Problem("", "serve --upstream", None, message, remedy)
    return replace(loaded, notices=(*loaded.notices, unread))


def store(config: Path | None, remedy: str = NO_FILE.remedy) -> Dsn | Embedded:
    """The configured one. Raises ConfigError, with that `remedy` where nothing is configured."""
    path = file(config)
    if path is None and not _environment("STORE__"):
        raise ConfigError([replace(NO_FILE, remedy=remedy)])
    return load_store(path, env=os.environ)


def store_dsn(config: Path | None) -> str:
    """The configured store's. Raises Unusable and ConfigError."""
    found = store(config, "write --dsn postgresql://owner@host/database, or --config FILE")
    if isinstance(found, Embedded):
        raise Unusable("an embedded store is migrated by `serve`; write --dsn for another one")
    return found.text


def _environment(inside: str = "") -> bool:
    return any(name.startswith(f"{PREFIX}{inside}") for name in os.environ)


def _named(names: Iterable[str]) -> str:
    return " and ".join("--" + name.replace("_", "-") for name in names)
