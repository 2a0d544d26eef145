"""A route with nothing special about it; tests replace what they are about."""

from __future__ import annotations

from datetime import timedelta

from gateway.core.keying import Recipe
from gateway.core.location import Json, Literal
from gateway.core.outcome import REFUSED_BEFORE_EFFECT, SUCCESS, StatusPolicy
from gateway.core.retry import RetryPolicy
from gateway.core.route import (
    Mode,
    OnDoubt,
    OnMissingId,
    OnStale,
    OnStoreDown,
    Route,
    StandardReply,
    Tls,
    Upstream,
)

UPSTREAM = Upstream(
    scheme="http",
    host="127.0.0.1",
    port=3000,
    path=None,
    host_header=None,
    tls=Tls(None, None, None),
    concurrency=64,
    slot_timeout=5.0,
    connect_timeout=2.0,
    write_timeout=10.0,
    first_byte_timeout=30.0,
    timeout=30.0,
    max_reply=2**20,
)

ROUTE = Route(
    name="orders",
    path="/hooks/orders",
    hosts=(),
    upstream=UPSTREAM,
    mode=Mode.FORWARD,
    pass_through=None,
    recipe=Recipe((Literal("orders"),), (Json(("event_id",)),)),
    batch=None,
    per_attempt=(),
    signature=None,
    handshakes=(),
    event_type=None,
    event_time=None,
    promise=None,
    own_replay=timedelta(0),
    retention=timedelta(days=60),
    methods=frozenset({"POST"}),
    missing_id=OnMissingId.FORWARD,
    on_store_down=OnStoreDown.REFUSE,
    status=StatusPolicy(SUCCESS, REFUSED_BEFORE_EFFECT),
    duplicate_reply=StandardReply(),
    lease=42.0,
    body_limit=25 * 2**20,
    idempotency_key=False,
    on_doubt=OnDoubt.RETRY,
    probe=None,
    on_stale=OnStale.FORWARD,
    acknowledge_after=None,
    retry=RetryPolicy(base=5.0, cap=3600.0, give_up=3 * 86400.0),
    keep_payload=timedelta(days=7),
    high_water=100_000,
)
