"""Handshakes: answered or passed on, every time, in every mode, and never a claim."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.settings import Settings
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "handshake secret"
Headers = list[tuple[str, str]]


def mac(text: bytes) -> hmac.HMAC:
    return hmac.new(SECRET.encode(), text, hashlib.sha256)


def dated(mark: str, stamp: str) -> Callable[[bytes], Headers]:
    """As Slack and Zoom sign."""

    def lines(body: bytes) -> Headers:
        now = str(int(time.time()))
        made = mac(b"v0:" + now.encode() + b":" + body).hexdigest()
        return [(mark, f"v0={made}"), (stamp, now)]

    return lines


def xero(body: bytes) -> Headers:
    return [("x-xero-signature", base64.b64encode(mac(body).digest()).decode())]


def unsigned(body: bytes) -> Headers:
    return []


SLACK = dated("X-Slack-Signature", "X-Slack-Request-Timestamp")
ZOOM = dated("x-zm-signature", "x-zm-request-timestamp")
TOKEN = "qgg8vlvZRS6UYooatFL8Aw"
PROOF = mac(TOKEN.encode()).hexdigest()


@dataclass(frozen=True)
class Greeted:
    """A handshake, and what the gateway says to it; None where the consumer answers."""

    preset: str
    method: str
    target: str
    body: bytes
    lines: Headers
    sign: Callable[[bytes], Headers]
    said: tuple[int, bytes, str | None] | None
    """Status, body, and the name of a header that has to be there."""

    def raw(self, route: str, rig: str, sign: Callable[[bytes], Headers] | None = None) -> bytes:
        lines = [*self.lines, ("X-Rig", rig), *(sign or self.sign)(self.body)]
        path = f"/hooks/{route}{self.target}"
        return sender.request(path, self.body, method=self.method, headers=lines)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


CALLBACK = ("WebHook-Request-Origin", "events.example")
KINDS = [
    Greeted(
        "slack", "POST", "", compact({"type": "url_verification", "challenge": "3eZbrw"}), [],
        SLACK, (200, b"3eZbrw", "Content-Type"),
    ),
    Greeted(
        "zoom", "POST", "",
        compact({"event": "endpoint.url_validation", "payload": {"plainToken": TOKEN}}), [],
        ZOOM,
        (200, json.dumps({"plainToken": TOKEN, "encryptedToken": PROOF}).encode(), "Content-Type"),
    ),
    Greeted(
        "meta", "GET", "?hub.mode=subscribe&hub.verify_token=opensesame&hub.challenge=115", b"",
        [], unsigned, (200, b"115", "Content-Type"),
    ),
    Greeted(
        "okta", "GET", "", b"", [("x-okta-verification-challenge", "f00d")], unsigned,
        (200, b'{"verification": "f00d"}', "Content-Type"),
    ),
    Greeted(
        "cloudevents", "OPTIONS", "", b"", [CALLBACK], unsigned,
        (200, b"", "WebHook-Allowed-Origin"),
    ),
    Greeted("intercom", "HEAD", "", b"", [], unsigned, (200, b"", None)),
    Greeted(
        "meta", "GET", "?hub.mode=subscribe&hub.verify_token=guessed&hub.challenge=115", b"", [],
        unsigned, None,
    ),
    Greeted("xero", "POST", "", compact({"events": [], "entropy": "S0m3r4nd"}), [], xero, None),
]  # fmt: skip
ANSWERED = [kind for kind in KINDS if kind.said is not None]
LEFT = [kind for kind in KINDS if kind.said is None]
SIGNED = [kind for kind in KINDS if kind.sign is not unsigned]
MODES = ("forward", "inbox", "observe")


def route(world: World, preset: str, mode: str) -> Settings:
    more: dict[str, Any] = {"late_delivery": "this consumer checks no time stamp"}
    if preset == "meta":
        more["verify_token"] = "opensesame"
    return world.route(
        f"{preset}_{mode}",
        provider=preset,
        event_id=None,
        promise=None,
        mode=mode,
        signature={"secrets": [SECRET]},
        answer_handshakes=True,
        **(more if mode == "inbox" or preset == "meta" else {}),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    presets = dict.fromkeys(kind.preset for kind in KINDS)
    routes = [route(world, preset, mode) for preset in presets for mode in MODES]
    yield await world.gateway(world.file(*routes))


@pytest.mark.parametrize("kind", ANSWERED, ids=lambda kind: kind.preset)
@pytest.mark.parametrize("mode", MODES[:2])
async def test_a_handshake_is_answered_every_time_and_never_claimed(
    world: World, gateway: Gateway, kind: Greeted, mode: str
) -> None:
    assert kind.said is not None
    status, body, header = kind.said
    rig, rows = fresh(), await world.database.count()
    for _ in range(3):
        reply = await gateway.send(kind.raw(f"{kind.preset}_{mode}", rig))
        assert (reply.status, reply.body, reply.verdict) == (status, body, "passed")
        assert header is None or reply.header(header)
    assert not world.consumer.requests(rig)
    assert await world.database.count() == rows


@pytest.mark.parametrize("kind", LEFT, ids=lambda kind: kind.preset)
@pytest.mark.parametrize("mode", MODES)
async def test_a_handshake_that_only_the_consumer_can_answer_reaches_it_every_time(
    world: World, gateway: Gateway, kind: Greeted, mode: str
) -> None:
    rig, rows = fresh(), await world.database.count()
    world.consumer.script(rig, Says(body=b"welcome"))
    for _ in range(3):
        reply = await gateway.send(kind.raw(f"{kind.preset}_{mode}", rig))
        assert reply.status == 200
        assert reply.body == b"welcome"
        assert reply.verdict == (None if mode == "observe" else "passed")
    assert len(world.consumer.requests(rig)) == 3
    assert await world.database.count() == rows


@pytest.mark.parametrize("kind", ANSWERED, ids=lambda kind: kind.preset)
async def test_observe_leaves_every_handshake_to_the_consumer(
    world: World, gateway: Gateway, kind: Greeted
) -> None:
    rig = fresh()
    world.consumer.script(rig, Says(body=b"welcome"))
    reply = await gateway.send(kind.raw(f"{kind.preset}_observe", rig))
    body = b"" if kind.method == "HEAD" else b"welcome"
    assert (reply.status, reply.body, reply.verdict) == (200, body, None)
    assert len(world.consumer.requests(rig)) == 1


@pytest.mark.parametrize("kind", SIGNED, ids=lambda kind: kind.preset)
@pytest.mark.parametrize("mode", MODES[:2])
async def test_a_handshake_that_the_provider_signs_is_refused_without_its_signature(
    world: World, gateway: Gateway, kind: Greeted, mode: str
) -> None:
    # Xero sends some of these on purpose, and gives up an endpoint that takes them.
    rig = fresh()
    reply = await gateway.send(kind.raw(f"{kind.preset}_{mode}", rig, unsigned))
    assert reply.status == 401
    wrong = [(name, value[:-4] + "AAA=") for name, value in kind.sign(kind.body)]
    reply = await gateway.send(kind.raw(f"{kind.preset}_{mode}", rig, lambda _: wrong))
    assert reply.status == 401
    assert not world.consumer.requests(rig)


async def test_a_proof_is_made_of_tokens_only_so_that_nobody_gets_a_delivery_signed(
    world: World, gateway: Gateway
) -> None:
    rig = fresh()
    forged = f'v0:{int(time.time())}:{{"event":"meeting.started"}}'
    body = compact({"event": "endpoint.url_validation", "payload": {"plainToken": forged}})
    kind = Greeted("zoom", "POST", "", body, [], ZOOM, None)
    reply = await gateway.send(kind.raw("zoom_forward", rig))
    assert mac(forged.encode()).hexdigest().encode() not in reply.body
    assert len(world.consumer.requests(rig)) == 1  # left to the consumer


async def test_handshakes_are_counted_as_passed_and_the_sums_hold(
    world: World, gateway: Gateway
) -> None:
    before = await gateway.scrape()
    for kind in KINDS:
        await gateway.send(kind.raw(f"{kind.preset}_forward", fresh()))
    after = await gateway.scrape()
    assert after.since(before, "dedup_deliveries_total", verdict="passed") == len(KINDS)
    assert after.since(before, "dedup_requests_total") == len(KINDS)
    assert after.since(before, "dedup_rejected_total") == 0
