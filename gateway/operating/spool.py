"""A spool: rows that are too many for memory, on disk until they are wanted.

What is slow, somebody's file at one end and somebody's terminal at the other, is then no part of a
transaction at the store. An open one keeps Postgres from clearing away dead versions of every row.
"""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

from gateway.failures import sentence
from gateway.sources import Unusable

Row = TypeVar("Row", bound=tuple[Any, ...])


class Spool(Generic[Row]):
    """Written first, then read as often as one likes. Gone when it is left."""

    def __init__(self, row: Callable[..., Row]) -> None:
        """`row`: a NamedTuple of texts, bytes and numbers. Raises Unusable."""
        self._row = row
        self._rows = 0
        try:
            self._file = tempfile.TemporaryFile(prefix="dedup-gateway-")  # noqa: SIM115
        except OSError as error:
            raise _unusable(error) from None

    def append(self, row: Row) -> None:
        """Raises Unusable, with the place's own reason."""
        try:
            marshal.dump(tuple(row), self._file)
        except OSError as error:
            raise _unusable(error) from None
        self._rows += 1

    def __iter__(self) -> Iterator[Row]:
        """Raises Unusable."""
        try:
            self._file.seek(0)  # writes what is left
        except OSError as error:
            raise _unusable(error) from None
        for _ in range(self._rows):
            yield self._row(*marshal.load(self._file))

    def __enter__(self) -> Spool[Row]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # of what could not be written, which was told before
            self._file.close()


def _unusable(error: OSError) -> Unusable:
    return Unusable(f"what is compared is kept on disk meanwhile, in TMPDIR: {sentence(error)}")
