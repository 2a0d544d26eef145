"""Commands beside a gateway that runs its own Postgres."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.store import beside
from gateway.store.embedded import EmbeddedError, EmbeddedPostgres
from gateway.store.migrate import migrate
from tests.operating.lines import refused, run, told


@pytest.fixture
def place() -> Iterator[Path]:
    """As root, Postgres runs as another user, who has to pass here."""
    directory = Path(tempfile.mkdtemp(prefix="dedup-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.parametrize("name", ["data", "a,b"], ids=["socket in it", "socket elsewhere"])
async def test_a_command_finds_the_embedded_store_of_a_running_gateway(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("DEDUP__STORE__EMBEDDED", str(place / name))
    line = ("inbox", "list")
    said = await refused(*line, code=3)
    assert f"the embedded store in {place / name} is not running" in said
    assert "start that first" in said
    settings = {"fsync": "off"}
    with EmbeddedPostgres(place / name, settings=settings, log=lambda *_, **__: None) as server:
        assert beside.running(place / name) == server.dsn
        assert "dedup-gateway migrate" in await refused(*line, code=2)
        await migrate(server.dsn)
        assert (await run(*line)).stdout == "no entries\n"
        assert (await told(*line))["matching"] == 0
    assert "is not running" in await refused(*line, code=3)


def test_a_folder_that_is_closed_to_us_says_who_may(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("gateway.store.beside.os", SimpleNamespace(stat=closed))
    with pytest.raises(EmbeddedError, match="run this as root, or as the user that runs"):
        beside.running(place)
