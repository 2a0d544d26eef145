"""Alerting rules for Prometheus: each is described here once, for any installation and for one.

The rules of `deploy/prometheus/rules.yaml` know nothing of a configuration: what they compare with
is in the metrics. Those that are made from a file name its routes and have its numbers in them, so
they also notice a gateway that runs with another file. `deploy/runbook.md` has a section for each.
"""

from gateway.rules.rule import Watched
from gateway.rules.text import ALERTS, DEFAULT_RUNBOOK, rules

__all__ = ["ALERTS", "DEFAULT_RUNBOOK", "Watched", "rules"]
