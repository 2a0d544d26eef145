"""A provider that signs as Stripe does, written down once more: what is sent to the product here is
not signed by its own code."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

from tests.rig import sender

NEW, OLD, FORGED = "whsec_new", "whsec_old", "whsec_guessed"
NAME = "Stripe-Signature"
# A route's `signature` in the middle of a rotation.
BOTH = {"scheme": "stripe", "secrets": [NEW, OLD], "tolerance": "5m"}


def signature(body: bytes, secret: str = NEW, *, age: float = 0.0) -> str:
    """Of a body that was signed `age` seconds ago."""
    at = int(time.time() - age)
    mark = hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={mark}"


def signed(
    event_id: object,
    path: str = "/hooks/orders",
    secret: str = NEW,
    *,
    age: float = 0.0,
    **more: object,
) -> bytes:
    """One event as the provider sends it; with another secret, as a forger does."""
    body = json.dumps({"event_id": event_id, **more}).encode()
    return request(body, path, signature(body, secret, age=age))


def request(body: bytes, path: str, mark: str | None) -> bytes:
    """A body under any signature, or under none."""
    lines = [("Content-Type", "application/json")]
    return sender.request(path, body, headers=lines + ([] if mark is None else [(NAME, mark)]))
