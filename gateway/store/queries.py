"""Named statements: each question to Postgres is one statement in a `.sql` file, under a name.

A statement begins at its `-- name: x` line and ends at the next one. Remarks in between go to the
server too: whoever reads `pg_stat_activity` may want them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One question, under the name that logs and metrics know it by."""

    name: str
    sql: str


def read(file: str) -> dict[str, Statement]:
    """The statements of one file beside this module. Raises FileNotFoundError."""
    _, *parts = _NAME.split(files("gateway.store").joinpath(file).read_text("utf-8"))
    return {
        name: Statement(name, sql.strip().rstrip(";"))
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }
