"""Writes deploy/grafana/dashboard.json, as Grafana imports it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.panels import ROWS, Panel

FILE = Path(__file__).parents[1] / "deploy" / "grafana" / "dashboard.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
# Of the grid's 24 columns, and of its rows.
COLUMNS, HEIGHT = 24, 8


def text() -> str:
    """The whole file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def dashboard() -> dict[str, Any]:
    """What Grafana imports."""
    return {
        "title": "Dedup gateway",
        "uid": "dedup-gateway",
        "tags": ["dedup-gateway"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,  # one cross hair for all panels
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_SOURCES, _ROUTES]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), start=1)],
    }


_SOURCES = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
_ROUTES = {
    "name": "route",
    "label": "Route",
    "type": "query",
    "datasource": SOURCE,
    "query": "label_values(dedup_route_info, route)",
    "refresh": 2,  # whenever the time changes
    "sort": 1,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": ["All"], "value": ["$__all"]},
}


def _panels() -> Iterator[dict[str, Any]]:
    y = 0
    for title, panels in ROWS.items():
        yield {"type": "row", "title": title, "collapsed": False, "gridPos": _place(0, y, 24, 1)}
        y += 1
        across = 4 if len(panels) == 4 else min(len(panels), 3)
        for number, panel in enumerate(panels):
            width = COLUMNS // across
            at = _place(number % across * width, y + number // across * HEIGHT, width, HEIGHT)
            yield _panel(panel, at)
        y += -(-len(panels) // across) * HEIGHT


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel, at: dict[str, int]) -> dict[str, Any]:
    custom = {
        "fillOpacity": 30 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none"},
        "scaleDistribution": {"type": "log", "log": 10}
        if panel.logarithmic
        else {"type": "linear"},
        "showPoints": "never",
    }
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": at,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": [],
        },
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
