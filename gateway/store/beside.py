"""Beside a running gateway: the way into the embedded Postgres that it runs."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from gateway.store.cluster import Layout
from gateway.store.embedded import default_data_dir
from gateway.store.programs import EmbeddedError

_SOCKET = ".s.PGSQL.5432"


def running(data: Path | None) -> str:
    """The DSN of the embedded server on `data`, or on the usual place.

    Raises EmbeddedError when there is none, or when it is closed to us.
    """
    layout = Layout((data or default_data_dir()).resolve())
    try:
        sockets = layout.cluster
        if layout.socket_link.is_symlink():
            sockets = layout.socket_link.readlink()
        os.stat(sockets / _SOCKET)
    except PermissionError as error:
        raise EmbeddedError(
            f"{error.filename} is closed to us:"
            " run this as root, or as the user that runs the gateway"
        ) from error
    except OSError as error:
        raise EmbeddedError(
            f"the embedded store in {layout.data} is not running: it runs while `dedup-gateway"
            " serve` does, so start that first, and run this beside it on the same machine"
        ) from error
    return f"postgresql://postgres@/postgres?host={quote(str(sockets))}"
