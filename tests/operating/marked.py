"""Lists of processed events, and a store that knows the routes of a file."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from gateway.config import load
from tests.operating.rows import Rows


def listed(path: Path, ids: Iterable[object], ago: float = 3600.0) -> str:
    """A CSV of them, all processed so many seconds ago."""
    at = datetime.fromtimestamp(time.time() - ago, UTC).isoformat()
    path.write_text("id,time\n" + "".join(f"{one},{at}\n" for one in ids))
    return str(path)


def rewritten(path: Path, old: str | None, new: str) -> None:
    """With that in place of it; or of everything."""
    path.write_text(new if old is None else path.read_text().replace(old, new))


async def serve(file: Path, rows: Rows) -> None:
    """As if a gateway had served its first route with this configuration."""
    (route, *_) = load(file, env={}, variables_required=False).routes
    await rows.sql.execute("update dedup.routes set recipe = $1 where name = 'orders'", route.print)
