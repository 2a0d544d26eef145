"""`promtool test rules` on series that were scraped, some of them changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.core.durations import parse_duration
from tests.rig import debian
from tests.rig.gateway import Samples
from tests.rules.cases import Case, Change, Labels

INSTANCES = ("gateway-0:8081", "gateway-1:8081")
# Since when the gateways run, in seconds before the test begins: none is young.
RUNNING = 30 * 86400
FIRING = 'count by (alertname, route, event_type, instance) (ALERTS{alertstate="firing"})'


class Promtool:
    """Debian's, with one file of rules and one scrape."""

    def __init__(self, place: Path, kind: str, rules: str, scraped: Samples) -> None:
        """Skips the test where there is none. `kind`: what the rules are for."""
        self.kind = kind
        self._program = debian.path_of("promtool")
        self._place = place
        self._scraped = scraped
        self._named = set(re.findall(r"\b(?:dedup|process)_\w+", rules))
        self._rules = rules
        (place / "rules.yaml").write_text(rules)

    def check(self) -> str:
        """What it says of the file. Raises AssertionError where it finds fault."""
        return self._run("check", "rules", str(self._place / "rules.yaml"))

    def plays(self, case: Case) -> None:
        """Raises AssertionError unless its alert fires when it should, and no other ever does."""
        alerts = [case.labels] if case.only in (None, self.kind) else []
        expected = {at: alerts for at in case.fires} | {at: [] for at in case.silent}
        steps = max(_seconds(at) for at in expected) // _seconds(case.every)
        tests = [
            {"expr": FIRING, "eval_time": at, "exp_samples": [_sample(one) for one in found]}
            for at, found in expected.items()
        ]
        said = self._tested(
            case.every,
            {"input_series": self._series(case, steps), "promql_expr_test": tests},
        )
        assert said.returncode == 0, said.stdout + said.stderr
        assert "SUCCESS" in said.stdout

    def says(self, labels: Labels) -> dict[str, list[str]]:
        """What each alert says once it fires. All of them have to fire for `up` at once.

        promtool shows them where it expected none.
        """
        names = re.findall(r"alert: (\w+)", (self._place / "rules.yaml").read_text())
        test = {
            "input_series": [{"series": _written("up", labels), "values": "1x5"}],
            "alert_rule_test": [
                {"alertname": name, "eval_time": "1m", "exp_alerts": []} for name in names
            ],
        }
        said = self._tested("1m", test).stderr
        found = re.findall(r'Labels:\{alertname="(\w+)".*\n\s+Annotations:\{(.*)\}', said)
        return {name: re.findall(r'="((?:[^"\\]|\\.)*)"', texts) for name, texts in found}

    def _series(self, case: Case, steps: int) -> list[dict[str, str]]:
        return [
            {"series": _written(name, labels), "values": values.format(steps=steps)}
            for name, labels, values in self._all(case)
        ]

    def _all(self, case: Case) -> Iterator[tuple[str, Labels, str]]:
        self._scraped_are(case.changes)
        added = [(one.series, one.labels, one.values) for one in case.changes if one.is_new]
        for name, scraped, value in (*self._base(case.every), *added):
            for instance in INSTANCES:
                labels = {"instance": instance, "job": "dedup", **scraped}
                found = [one for one in case.changes if one.concerns(name, labels)]
                values = found[-1].values if found else value
                yield name, labels, values if isinstance(values, str) else _lasting(values)

    def _scraped_are(self, changes: Sequence[Change]) -> None:
        """Raises AssertionError where a gateway has no series that a test would change."""
        for one in changes:
            labels = {name: value for name, value in one.labels.items() if name != "instance"}
            there = one.is_new or one.series == "up"
            assert there or any(
                one.series == sample.name and labels.items() <= sample.labels.items()
                for sample in self._scraped.samples
            ), f"the gateway has no such series: {one}"

    def _base(self, every: str) -> Iterator[tuple[str, Labels, str | float]]:
        """All that the rules look at. For promtool every test begins in 1970."""
        yield "up", {}, 1.0
        now = time.time()
        for sample in self._scraped.samples:
            if sample.name == "process_start_time_seconds":
                yield sample.name, sample.labels, -RUNNING
            elif sample.name == "dedup_purge_last_success_timestamp_seconds":
                yield sample.name, sample.labels, _lasting(sample.value - now, _seconds(every))
            elif sample.name.endswith("_timestamp_seconds"):
                yield sample.name, sample.labels, sample.value - now
            elif sample.name in self._named and sample.labels.get("reason", "") in self._rules:
                yield sample.name, sample.labels, sample.value

    def _tested(self, every: str, test: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        tests = {
            "rule_files": ["rules.yaml"],
            "evaluation_interval": every,
            "tests": [{"interval": every, **test}],
        }
        file = self._place / "test.yaml"
        file.write_text(json.dumps(tests))  # which is YAML too
        return self._ended("test", "rules", str(file))

    def _run(self, *arguments: str) -> str:
        said = self._ended(*arguments)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout

    def _ended(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "GOGC": "400"},  # it ends before collecting garbage pays
        )


def _lasting(value: float, step: float = 0) -> str:
    return f"{value:.17g}+{step:g}x{{steps}}"


def _sample(labels: Labels) -> dict[str, Any]:
    return {"labels": _written("", labels), "value": 1}


def _seconds(span: str) -> int:
    return int(parse_duration(span).total_seconds())


def _written(name: str, labels: Labels) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inside}}}"
