"""A directory for things that are gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_room(within: Path | None = None) -> Iterator[Path]:
    """A new directory, removed at the end; `within` another place than the system's usual one.

    Others may pass through it (0711), because as root the embedded store runs as another user and
    has its place below. It is our own directory; nobody else's is opened.
    """
    room = Path(tempfile.mkdtemp(prefix="dedup-gateway-", dir=within))
    try:
        room.chmod(0o711)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
