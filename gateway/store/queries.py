"""Named statements: each question to Postgres is one statement in a `.sql` file, under a name.

A statement begins at its `-- name: x` line and ends at the next one. Remarks in between go to the
server too: whoever reads `pg_stat_activity` may want them.

A statement for many elements takes one array per column. Where few deliveries come, most of its
calls carry one element, and then the arrays are half of what it costs: so it has a form for one,
which is the same text with values where the arrays were unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_UNPACKED = re.compile(r"unnest\(((?:\$\d+::[\w\"]+\[\](?:,\s*)?)+)\)(\s+with ordinality)?")


@dataclass(frozen=True, slots=True)
class Statement:
    """One question, under the name that logs and metrics know it by."""

    name: str
    sql: str

    def for_one(self) -> Statement:
        """The form that takes values instead of arrays. Raises ValueError where there is none."""
        sql, count = _UNPACKED.subn(_values, self.sql)
        if count != 1:
            raise ValueError(f"{self.name} does not unpack arrays in one place")
        return Statement(self.name, sql)

    def turned(self, name: str) -> Statement:
        """The same from the other end of its order. Raises ValueError where it has none."""
        if " asc" not in self.sql:
            raise ValueError(f"{self.name} is in no order")
        return Statement(name, self.sql.replace(" asc", " desc"))


class ForMany:
    """A statement in both its forms."""

    def __init__(self, statement: Statement) -> None:
        self._many = statement
        self._one = statement.for_one()

    def fitting(self, *columns: Sequence[Any]) -> tuple[Statement, Sequence[Any]]:
        """The form for so many elements, and what it takes of them."""
        if len(columns[0]) > 1:
            return self._many, columns
        return self._one, [value for (value,) in columns]


def read(file: str) -> dict[str, Statement]:
    """The statements of one file beside this module. Raises FileNotFoundError."""
    return named(files("gateway.store").joinpath(file).read_text("utf-8"))


def named(text: str) -> dict[str, Statement]:
    """The statements of a text."""
    _, *parts = _NAME.split(text)
    return {
        name: Statement(name, sql.strip().rstrip(";"))
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def _values(match: re.Match[str]) -> str:
    values = match[1].replace("[]", "")
    return f"(values ({values}, 1))" if match[2] else f"(values ({values}))"
