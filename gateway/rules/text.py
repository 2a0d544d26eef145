"""The rules as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from gateway.rules.deliveries import DELIVERIES
from gateway.rules.duplicates import DUPLICATES
from gateway.rules.inbox import INBOX
from gateway.rules.memory import MEMORY
from gateway.rules.process import PROCESS
from gateway.rules.rule import Alert, Recorded, Watched

DEFAULT_RUNBOOK = "deploy/runbook.md"
# What is recorded stands before what is made of it: a group is evaluated in order.
GROUPS: dict[str, Sequence[Alert | Recorded]] = {
    "dedup-memory": MEMORY,
    "dedup-duplicates": DUPLICATES,
    "dedup-deliveries": DELIVERIES,
    "dedup-inbox": INBOX,
    "dedup-process": PROCESS,
}
ALERTS = tuple(rule for group in GROUPS.values() for rule in group if isinstance(rule, Alert))


def rules(watched: Watched, runbook: str = DEFAULT_RUNBOOK) -> str:
    """A file of rules. `runbook`: where `deploy/runbook.md` is read, as an address."""
    groups = [
        {"name": name, "rules": list(_written(group, watched, runbook))}
        for name, group in GROUPS.items()
    ]
    return yaml.dump(
        {"groups": groups}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def _written(
    group: Sequence[Alert | Recorded], watched: Watched, runbook: str
) -> Iterator[dict[str, Any]]:
    for rule in group:
        expr = rule.expr(watched)
        if not expr:
            continue
        if isinstance(rule, Recorded):
            yield {"record": rule.name, "expr": expr}
        else:
            yield _alert(rule, expr, runbook)


def _alert(rule: Alert, expr: str, runbook: str) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": expr,
        "for": rule.lasts,
        "labels": {"severity": rule.severity.value},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": f"{runbook}#{rule.name.lower()}",
        },
    }


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines stay so."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
