"""The dashboard asks what can be asked, of metrics that a gateway has."""

from __future__ import annotations

import json
from typing import Any

import promql_parser
import pytest

from scripts import dashboard
from tests.rules.scrape import Scraped
from tests.rules.test_rules_text import exposed, metrics

# A real Prometheus is asked all of them in tests/e2e/test_rules.py.
PANELS: list[dict[str, Any]] = [
    panel
    for panel in json.loads(dashboard.FILE.read_text("utf-8"))["panels"]
    if panel["type"] != "row"
]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def filled(expr: str) -> str:
    """As Grafana sends it, with all routes chosen."""
    return expr.replace("$__rate_interval", "1m").replace("$route", ".*")


def test_the_file_in_deploy_is_what_the_script_makes() -> None:
    assert dashboard.FILE.read_text("utf-8") == dashboard.text()


@pytest.mark.parametrize(("title", "expr"), QUERIES)
def test_a_query_is_one_and_names_metrics_that_exist(
    title: str, expr: str, scraped: Scraped
) -> None:
    promql_parser.parse(filled(expr))
    named = metrics(expr)
    assert named
    assert named <= exposed(scraped)


def test_no_panel_lies_upon_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(dashboard.text())["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < dashboard.COLUMNS
        assert not cells & taken
        taken |= cells
