"""Configuration files as tests need them: short spans, one consumer, fresh ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]

# slot + connect + upstream time-out + 5 s is the least lease, so the first three are small.
SHORT_UPSTREAM = {"timeout": "4s", "connect_timeout": "500ms", "slot_timeout": "500ms"}


def route(
    name: str,
    port: int,
    *,
    path: str | None = None,
    upstream: Mapping[str, Any] | None = None,
    **more: Any,
) -> Settings:
    """A route to a consumer on a local port. An argument of None leaves a setting out."""
    settings: Settings = {
        "name": name,
        "path": path or f"/hooks/{name}",
        "upstream": {"url": f"http://127.0.0.1:{port}", **SHORT_UPSTREAM, **(upstream or {})},
        "event_id": "json:/event_id",
        "promise": {
            "timeout": "3s",
            "retry_horizon": "3d",
            "redrive_window": "30d",
            "source": "https://provider.example/docs",
            "checked": "2026-08-25",
        },
        **more,
    }
    return {key: value for key, value in settings.items() if value is not None}


def file(dsn: str, *routes: Settings, **more: Any) -> Settings:
    """A whole file. The program picks the ports and logs them."""
    return {
        "listen": "127.0.0.1:0",
        "admin": {"listen": "127.0.0.1:0"},
        "store": {"dsn": dsn},
        "drain_delay": "0s",
        "routes": list(routes),
        **more,
    }
