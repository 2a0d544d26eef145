"""Loading: file, environment and flags become one valid configuration, or all their mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path as FilePath

from pydantic import ValidationError

from gateway.config import advice, custody, layers, relations, routes, wording, yaml_lines
from gateway.config.document import Document
from gateway.config.expansion import Expansion
from gateway.config.loaded import (
    Dsn,
    Embedded,
    Limits,
    Listen,
    Loaded,
    ServerTls,
    fingerprint,
)
from gateway.config.mending import mended
from gateway.config.problems import ConfigError, Fault, Origin, Path, Problem, dotted
from gateway.config.route_settings import RouteSettings
from gateway.config.settings import ListenSettings, Settings, StoreSettings
from gateway.core.route import Route

_CHOSEN = Origin("serve --upstream")
_COMPARED: tuple[Path, ...] = (
    ("lease",),
    ("upstream", "timeout"),
    ("upstream", "connect_timeout"),
    ("upstream", "slot_timeout"),
    ("retention",),
    ("promise",),
    ("own_replay",),
    ("mode",),
    ("probe",),
)
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
    loading = _Loading(Document(name), FilePath() if path is None else path.parent)
    if path is not None:
        loading.read(path)
    loading.expand(env, required=variables_required)
    loading.problems += layers.lay_environment(loading.document, env)
    loading.problems += layers.lay_flags(loading.document, flags)
    return loading.finish(today)


def quick(
    upstream_url: str,
    path: str,
    event_id: str,
    *,
    env: Mapping[str, str],
    flags: Mapping[str, object] = _NO_FLAGS,
    today: date = date.max,
) -> Loaded:
    """One route without a file: what `serve --upstream URL --path P --event-id L` runs.

    The store is embedded unless environment or flags name another. Raises ConfigError.
    """
    document = Document("command line")
    loading = _Loading(document, FilePath())
    loading.problems += layers.lay_environment(document, env)
    route = {"upstream": upstream_url, "path": path, "event_id": event_id}
    loading.problems += layers.lay_flags(document, route)
    loading.problems += layers.lay_flags(document, flags)
    if not document.has(("routes", 0, "name")):
        document.put(("routes", 0, "name"), _name_for(path), _CHOSEN)
    if any(document.has(("store", kind)) for kind in ("dsn", "embedded")):
        return loading.finish(today)
    document.put(("store", "embedded"), ".", _CHOSEN)
    loaded = loading.finish(today)
    warning = Fault(
        ("store",),
        "an embedded Postgres on this machine, chosen because nothing names another",
        "write a file with store: before a second gateway runs, or each has a memory of its own",
    )
    notice = loading.document.problem(warning)
    return replace(loaded, store=Embedded(path=None, user=None), notices=(*loaded.notices, notice))


def load_store(path: FilePath | None, *, env: Mapping[str, str]) -> Dsn | Embedded:
    """Where claims are kept; no other setting has to be there, nor a variable that it names.

    Raises ConfigError.
    """
    name = "settings" if path is None else path.name
    loading = _Loading(Document(name), FilePath() if path is None else path.parent)
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


@dataclass(slots=True)
class _Loading:
    document: Document
    folder: FilePath
    files: list[FilePath] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def read(self, path: FilePath) -> None:
        """Raises ConfigError when there is nothing to go on with."""
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            what = str(error.strerror).lower()
            raise ConfigError([_unusable(path, f"cannot be read: {what}")]) from None
        except UnicodeDecodeError:
            raise ConfigError([_unusable(path, "is not UTF-8; save it as plain UTF-8")]) from None
        self.document, problems = yaml_lines.read(text, path.name)
        if problems and not self.document.root:
            raise ConfigError(problems)
        self.problems += problems
        self.files.append(path)

    def expand(self, env: Mapping[str, str], *, required: bool) -> None:
        expansion = Expansion(env, self.folder, required)
        self._note(expansion.run(self.document))
        self.files += expansion.files

    def finish(self, today: date) -> Loaded:
        """Raises ConfigError with all that was found on the way."""
        settings = self._validated()
        if settings is None:
            raise ConfigError(self._sorted())
        self._note(relations.faults(settings, self.document, self.folder))
        built = tuple(routes.build(one, self.folder) for one in settings.routes)
        memory = settings.limits.body_memory
        for here, one, route in _numbered(settings, built):
            self._note(relations.route_faults(one, here, today))
            self._note(custody.faults(one, here, self._touched))
            self._note(routes.recipe_faults(one, route, here))
            # What stands in for a wrong value must not be found wanting beside another.
            if not self._touched((*here, "upstream", "url")):
                self._note(relations.tls_faults(one, here))
            if not any(self._touched((*here, *tail)) for tail in _COMPARED):
                self._note(routes.span_faults(route, here))
            if not self._touched(("limits", "body_memory")):
                self._note(relations.memory_faults(one, here, memory))
        if self.problems:
            raise ConfigError(self._sorted())
        return self._loaded(settings, built, today)

    def _validated(self) -> Settings | None:
        """The settings; with something in place of what is wrong, so that the rest is looked at."""
        try:
            return Settings.model_validate(self.document.root)
        except ValidationError as error:
            found = wording.faults(error, self.document)
        self._note(fault for fault in found if fault.path not in self.document.placeholders)
        self.document = mended(self.document, [fault.path for fault in found])
        try:
            return Settings.model_validate(self.document.root)
        except ValidationError:
            return None

    def _note(self, faults: Iterable[Fault]) -> None:
        known = {problem.path for problem in self.problems}
        for fault in faults:
            problem = self.document.problem(fault)
            # One mistake for each place: what follows from it would only hide it.
            if problem.path not in known:
                self.problems.append(problem)

    def _touched(self, path: Path) -> bool:
        """Whether something is wrong with the setting, inside it or around it."""
        mine = f"{dotted(path)}."
        found = [f"{one.path}." for one in self.problems]
        return any(one.startswith(mine) or mine.startswith(one) for one in found)

    def _sorted(self) -> list[Problem]:
        def place(one: Problem) -> tuple[bool, bool, int, str]:
            elsewhere = not one.where.startswith(self.document.name)
            return elsewhere, one.line is None, one.line or 0, one.where

        return sorted(self.problems, key=place)

    def _loaded(self, settings: Settings, built: tuple[Route, ...], today: date) -> Loaded:
        notices = [self.document.problem(fault) for fault in advice.process_faults(settings)]
        shortfalls = []
        for here, one, route in _numbered(settings, built):
            said = advice.faults(one, route, here, today)
            notices += [self.document.problem(fault) for fault in said]
            if short := advice.short_retention(one, route, here):
                shortfalls.append(self.document.problem(short))
        files = (*self.files, *self._certificates(settings, built))
        return Loaded(
            listen=tuple(self._listen(one) for one in settings.listen),
            admin=self._listen(settings.admin.listen),
            store=self._store(settings.store),
            keep_ids=settings.store.keep_ids,
            trusted_proxies=tuple(one for networks in settings.trusted_proxies for one in networks),
            limits=Limits(
                settings.limits.connections,
                settings.limits.body_memory,
                settings.limits.body_timeout.total_seconds(),
            ),
            drain_delay=settings.drain_delay.total_seconds(),
            log_deliveries=settings.log_deliveries,
            routes=built,
            accepted_short_retention={
                one.name: one.accept_short_retention
                for one in settings.routes
                if one.accept_short_retention
            },
            notices=tuple(notices),
            shortfalls=tuple(shortfalls),
            origins=dict(self.document.origins),
            files=files,
            digest=fingerprint(files),
        )

    def _listen(self, settings: ListenSettings) -> Listen:
        tls = settings.tls
        files = None
        if tls is not None:
            files = ServerTls(str(self.folder / tls.cert), str(self.folder / tls.key))
        return Listen(settings.address.host, settings.address.port, files)

    def _store(self, settings: StoreSettings) -> Dsn | Embedded:
        if settings.embedded is not None:
            return Embedded((self.folder / settings.embedded).absolute(), settings.user)
        assert settings.dsn is not None
        return Dsn(settings.dsn)

    def _certificates(self, settings: Settings, built: tuple[Route, ...]) -> list[FilePath]:
        ours = [one.tls for _, one in relations.listeners(settings) if one.tls]
        names = [str(self.folder / name) for tls in ours for name in (tls.cert, tls.key)]
        theirs = [route.upstream.tls for route in built]
        names += [name for tls in theirs for name in (tls.ca, tls.cert, tls.key) if name]
        return [FilePath(name) for name in dict.fromkeys(names)]


def _unusable(path: FilePath, message: str) -> Problem:
    return Problem("", str(path), None, message, "")


def _name_for(path: str) -> str:
    """A route's name made of its path: part of every key, so the same at each start."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")[:63] or "all"


def _numbered(
    settings: Settings, built: tuple[Route, ...]
) -> Iterator[tuple[Path, RouteSettings, Route]]:
    for index, (one, route) in enumerate(zip(settings.routes, built, strict=True)):
        yield ("routes", index), one, route
