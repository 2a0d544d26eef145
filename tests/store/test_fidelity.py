"""What was delivered comes back byte for byte, whatever it was."""

from __future__ import annotations

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.event import Delivery
from gateway.core.inbox import Accepted, EntryEnding
from gateway.store.deliveries import lines, text_of
from tests.store.stores import (
    OpenStore,
    Stores,
    at_once,
    conclusion,
    fresh_ask,
    fresh_key,
    fresh_offer,
)

TOKEN = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
NAMES = st.text(TOKEN, min_size=1, max_size=12).map(str.encode)
# All that a field value can be: HTTP knows no other bytes in it, and none that ends a line.
VALUES = st.binary(max_size=30).map(lambda value: value.translate(None, b"\x00\r\n"))
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=8).map(tuple)
DELIVERIES = st.builds(
    Delivery,
    method=st.text(TOKEN, min_size=1, max_size=10),
    target=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40).map(
        "/".__add__
    ),
    headers=HEADERS,
    body=st.binary(max_size=200),
    peer=st.ip_addresses().map(str),
    scheme=st.sampled_from(["http", "https"]),
)
# Lone surrogates among them, which JSON can spell and UTF-8 cannot.
IDS = st.text(st.characters(), max_size=300)


@given(HEADERS)
def test_headers_keep_order_spelling_repeats_and_bytes(
    headers: tuple[tuple[bytes, bytes], ...],
) -> None:
    assert lines(text_of(headers)) == headers


@pytest.fixture
async def store(stores: Stores) -> OpenStore:
    return await stores.open()


@pytest.mark.row(94)
@given(st.lists(st.tuples(IDS, DELIVERIES), min_size=1, max_size=5))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_an_event_leaves_the_inbox_as_it_came_in(
    store: OpenStore, sql: asyncpg.Connection, events: list[tuple[str, Delivery]]
) -> None:
    """By each way in: accepted together, given up by a holder, or brought to a dead entry."""
    await sql.execute("truncate dedup.claims, dedup.entries")
    came = {fresh_key(event_id): delivery for event_id, delivery in events}
    offers = [fresh_offer(key, delivery=delivery) for key, delivery in came.items()]
    told = await at_once(store.accept(offer) for offer in offers)
    assert all(isinstance(t, Accepted) for t in told)
    first = await store.lease()
    assert {one.key: one.delivery for one in first} == came

    turned = dict(zip(came, reversed(came.values()), strict=True))
    for one in first:
        await store.conclude(conclusion(one, EntryEnding.BURY))
        assert await store.inner.revive(fresh_offer(one.key, delivery=turned[one.key]))
    assert {one.key: one.delivery for one in await store.lease()} == turned

    asks = [fresh_ask(fresh_key(key.event_id)) for key in came]
    await at_once(store.arrive(ask) for ask in asks)
    held = dict(zip((ask.key for ask in asks), came.values(), strict=True))
    await at_once(
        store.store(fresh_offer(ask.key, token=ask.token, delivery=held[ask.key])) for ask in asks
    )
    assert {one.key: one.delivery for one in await store.lease()} == held
