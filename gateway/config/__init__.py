"""Configuration: what a user writes, checked completely, and what the program makes of it.

The way of a value: YAML with its lines (`yaml_lines`), variables expanded (`expansion`),
environment and flags laid over it (`layers`), each value read (`settings`, `kinds`) and compared
with the others (`relations`), and the core's routes with all defaults resolved (`routes`). Whatever goes wrong on
the way is collected with its place, and reported all at once.
"""

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
from gateway.config.loading import load, quick
from gateway.config.problems import ConfigError, Problem

__all__ = [
    "ConfigError",
    "Dsn",
    "Embedded",
    "Limits",
    "Listen",
    "Loaded",
    "Problem",
    "ServerTls",
    "changed",
    "fingerprint",
    "load",
    "quick",
]
