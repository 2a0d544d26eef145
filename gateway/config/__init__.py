"""Configuration: what a user writes, checked completely, and what the program makes of it.

The way of a value: YAML with its lines (`yaml_lines`), variables expanded (`expansion`), the
environment and flags laid over it (`layers`), each value read (`settings`, `kinds`), all of them
compared (`relations`), and the core's routes with every default resolved (`routes`). What is wrong
on the way is collected with its place, and reported all at once.
"""

from gateway.config.hiding import hide_in
from gateway.config.json_schema import schema
from gateway.config.loaded import (
    Dsn,
    Embedded,
    Limits,
    Listen,
    Loaded,
    ServerTls,
    changed,
    fingerprint,
)
from gateway.config.loading import load, load_store, quick
from gateway.config.problems import ConfigError, Problem
from gateway.config.report import Findings, check
from gateway.config.sample import Sample, try_sample

__all__ = [
    "ConfigError",
    "Dsn",
    "Embedded",
    "Findings",
    "Limits",
    "Listen",
    "Loaded",
    "Problem",
    "Sample",
    "ServerTls",
    "changed",
    "check",
    "fingerprint",
    "hide_in",
    "load",
    "load_store",
    "quick",
    "schema",
    "try_sample",
]
