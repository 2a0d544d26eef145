"""Writes deploy/prometheus/rules.yaml: the rules for gateways of which no file is at hand."""

from __future__ import annotations

from pathlib import Path

from gateway.rules import Watched, rules

FILE = Path(__file__).parents[1] / "deploy" / "prometheus" / "rules.yaml"
HEAD = """\
# For any gateway: what a rule compares with is in the metrics. Load these, or those with your
# routes and numbers in them, not both:
#   dedup-gateway rules --config gateway.yaml --output dedup-gateway.rules.yaml
# Made by scripts/static_rules.py. deploy/runbook.md has a section for each.
"""


def text() -> str:
    """The whole file."""
    return HEAD + rules(Watched())


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
