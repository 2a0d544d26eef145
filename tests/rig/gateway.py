"""The gateway as an operator runs it: a process, a file, signals, its log and its metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.rig import sender
from tests.rig.deadline import eventually

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "gateway")


class Samples:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all samples of that name whose labels include these; 0 without any."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def has(self, name: str) -> bool:
        return any(sample.name == name for sample in self.samples)

    def labels(self, name: str) -> list[dict[str, str]]:
        return [sample.labels for sample in self.samples if sample.name == name]

    def since(self, before: Samples, name: str, **labels: str) -> float:
        return self.total(name, **labels) - before.total(name, **labels)


class Gateway:
    """One process. `directory` keeps its file and its log."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        *,
        env: Mapping[str, str] | None = None,
        failpoint: str | None = None,
        command: Sequence[str] = COMMAND,
        arguments: Sequence[str] | None = None,
    ) -> None:
        """`arguments`: instead of `serve` with the file."""
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "gateway.yaml"
        self.log_file = directory / "gateway.log"
        self.command = [*command, *(arguments or ("serve", "--config", str(self.file)))]
        self.write(settings)
        self.env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        self.env |= dict(env or {})
        if failpoint is not None:
            self.env["DEDUP_FAILPOINT"] = failpoint
        self.process: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self._seen: dict[str, sender.Address] = {}

    def write(self, settings: Mapping[str, Any]) -> None:
        """Replaces the file in one step, as a ConfigMap does."""
        self.settings = dict(settings)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(self.settings, sort_keys=False, allow_unicode=True))
        fresh.replace(self.file)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def address(self) -> sender.Address:
        """Where it takes deliveries."""
        return self._listening("deliveries")

    @property
    def admin(self) -> sender.Address:
        return self._listening("admin")

    def launch(self) -> None:
        """Starts the process and does not wait for it."""
        self._log_from = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._seen = {}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                cwd=ROOT,
            )

    async def start(self, *, ready: bool = True) -> Gateway:
        """Starts it and waits until it is ready, or only until it listens."""
        self.launch()
        # an embedded store may be made first: 1.5 s on a quiet machine, 30 s seen on a busy one
        await eventually(self._is_up, within=60, what="listening")
        if ready:
            await self.ready()
        return self

    async def ready(self, *, within: float = 20) -> None:
        try:
            await eventually(self._is_well, within=within, what="ready, with a store")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    async def is_ready(self) -> bool:
        reply = await sender.attempt(self.admin, sender.request("/readyz", method="GET"), within=5)
        return reply is not None and reply.status == 200

    async def _is_well(self) -> bool:
        # A store that was away for less than five seconds leaves a gateway ready.
        reply = await sender.attempt(self.admin, sender.request("/readyz", method="GET"), within=5)
        return reply is not None and reply.status == 200 and json.loads(reply.body)["store"] == "up"

    async def get(self, path: str) -> sender.Reply:
        return await sender.send(self.admin, sender.request(path, method="GET"), within=10)

    async def scrape(self) -> Samples:
        reply = await self.get("/metrics")
        assert reply.status == 200, reply
        return Samples(reply.body.decode())

    async def counts(self, name: str, at_least: float = 1, **labels: str) -> None:
        """Waits until a sample, or the sum of several, is as large."""

        async def large() -> bool:
            return (await self.scrape()).total(name, **labels) >= at_least

        await eventually(large, within=20, what=f"{name}{labels} >= {at_least}")

    async def send(self, raw: bytes, *, within: float = 30.0) -> sender.Reply:
        return await sender.send(self.address, raw, within=within)

    async def decided(self, raw: bytes, *, within: float = 30.0) -> sender.Reply:
        """Sends as a provider does, again after each 503, until something else is said."""

        async def said() -> sender.Reply | None:
            reply = await self.send(raw, within=within)
            assert reply.status != 503 or reply.retry_after, reply
            return None if reply.status == 503 else reply

        return await eventually(said, within=within, what="something other than 503")

    async def attempt(self, raw: bytes, *, within: float = 30.0) -> sender.Reply | None:
        return await sender.attempt(self.address, raw, within=within)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> int:
        """kill -9; gives the exit code."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        return self.process.wait(10)

    async def died(self, *, within: float = 15) -> int:
        """Waits until the process has ended by itself; gives the exit code."""
        assert self.process is not None
        process = self.process
        await eventually(lambda: process.poll() is not None, within=within, what="process ended")
        assert process.returncode is not None
        return process.returncode

    async def paused(self, *, within: float = 15) -> None:
        """Waits until the process has stopped itself (SIGSTOP)."""
        stat = Path(f"/proc/{self.pid}/stat")
        await eventually(
            lambda: stat.read_text().rpartition(")")[2].split()[0] == "T",
            within=within,
            what="process stopped",
        )

    async def stop(self, *, within: float = 30) -> int:
        """SIGTERM, and waits for the end."""
        if self.process is None or self.process.poll() is not None:
            return 0 if self.process is None else int(self.process.returncode)
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return await self.died(within=within)

    async def end(self) -> None:
        """However it goes: nothing of it is left. For the end of a test."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines since the last start, as objects; those that are no JSON under `text`."""
        return [line for line in self._lines() if event is None or line.get("event") == event]

    async def logged(self, event: str, *, within: float = 10, **facts: Any) -> dict[str, Any]:
        """Waits for a line."""
        return await eventually(
            lambda: next((line for line in self.log(event) if facts.items() <= line.items()), None),
            within=within,
            what=f"log line {event} {facts}",
        )

    def rss(self) -> int:
        """Bytes of memory that the process has in use."""
        return self._status("VmRSS")

    def peak_rss(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError(name)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self.log_file.open("rb") as log:
            log.seek(self._log_from)
            raw = log.read()
        for line in raw.decode("utf-8", "replace").splitlines():
            try:
                parsed = json.loads(line)
            except ValueError:
                parsed = {"text": line}
            yield parsed if isinstance(parsed, dict) else {"text": line}

    def _is_up(self) -> bool:
        if not self.is_running:
            raise AssertionError(
                f"ended with {self.process and self.process.poll()}:\n{self.tail()}"
            )
        return {"deliveries", "admin"} <= {line["what"] for line in self.log("listening")}

    def tail(self) -> str:
        return "\n".join(str(line) for line in list(self._lines())[-20:])

    def _listening(self, what: str) -> sender.Address:
        if what not in self._seen:
            said = next(line for line in self.log("listening") if line["what"] == what)
            host, _, port = said["address"].rpartition(":")
            self._seen[what] = (host, int(port))
        return self._seen[what]


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=inherited | dict(env or {}),
        cwd=ROOT,
    )
