"""Every preset, through the whole gateway: an event, its retry, its siblings, the handshakes.

What the scheme can sign is signed here as the provider would, and checked before any claim.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from gateway.config import load
from gateway.core.event import Delivery
from gateway.core.route import Route
from gateway.providers import presets, schemes
from tests.providers import samples
from tests.providers.samples import Handshake, Said, sample
from tests.rig import sender
from tests.rig.gateway import Gateway
from tests.rig.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


VERIFY_TOKEN = "invented-verify-token"
# Of the schemes that have a form of their own for them.
SECRETS = {
    "adyen": "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
    "basic-auth": "hook:invented-password",
    "standard-webhooks": "whsec_aW52ZW50ZWQtc2VjcmV0LW9mLTMyLWJ5dGVzISE=",
}
SECRET = "invented-secret"
PUBLIC_URL = "https://hooks.example.com"

NAMES = presets.names()
PASSING = [name for name in NAMES if presets.preset(name).passes]
KEEPING = [name for name in NAMES if name not in PASSING]


def settings_of(world: World, name: str, *, answers: bool) -> dict[str, Any]:
    path = f"/{'answered' if answers else 'plain'}/{name}"
    route = world.route(
        f"{name}-answered" if answers else name,
        path=path,
        provider=name,
        event_id=None,
        promise=None,
        mode="forward",
        answer_handshakes=answers or None,
        verify_token=VERIFY_TOKEN if answers else None,
    )
    scheme = presets.preset(name).settings.get("signature.scheme")
    if scheme is not None and schemes.scheme(str(scheme.value)).signs:
        known = schemes.scheme(str(scheme.value))
        route["signature"] = {"secrets": [SECRETS.get(known.name, SECRET)]}
        if known.signs_url:
            route["signature"]["public_url"] = PUBLIC_URL
    return route


@dataclass
class Post:
    """Sends samples as their providers would, and sees what the consumer got."""

    world: World
    gateway: Gateway
    routes: dict[str, Route]
    sent: Delivery | None = None
    """The last one, as it left."""

    async def send(
        self, request: Delivery, name: str, *, signed: bool = True, age: float = 0
    ) -> sender.Reply:
        """`age`: seconds since it was signed."""
        route = self.routes[name]
        host = (b"Host", b"hooks.example.com")
        sent = request._replace(
            target=route.path + request.target, headers=(host, *request.headers)
        )
        if signed and route.signature is not None:
            signer = schemes.signer(replace(route.signature, resign=True))
            assert signer is not None
            sent = signer.sign(sent, self.now() - age)
        self.sent = sent
        lines = [(line.decode(), value.decode()) for line, value in sent.headers[1:]]
        raw = sender.request(sent.target, sent.body, method=sent.method, headers=lines)
        return await self.gateway.send(raw)

    def now(self) -> float:
        """Fresh stamps are checked against the clock of the machine."""
        return time.time()

    @property
    def forwarded(self) -> int:
        return len(self.world.consumer.received)

    @property
    def arrived_whole(self) -> bool:
        """Whether what was forwarded last is what was sent last."""
        assert self.sent is not None
        return self.world.consumer.received[-1].body == self.sent.body


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def post(world: World) -> AsyncIterator[Post]:
    routes = [settings_of(world, name, answers=one) for name in NAMES for one in (False, True)]
    gateway = await world.gateway(world.file(*routes))
    loaded = load(gateway.file, env={})
    yield Post(world, gateway, {route.name: route for route in loaded.routes})


def assert_heard(reply: sender.Reply, said: Said) -> None:
    assert reply.status == said.status
    if said.body is not None:
        assert reply.body.decode() == said.body
    for name, value in said.headers.items():
        assert reply.header(name) == value, name


@pytest.mark.parametrize("name", KEEPING)
async def test_a_retry_is_recognised_and_told_what_its_provider_wants_to_hear(
    post: Post, name: str
) -> None:
    given, before, counted = sample(name), post.forwarded, await post.gateway.scrape()
    # What is signed anew for a retry has another time, which must not be part of the id.
    first = await post.send(given.event, name, age=1)
    assert (first.status, first.verdict) == (200, "first"), first
    assert post.arrived_whole
    again = await post.send(given.retry, name)
    assert again.verdict == "duplicate", again
    assert given.duplicate is not None
    assert_heard(again, given.duplicate)
    assert post.forwarded == before + 1
    after = await post.gateway.scrape()
    assert after.since(counted, "dedup_payload_mismatches_total", route=name) == 0


@pytest.mark.parametrize("name", KEEPING)
async def test_each_sibling_is_an_event_of_its_own(post: Post, name: str) -> None:
    given = sample(name)
    assert (await post.send(given.event, name)).is_success
    for sibling in given.siblings:
        before = post.forwarded
        first = await post.send(sibling, name, age=1)
        assert (first.status, first.verdict) == (200, "first"), first
        assert post.arrived_whole
        assert (await post.send(sibling, name)).verdict == "duplicate"
        assert post.forwarded == before + 1


BATCHES = [name for name in KEEPING if "batch.items" in presets.preset(name).settings]


@pytest.mark.case("B026")
@pytest.mark.parametrize("name", BATCHES)
async def test_a_new_item_is_not_lost_because_another_in_its_batch_was_seen(
    post: Post, name: str
) -> None:
    given = sample(name)
    assert given.mixed is not None
    assert (await post.send(given.event, name)).is_success
    before = post.forwarded
    for verdict in ("first", "duplicate"):
        reply = await post.send(given.mixed, name)
        assert reply.is_success, reply
        assert reply.verdict == verdict
    assert post.forwarded == before + 1


@pytest.mark.parametrize("name", PASSING)
async def test_what_has_no_safe_identity_passes_through_every_time(post: Post, name: str) -> None:
    given, before, claims = sample(name), post.forwarded, await post.world.database.count()
    requests = (given.event, given.retry, *given.siblings)
    for request in requests:
        reply = await post.send(request, name)
        assert (reply.status, reply.verdict) == (200, "passed"), reply
    assert post.forwarded == before + len(requests)
    assert await post.world.database.count() == claims


HANDSHAKES = [
    pytest.param(name, handshake, id=f"{name}-{number}")
    for name in samples.names()
    for number, handshake in enumerate(sample(name).handshakes)
]


@pytest.mark.parametrize(("name", "handshake"), HANDSHAKES)
async def test_a_handshake_reaches_the_consumer_each_time_and_is_never_claimed(
    post: Post, name: str, handshake: Handshake
) -> None:
    before, claims = post.forwarded, await post.world.database.count()
    for _ in range(2):
        reply = await post.send(handshake.request, name, signed=handshake.signed)
        assert (reply.status, reply.verdict) == (200, "passed"), reply
    assert post.forwarded == before + 2
    assert await post.world.database.count() == claims


@pytest.mark.parametrize(
    ("name", "handshake"),
    [one for one in HANDSHAKES if isinstance(one.values[1], Handshake) and one.values[1].answered],
)
async def test_a_handshake_is_answered_for_the_consumer_where_the_route_says_so(
    post: Post, name: str, handshake: Handshake
) -> None:
    before, claims = post.forwarded, await post.world.database.count()
    assert handshake.answered is not None
    for _ in range(2):
        reply = await post.send(handshake.request, f"{name}-answered", signed=handshake.signed)
        assert reply.verdict == "passed", reply
        assert_heard(reply, handshake.answered)
    assert post.forwarded == before
    assert await post.world.database.count() == claims


SIGNED = [
    name
    for name in KEEPING
    if (fact := presets.preset(name).settings.get("signature.scheme")) is not None
    and schemes.scheme(str(fact.value)).signs
]


@pytest.mark.parametrize("name", SIGNED)
async def test_an_unsigned_copy_is_refused_before_any_claim(post: Post, name: str) -> None:
    given, before, claims = sample(name), post.forwarded, await post.world.database.count()
    reply = await post.send(given.event, f"{name}-answered", signed=False)
    assert reply.status == 401, reply
    assert post.forwarded == before
    assert await post.world.database.count() == claims
