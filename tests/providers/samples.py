"""What each provider sends: one event, a retry of it, its siblings, its handshakes, and what it
wants to hear. Invented, or made of the facts with personal details replaced. `samples/NAME.yaml`:

    event       {method, target, headers, json | form | text}; target follows the route's path
    retry       what differs in a retry: headers (null takes one out), json as a merge patch, …
    siblings    the same for each of the other events that look alike
    mixed       of a batch: one item that was in `event`, and one that is new
    duplicate   {status, content_type, body} for a duplicate; absent where all passes through
    handshakes  [{signed, method, target, headers, json | form | text,
                  answered: {status, headers, body}}]; `answered` where a gateway can answer
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from gateway.core.event import Delivery

FOLDER = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True)
class Said:
    """A reply that a provider has to hear."""

    status: int
    headers: Mapping[str, str]
    body: str | None
    """None where the provider does not care."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """A test of the endpoint."""

    request: Delivery
    signed: bool
    answered: Said | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One provider's requests; targets begin where the route's path ends."""

    event: Delivery
    retry: Delivery
    siblings: tuple[Delivery, ...]
    mixed: Delivery | None
    duplicate: Said | None
    handshakes: tuple[Handshake, ...]


def names() -> list[str]:
    """Those that there are samples of."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def sample(name: str) -> Sample:
    read = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    event = read["event"]
    return Sample(
        event=_request(event),
        retry=_request(_patched(event, read["retry"])),
        siblings=tuple(_request(_patched(event, one)) for one in read["siblings"]),
        mixed=_request(_patched(event, read["mixed"])) if "mixed" in read else None,
        duplicate=_said(read.get("duplicate")),
        handshakes=tuple(
            Handshake(_request(one), one["signed"], _said(one.get("answered")))
            for one in read.get("handshakes", ())
        ),
    )


def _request(read: Mapping[str, Any]) -> Delivery:
    headers = dict(read.get("headers", {}))
    if "json" in read:
        body = json.dumps(read["json"])
        headers.setdefault("Content-Type", "application/json")
    elif "form" in read:
        body = urlencode(read["form"])
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    else:
        body = read.get("text", "")
    lines = tuple((name.encode(), str(value).encode()) for name, value in headers.items())
    method, target = read.get("method", "POST"), read.get("target", "")
    return Delivery(method, target, lines, body.encode(), "192.0.2.1", "http")


def _patched(event: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_merged(event, patch))


def _merged(value: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for name, inner in patch.items():
        if inner is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), inner)
    return merged


def _said(read: Mapping[str, Any] | None) -> Said | None:
    if read is None:
        return None
    headers = dict(read.get("headers", {}))
    if read.get("content_type"):
        headers["Content-Type"] = read["content_type"]
    return Said(read["status"], headers, read.get("body"))
