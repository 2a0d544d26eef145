"""A directory that Postgres may use, and servers on it that end with the test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.store.embedded import EmbeddedPostgres
from tests.store.embedded.neighbours import QUICK, Events, Make


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of ours that the user who runs Postgres can pass through.

    `store` in it is shared and found stopped by each test, because initdb takes a second.
    """
    made = Path(tempfile.mkdtemp(prefix="dedup-test-")).resolve()
    made.chmod(0o711)
    used = EmbeddedPostgres(made / "store", settings=QUICK, log=lambda *_, **__: None)
    used.start()
    used.stop()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def events() -> Events:
    """What was logged."""
    return []


@pytest.fixture
def server(place: Path, events: Events) -> Iterator[Make]:
    made: list[EmbeddedPostgres] = []

    def make(
        data: Path = place / "store",
        settings: Mapping[str, str] = QUICK,
        user: str | None = None,
    ) -> EmbeddedPostgres:
        def log(event: str, /, **facts: object) -> None:
            events.append((event, facts))

        made.append(EmbeddedPostgres(data, user=user, settings=settings, log=log))
        return made[-1]

    yield make
    for each in made:
        each.stop()
