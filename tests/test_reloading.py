"""What a reload says: what changed, and only warnings that are news."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.config import Loaded, load
from gateway.reloading import Reloading
from tests.providers.publishers import ed_key, pem
from tests.rig.deadline import eventually

FILE = """\
store: {dsn: "postgresql://h/d"}
routes:
  - name: orders
    path: /hooks/orders
    upstream: {url: "http://127.0.0.1:3000"}
    mode: observe
    event_id: json:/event_id
    methods: [GET]
"""


class Reloaded:
    """A file that is changed, and what the log says of it."""

    def __init__(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        self._file = file
        self._caplog = caplog
        self._file.write_text(FILE)
        self.reloading = Reloading(self._read(), reread=self._read, use=self._use, told=print)

    def _read(self) -> Loaded:
        return load(self._file, env={}, flags={})

    async def _use(self, loaded: Loaded) -> None:
        pass

    async def to(self, text: str) -> tuple[list[str], list[str]]:
        """Changes and warnings."""
        self._caplog.clear()
        self._file.write_text(text)
        self.reloading.ask()

        def lines(event: str) -> list[dict[str, object]]:
            return [vars(line) for line in self._caplog.records if line.message == event]

        await eventually(lambda: lines("config_reloaded"), within=10)
        (reloaded,) = lines("config_reloaded")
        changes = reloaded["changes"]
        assert isinstance(changes, list)
        return changes, [str(line["detail"]) for line in lines("config_warning")]


@pytest.fixture
async def reloaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Reloaded]:
    caplog.set_level(logging.INFO, "gateway")
    made = Reloaded(tmp_path / "gateway.yaml", caplog)
    watching = asyncio.ensure_future(made.reloading.watch())
    yield made
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_reload_says_what_changed(reloaded: Reloaded) -> None:
    assert (await reloaded.to(FILE))[0] == []
    forward = FILE.replace("observe", "forward")
    assert (await reloaded.to(forward))[0] == ["orders: observe -> forward"]
    moved = forward.replace("/hooks", "/in") + "drain_delay: 1s\n"
    assert (await reloaded.to(moved))[0] == ["orders: changed", "drain_delay"]
    keyed = moved.replace("methods:", "operation_key: json:/order\n    methods:")
    assert keyed != moved
    key = "orders: another key, so events known by the old one count as new"
    assert (await reloaded.to(keyed))[0] == ["orders: changed", key]
    await reloaded.to(moved)
    renamed = moved.replace("name: orders", "name: shop")
    assert (await reloaded.to(renamed))[0] == ["orders: removed", "shop: added"]


async def test_a_reload_says_which_key_file_has_another_content(
    reloaded: Reloaded, tmp_path: Path
) -> None:
    key = tmp_path / "partner.pem"
    key.write_bytes(pem(ed_key("one")))
    signed = FILE + "    signature: {scheme: discord, keys: partner.pem}\n"
    assert (await reloaded.to(signed))[0] == ["orders: changed"]
    key.write_bytes(pem(ed_key("two")))
    assert (await reloaded.to(signed))[0] == [f"{key}: other content"]
    assert (await reloaded.to(f"# one line further down\n{signed}"))[0] == []


async def test_a_reload_warns_of_nothing_that_was_said_before(reloaded: Reloaded) -> None:
    said = "# one line further down\n" + FILE
    assert (await reloaded.to(said))[1] == []
    changes, warnings = await reloaded.to(said + "trusted_proxies: [0.0.0.0/0]\n")
    assert changes == ["trusted_proxies"]
    assert len(warnings) == 1
    assert "trusted_proxies" in warnings[0]
