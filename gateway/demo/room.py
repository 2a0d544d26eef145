"""A directory for things that are gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_room() -> Iterator[Path]:
    """A new directory, removed at the end.

    Others may pass through it (0711), because as root the embedded store runs as another user and
    has its place below. It is our own directory; nobody else's is opened.
    """
    room = Path(tempfile.mkdtemp(prefix="dedup-gateway-"))
    try:
        room.chmod(0o711)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
