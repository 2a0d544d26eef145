"""`resign`: what the gateway sends later than it came, or less of, still verifies at the consumer.

The consumer here is judged by Stripe's own library, with the tolerance that it has by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import stripe

from tests.rig import sender
from tests.rig.consumer import OK, Received, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.stripe_like import NAME, NEW, OLD, request, signature, signed
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The route believes what is older than the consumer does: so a delivery is late from the start, and
# no test has to wait.
LATE = 1000.0
RESIGNED = {"scheme": "stripe", "secrets": [NEW, OLD], "tolerance": "1h"}
SOON = {"base": "100ms", "cap": "200ms", "give_up": "1h"}
AWAY = Says(status=503)
BATCHES: Settings = {
    "event_id": None,
    "batch": {"items": "json:/items", "event_id": "json:/id"},
    "on_mixed": "filter",
}


def routes(world: World) -> list[Settings]:
    anew: Settings = {"signature": RESIGNED, "resign": True}
    return [
        world.route(**anew),
        world.route("stored", mode="inbox", retry=SOON, **anew),
        world.route("slow", acknowledge_after="500ms", retry=SOON, **anew),
        world.route("watched", mode="observe", **anew),
        world.route("as_it_came", signature=RESIGNED),
        world.route("batches", **BATCHES, **anew),
        world.route("unread", **BATCHES, signature=RESIGNED),
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(world.file(*routes(world)))


def believed(received: Received, secret: str = NEW) -> bool:
    """Whether a consumer with Stripe's library takes it for the provider's."""
    try:
        stripe.WebhookSignature.verify_header(
            received.body.decode(), received.header(NAME) or "", secret, tolerance=300
        )
    except stripe.SignatureVerificationError:
        return False
    return True


async def test_without_it_a_late_delivery_is_nobodys_to_the_consumer(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    assert (await gateway.send(signed(event, "/hooks/as_it_came", age=LATE))).verdict == "first"
    assert not believed(world.consumer.requests(event)[0])


@pytest.mark.parametrize("secret", [NEW, OLD])
async def test_a_forward_is_signed_with_the_first_secret_whichever_the_provider_used(
    world: World, gateway: Gateway, secret: str
) -> None:
    event = fresh()
    await gateway.send(signed(event, secret=secret, age=LATE))
    (received,) = world.consumer.requests(event)
    assert believed(received)
    assert not believed(received, OLD)
    assert len(received.values(NAME)) == 1
    names = [name for name, _ in received.headers]
    assert names[:3] == [b"Host", b"Content-Type", NAME.encode()]
    assert b"Dedup-Verified" not in names


@pytest.mark.row(92)
async def test_an_entry_that_outlived_the_tolerance_verifies_on_every_attempt(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, AWAY, AWAY, OK)
    raw = signed(event, "/hooks/stored", age=LATE)
    reply = await gateway.send(raw)
    assert (reply.status, reply.verdict) == (200, "first")
    await world.database.entry_becomes(event, "delivered")
    received = world.consumer.requests(event)
    assert len(received) == 3
    assert all(map(believed, received))
    stored = await world.database.value(
        "select headers from dedup.entries where event_id = convert_to($1, 'UTF8')", event
    )
    assert raw.split(b"Stripe-Signature: ")[1].split(b"\r")[0] in bytes(stored)  # the one that came


@pytest.mark.row(92)
async def test_so_does_one_whose_gateway_was_killed(world: World) -> None:
    doomed = await world.gateway(world.file(*routes(world)))
    event = fresh("died")
    world.consumer.script(event, Says(until=asyncio.Event()), OK)
    assert (await doomed.send(signed(event, "/hooks/stored", age=LATE))).status == 200
    await eventually(lambda: world.consumer.requests(event), within=15)
    doomed.kill()
    await world.database.lapse_entry(event)
    next_one = await world.gateway(world.file(*routes(world)))
    await world.database.entry_becomes(event, "delivered")
    assert all(map(believed, world.consumer.requests(event)))
    assert world.attempts(event) == [(1, False), (2, True)]
    await next_one.end()


async def test_so_does_one_that_was_acknowledged_while_the_consumer_was_at_it(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=500, delay=1.0), OK)
    reply = await gateway.send(signed(event, "/hooks/slow", age=LATE))
    assert (reply.status, reply.verdict) == (200, "first")
    await world.database.entry_becomes(event, "delivered")
    assert [believed(one) for one in world.consumer.requests(event)] == [True, True]


def batch(*ids: str, path: str) -> bytes:
    body = json.dumps({"items": [{"id": one} for one in ids], "event_id": ids[-1]}).encode()
    return request(body, path, signature(body))


@pytest.mark.parametrize(("route", "verifies"), [("batches", True), ("unread", False)])
async def test_a_batch_that_lost_the_items_seen_before_verifies_only_where_it_is_signed_anew(
    world: World, gateway: Gateway, route: str, verifies: bool
) -> None:
    a, b, c = fresh("item"), fresh("item"), fresh("item")
    path = f"/hooks/{route}"
    assert (await gateway.send(batch(a, b, path=path))).verdict == "first"
    assert (await gateway.send(batch(a, b, c, path=path))).verdict == "first"
    (received,) = world.consumer.requests(c)
    assert [item["id"] for item in json.loads(received.body)["items"]] == [c]
    assert believed(received) is verifies


async def test_observe_forwards_the_signature_that_came(world: World, gateway: Gateway) -> None:
    event = fresh()
    raw = signed(event, "/hooks/watched", age=LATE)
    await gateway.send(raw)
    mark = world.consumer.requests(event)[0].header(NAME)
    assert mark is not None
    assert f"{NAME}: {mark}\r\n".encode() in raw


async def test_nothing_that_nobody_checked_is_signed_and_nobody_can_pretend_that_it_was(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    body = json.dumps({"event_id": event}).encode()
    mark = signature(body, "whsec_guessed")
    lines = [(NAME, mark), ("X-Rig", event), ("Dedup-Verified", "1"), ("dedup_verified", "1")]
    reply = await gateway.send(
        sender.request("/hooks/orders", body, method="OPTIONS", headers=lines)
    )
    assert reply.verdict == "passed"
    (received,) = world.consumer.requests(event)
    assert received.header(NAME) == mark
    assert not [name for name, _ in received.headers if name.lower().startswith(b"dedup")]


async def test_what_was_stored_before_the_route_checked_anything_is_not_signed(
    world: World,
) -> None:
    plain = world.route("stored", mode="inbox", retry=SOON)
    before = await world.gateway(world.file(plain))
    event = fresh("unchecked")
    world.consumer.script(event, Says(until=asyncio.Event()), OK)
    forged = signed(event, "/hooks/stored", "whsec_guessed")
    assert (await before.send(forged)).status == 200
    await eventually(lambda: world.consumer.requests(event), within=15)
    before.kill()
    await world.database.lapse_entry(event)
    after = await world.gateway(world.file(*routes(world)))
    await world.database.entry_becomes(event, "delivered")
    assert not any(map(believed, world.consumer.requests(event)))
    await after.end()
