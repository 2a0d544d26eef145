"""Assembly: what was written becomes one valid configuration, or all the mistakes in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path as FilePath

from pydantic import ValidationError

from gateway.config import (
    advice,
    confidential,
    custody,
    identity,
    relations,
    routes,
    senders,
    signing,
    wording,
    yaml_lines,
)
from gateway.config.document import Document
from gateway.config.expansion import Expansion
from gateway.config.hiding import hide_in
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
from gateway.config.preset_layer import lay_presets
from gateway.config.problems import ConfigError, Fault, Path, Problem, dotted
from gateway.config.route_settings import RouteSettings
from gateway.config.settings import ListenSettings, Settings, StoreSettings
from gateway.core.route import Route

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
# What keys of events are made by.
_MADE_BY = frozenset({"batch", "event_id", "name", "operation_key", "provider", "scope"})
# What alerting rules compare with.
_RULED_BY = frozenset(
    {"high_water", "mode", "name", "own_replay", "promise", "provider", "retention", "retry"}
)


@dataclass(slots=True)
class Assembly:
    """One configuration under construction."""

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
        lay_presets(self.document)
        settings = self._validated()
        if settings is None:
            raise ConfigError(self._sorted())
        self._note(relations.faults(settings, self.document, self.folder))
        built = tuple(routes.build(one, self.folder) for one in settings.routes)
        for here, one, route in _numbered(settings, built):
            self._look_at(settings, one, route, here, today)
        if self.problems:
            raise ConfigError(self._sorted())
        return self._loaded(settings, built, today)

    def _look_at(
        self, settings: Settings, one: RouteSettings, route: Route, here: Path, today: date
    ) -> None:
        """Note what is wrong inside one route."""
        self._note(relations.route_faults(one, here, today))
        self._note(custody.faults(one, here, self._touched))
        if not self._touched((*here, "batch")):
            self._note(identity.faults(one, here))
        if not self._touched((*here, "signature")):
            self._note(signing.faults(one, route, here, self.document.stands_in))
        # What stands in for a wrong value must not be found wanting beside another.
        if not self._touched((*here, "upstream", "url")):
            self._note(relations.tls_faults(one, here))
        if not any(self._touched((*here, *tail)) for tail in _COMPARED):
            self._note(routes.span_faults(route, here))
        if not self._touched(("limits", "body_memory")):
            self._note(relations.memory_faults(one, here, settings.limits.body_memory))

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
            said = [
                *advice.faults(one, route, here, today),
                *identity.advice(one, here, keep_ids=settings.store.keep_ids),
                *signing.advice(one, route, here),
            ]
            notices += [self.document.problem(fault) for fault in said]
            if short := advice.short_retention(one, route, here):
                shortfalls.append(self.document.problem(short))
        held = (*self._certificates(settings, built), *_key_files(built))
        files = (*self.files, *held)
        unseen = confidential.hidden(self.document, settings)
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
            accepted_new_memory={
                one.name: one.accept_new_memory for one in settings.routes if one.accept_new_memory
            },
            written=settings.routes,
            unknown_secrets=frozenset(self._unknown_secrets(settings)),
            unknown_keys=dict(self._unknown(settings, _MADE_BY)),
            unknown_numbers=dict(self._unknown(settings, _RULED_BY)),
            hidden=unseen,
            notices=hide_in(tuple(notices), unseen),
            shortfalls=hide_in(tuple(shortfalls), unseen),
            origins=dict(self.document.origins),
            files=files,
            held=held,
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

    def _unknown_secrets(self, settings: Settings) -> Iterator[str]:
        for index, one in enumerate(settings.routes):
            path: Path = ("routes", index, "signature", "secrets")
            secrets = one.signature.secrets if one.signature is not None else ()
            if any(self.document.stands_in((*path, place)) for place in range(len(secrets))):
                yield one.name

    def _unknown(self, settings: Settings, names: frozenset[str]) -> Iterator[tuple[str, str]]:
        for path in self.document.unsaid:
            if path[0] == "routes" and len(path) > 2 and path[2] in names:
                yield settings.routes[int(path[1])].name, dotted(path[2:])

    def _certificates(self, settings: Settings, built: tuple[Route, ...]) -> list[FilePath]:
        ours = [one.tls for _, one in relations.listeners(settings) if one.tls]
        names = [str(self.folder / name) for tls in ours for name in (tls.cert, tls.key)]
        theirs = [route.upstream.tls for route in built]
        names += [name for tls in theirs for name in (tls.ca, tls.cert, tls.key) if name]
        return [FilePath(name) for name in dict.fromkeys(names)]


def _key_files(built: tuple[Route, ...]) -> list[FilePath]:
    signed = [route.signature.keys for route in built if route.signature is not None]
    files = [key for keys in signed for key in keys if not senders.is_url(key)]
    return [FilePath(name) for name in dict.fromkeys(files)]


def _unusable(path: FilePath, message: str) -> Problem:
    return Problem("", str(path), None, message, "")


def _numbered(
    settings: Settings, built: tuple[Route, ...]
) -> Iterator[tuple[Path, RouteSettings, Route]]:
    for index, (one, route) in enumerate(zip(settings.routes, built, strict=True)):
        yield ("routes", index), one, route
