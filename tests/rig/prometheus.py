"""A real Prometheus that scrapes gateways and evaluates rules every second."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.rig import debian, sender
from tests.rig.balancer import free_port
from tests.rig.deadline import eventually


class Prometheus:
    """`place` is for its files."""

    def __init__(self, place: Path, rules: Sequence[Path], targets: Sequence[sender.Address]):
        """Skips the test where there is none."""
        self._program = debian.path_of("prometheus")
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.address: sender.Address = ("127.0.0.1", free_port())
        named = [f"{host}:{port}" for host, port in targets]
        file = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": [str(one) for one in rules],
            "scrape_configs": [{"job_name": "any", "static_configs": [{"targets": named}]}],
        }
        (place / "prometheus.yaml").write_text(yaml.safe_dump(file))

    async def start(self) -> None:
        self._launch()
        await eventually(self._is_ready, within=20, what=f"Prometheus: {self.said()}")

    def _launch(self) -> None:
        host, port = self.address
        with (self._place / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={self._place / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={self._place / 'data'}",
                    f"--web.listen-address={host}:{port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(20)

    def said(self) -> str:
        log = self._place / "prometheus.log"
        return log.read_text()[-2000:] if log.exists() else ""

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """The vector that an expression gives now; of a number, that alone."""
        data = await self._get(f"/api/v1/query?query={quote(expr, safe='')}")
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        found: list[dict[str, Any]] = data["result"]
        return found

    async def firing(self) -> list[dict[str, Any]]:
        """The alerts that fire now, each with labels and annotations."""
        data = await self._get("/api/v1/alerts")
        return [alert for alert in data["alerts"] if alert["state"] == "firing"]

    async def _get(self, target: str) -> Any:
        reply = await sender.send(self.address, sender.request(target, method="GET"), within=20)
        said = json.loads(reply.body)
        assert said["status"] == "success", said
        return said["data"]

    async def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said()
        probe = sender.request("/-/ready", method="GET")
        reply = await sender.attempt(self.address, probe, within=2)
        return reply is not None and reply.status == 200
