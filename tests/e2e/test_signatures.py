"""Signed routes: what the provider did not sign takes no claim and reaches nobody."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway, Samples
from tests.rig.settings import Settings
from tests.rig.stripe_like import BOTH, FORGED, NAME, request, signature, signed
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# An address of this machine where nobody listens.
NOWHERE = "https://127.0.0.1:9/keys"
PUSHED = {"scheme": "gcp-oidc", "audience": "gateway", "email": "a@b.example", "keys": [NOWHERE]}


def routes(world: World) -> list[Settings]:
    late = {"signature": BOTH, "late_delivery": "the consumer checks no time stamp"}
    return [
        world.route(signature=BOTH),
        world.route("stored", mode="inbox", **late),
        world.route("watched", mode="observe", signature=BOTH),
        world.route("open"),
        world.route("pushed", signature=PUSHED),
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(world.file(*routes(world)))


CLAIMING = ["/hooks/orders", "/hooks/stored"]


def bad(event: str, path: str) -> dict[str, bytes]:
    """Deliveries that the provider never sent, by what is wrong with them."""
    body = json.dumps({"event_id": event}).encode()
    return {
        "missing": request(body, path, None),
        "wrong": signed(event, path, FORGED),
        "expired": signed(event, path, age=400),
    }


@pytest.mark.row(6)
@pytest.mark.parametrize("path", CLAIMING)
@pytest.mark.parametrize("flaw", ["missing", "wrong", "expired"])
async def test_a_bad_signature_is_401_and_leaves_no_row_and_reaches_nobody(
    world: World, gateway: Gateway, path: str, flaw: str
) -> None:
    event, rows, before = fresh(), await world.database.count(), await gateway.scrape()
    reply = await gateway.send(bad(event, path)[flaw])
    assert (reply.status, reply.verdict, json.loads(reply.body)["error"]) == (
        401,
        None,
        "signature",
    )
    assert reply.header("Retry-After") is None
    assert not world.consumer.requests(event)
    assert await world.database.count() == rows
    after = await gateway.scrape()
    assert after.since(before, "dedup_signatures_total", result=flaw) == 1
    assert after.since(before, "dedup_rejected_total", reason="signature") == 1


@pytest.mark.parametrize("path", CLAIMING)
async def test_one_changed_byte_is_refused(world: World, gateway: Gateway, path: str) -> None:
    event, rows = fresh(), await world.database.count()
    body = json.dumps({"event_id": event, "amount": 1250}).encode()
    mark = signature(body)
    changed = [
        (body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], mark) for at in range(0, len(body), 3)
    ]
    changed += [
        (body, mark[:at] + ("0" if mark[at] != "0" else "1") + mark[at + 1 :])
        for at in range(0, len(mark), 5)
        if mark[at] not in "tv=,"
    ]
    changed += [(body + b" ", mark), (body[:-1], mark), (b"", mark)]
    for other, written in changed:
        assert (await gateway.send(request(other, path, written))).status == 401
    assert await world.database.count() == rows
    assert not world.consumer.requests(event)
    assert (await gateway.send(request(body, path, mark))).is_success


@pytest.mark.parametrize("path", CLAIMING)
async def test_a_time_stamp_is_believed_within_the_tolerance_on_either_side(
    gateway: Gateway, path: str
) -> None:
    for age, status in ((240, 200), (-240, 200), (420, 401), (-420, 401)):
        assert (await gateway.send(signed(fresh(), path, age=age))).status == status


async def test_a_sender_cannot_have_its_signature_dropped_on_the_way(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    body = json.dumps({"event_id": event}).encode()
    lines = [(NAME, signature(body)), ("Connection", NAME)]
    refused = await gateway.send(sender.request("/hooks/orders", body, headers=lines))
    assert (refused.status, json.loads(refused.body)["error"]) == (400, "nomination")
    assert not world.consumer.requests(event)
    # In observe nothing is refused; what was dropped is missing, for the consumer too.
    before = await gateway.scrape()
    passed = await gateway.send(sender.request("/hooks/watched", body, headers=lines))
    assert passed.status == 200
    assert world.consumer.requests(event)[0].header(NAME) is None
    after = await gateway.scrape()
    assert after.since(before, "dedup_signatures_total", route="watched", result="missing") == 1


@pytest.mark.parametrize("flaw", ["missing", "wrong", "expired"])
async def test_observe_forwards_what_is_badly_signed_as_it_came_and_claims_nothing(
    world: World, gateway: Gateway, flaw: str
) -> None:
    event, before = fresh(), await gateway.scrape()
    raw = bad(event, "/hooks/watched")[flaw]
    world.consumer.script(event, Says(status=403), Says())
    assert [(await gateway.send(raw)).status for _ in range(2)] == [403, 200]
    assert [request.header(NAME) for request in world.consumer.requests(event)] == [
        None if flaw == "missing" else raw.split(b"Stripe-Signature: ")[1].split(b"\r")[0].decode()
    ] * 2
    assert await world.database.claim(event) is None
    after = await gateway.scrape()
    assert after.since(before, "dedup_signatures_total", route="watched", result=flaw) == 2
    assert after.since(before, "dedup_deliveries_total", route="watched", verdict="passed") == 2
    # The genuine one is the first, and what the forgers sent under its id has not marked it.
    assert (await gateway.send(signed(event, "/hooks/watched"))).status == 200
    await world.database.becomes(event, "completed")


async def test_without_the_keys_nobody_knows_so_the_provider_comes_again(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"aud": "gateway", "iss": "https://accounts.google.com"}
    token = jwt.encode(claims, key, algorithm="RS256", headers={"kid": "1"})
    body = json.dumps({"event_id": event}).encode()
    raw = sender.request("/hooks/pushed", body, headers=[("Authorization", f"Bearer {token}")])
    for _ in range(3):
        reply = await gateway.send(raw)
        assert (reply.status, json.loads(reply.body)["error"]) == (503, "keys_away")
        assert reply.retry_after
    assert not world.consumer.requests(event)
    assert await world.database.claim(event) is None
    assert len(gateway.log("keys_away")) == 1


def adds_up(scrape: Samples, **labels: str) -> bool:
    return scrape.total("dedup_requests_total", **labels) == (
        scrape.total("dedup_deliveries_total", **labels)
        + scrape.total("dedup_rejected_total", **labels)
    )


async def test_verdicts_and_rejections_still_add_up_to_the_requests_of_each_route(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    for path in (*CLAIMING, "/hooks/watched", "/hooks/open"):
        for raw in (*bad(event, path).values(), signed(event, path), signed(event, path)):
            await gateway.send(raw)
        await gateway.send(sender.request(path, method="GET"))
    scrape = await gateway.scrape()
    for name in ("orders", "stored", "watched", "open", "pushed"):
        assert adds_up(scrape, route=name), name
