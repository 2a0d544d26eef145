"""Signed routes: what the provider did not sign takes no claim, whatever it meets."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway, Samples
from tests.rig.settings import Settings
from tests.rig.stripe_like import NAME, NEW, OLD, request, signature, signed
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 20
FORGED = "whsec_guessed"
BOTH = {"scheme": "stripe", "secrets": [NEW, OLD], "tolerance": "5m"}
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


async def test_each_secret_of_a_rotation_is_believed_and_which_it_was_is_counted(
    gateway: Gateway,
) -> None:
    before = await gateway.scrape()
    for secret in (NEW, OLD, OLD):
        assert (await gateway.send(signed(fresh(), secret=secret))).verdict == "first"
    after = await gateway.scrape()
    valid = [
        after.since(before, "dedup_signatures_total", result="valid", secret=place)
        for place in ("0", "1")
    ]
    assert valid == [1, 2]


@pytest.mark.row(108)
async def test_a_forged_copy_does_not_hold_up_the_genuine_one_that_is_under_way(
    world: World, gateway: Gateway
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    genuine = asyncio.create_task(gateway.send(signed(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    # A duplicate would wait for the first one's result; a forger gets no such wait, and no answer
    # that tells whether there is an event of that id.
    assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert not genuine.done()
    free.set()
    assert (await genuine).verdict == "first"
    assert world.attempts(event) == [(1, False)]


async def test_after_a_forged_one_the_genuine_one_is_first_and_not_marked(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    for _ in range(3):
        assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert (await gateway.send(signed(event))).verdict == "first"
    assert (await gateway.send(signed(event, secret=FORGED))).status == 401
    assert (await gateway.send(signed(event))).verdict == "duplicate"
    assert world.attempts(event) == [(1, False)]


async def test_in_a_crowd_of_forged_copies_the_genuine_ones_are_one_event(
    world: World, gateway: Gateway
) -> None:
    for _ in range(ROUNDS):
        event = fresh("crowd")
        raws = [signed(event) for _ in range(5)]
        raws += [signed(event, secret=FORGED, of=number) for number in range(10)]
        random.shuffle(raws)
        replies = await sender.volley([gateway.address], raws)
        told = sorted(reply.verdict or str(reply.status) for reply in replies)
        assert told == ["401"] * 10 + ["duplicate"] * 4 + ["first"]
        dated = [reply for reply in replies if reply.header("Dedup-First-Seen")]
        assert [reply.verdict for reply in dated] == ["duplicate"] * 4
        assert world.attempts(event) == [(1, False)]


async def test_a_forged_copy_cannot_take_over_from_a_gateway_that_died(world: World) -> None:
    doomed = await world.gateway(world.file(world.route(signature=BOTH)))
    event = fresh("died")
    world.consumer.script(event, Says(until=asyncio.Event()), Says())
    sending = asyncio.create_task(doomed.attempt(signed(event)))
    await eventually(lambda: world.consumer.requests(event), within=15)
    doomed.kill()
    assert await sending is None
    await world.database.lapse(event)
    next_one = await world.gateway(world.file(world.route(signature=BOTH)))
    assert (await next_one.send(signed(event, secret=FORGED))).status == 401
    claim = await world.database.claim(event)
    assert claim is not None
    assert (claim.state, claim.attempt) == ("claimed", 1)
    assert (await next_one.send(signed(event))).verdict == "first"
    assert world.attempts(event) == [(1, False), (2, True)]
    await next_one.end()


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


@pytest.mark.parametrize("path", [*CLAIMING, "/hooks/open"])
async def test_only_a_verified_provider_is_told_when_its_event_came_first(
    gateway: Gateway, path: str
) -> None:
    event = fresh()
    first, second = [await gateway.send(signed(event, path)) for _ in range(2)]
    assert (first.verdict, second.verdict) == ("first", "duplicate")
    assert first.header("Dedup-First-Seen") is None
    told = second.header("Dedup-First-Seen")
    assert (told is not None) == (path != "/hooks/open")
    assert told is None or (told.endswith("Z") and len(told) == len("2026-08-25T00:00:00Z"))


async def test_a_secret_changes_under_load_and_no_delivery_of_the_provider_is_refused(
    world: World,
) -> None:
    def with_secrets(*secrets: str) -> Settings:
        return world.file(world.route(signature={**BOTH, "secrets": list(secrets)}))

    gateway = await world.gateway(with_secrets(OLD))
    secret, told = OLD, []
    stop = asyncio.Event()

    async def provider(number: int) -> None:
        while not stop.is_set():
            event = fresh(f"rotated{number}")
            reply = await gateway.send(signed(event, secret=secret))
            told.append((event, reply.status, reply.verdict))

    async def reload(*secrets: str) -> None:
        count = len(gateway.log("config_reloaded"))
        gateway.write(with_secrets(*secrets))
        gateway.signal(signal.SIGHUP)
        await eventually(
            lambda: len(gateway.log("config_reloaded")) > count, within=20, what="reloaded"
        )

    async def more() -> None:
        count = len(told)
        await eventually(lambda: len(told) > count + 50, within=30, what="more deliveries")

    tasks = [asyncio.create_task(provider(number)) for number in range(4)]
    await more()
    await reload(NEW, OLD)
    await more()
    secret = NEW
    await more()
    await reload(NEW)
    await more()
    stop.set()
    await asyncio.gather(*tasks)
    assert {(status, verdict) for _, status, verdict in told} == {(200, "first")}
    for event, _, _ in told:
        assert world.attempts(event) == [(1, False)]
    assert (await gateway.send(signed(fresh(), secret=OLD))).status == 401
    await gateway.end()


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
