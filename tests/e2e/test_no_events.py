"""Requests that are no events, and those that are no requests one may pass on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    gh = world.route("gh", event_id="header:X-GitHub-Delivery")
    yield await world.gateway(world.file(world.route(), gh))


HANDSHAKES = {
    "GET with a challenge": sender.request(
        "/hooks/orders?hub.mode=subscribe&hub.verify_token=t&hub.challenge=7788",
        method="GET",
        headers=[("X-Rig", "handshake")],
    ),
    "HEAD": sender.request("/hooks/orders", method="HEAD", headers=[("X-Rig", "handshake")]),
    "OPTIONS": sender.request(
        "/hooks/orders",
        method="OPTIONS",
        headers=[("WebHook-Request-Origin", "s.example"), ("X-Rig", "handshake")],
    ),
    "POST without a body": sender.request(
        "/hooks/orders?validationToken=ab%20c", headers=[("X-Rig", "handshake")]
    ),
    "POST with a challenge": sender.request(
        "/hooks/orders",
        b'{"token":"x","challenge":"zz","type":"url_verification"}',
        headers=[("X-Rig", "handshake")],
    ),
}


@pytest.mark.case("B019")
@pytest.mark.parametrize("name", HANDSHAKES)
async def test_a_handshake_is_no_event_and_is_forwarded_every_time(
    world: World, gateway: Gateway, name: str
) -> None:
    raw = HANDSHAKES[name]
    body = b"" if name == "HEAD" else b"7788"
    says = Says(
        headers=(("WebHook-Allowed-Origin", "s.example"), ("Content-Length", "4")), body=b"7788"
    )
    world.consumer.script("handshake", says)
    claims, seen = await world.database.count(), len(world.consumer.requests("handshake"))
    async with sender.Connection(gateway.address) as connection:
        for _ in range(3):
            reply = await connection.ask(raw)
            assert (reply.status, reply.body) == (200, body)
            assert reply.header("WebHook-Allowed-Origin") == "s.example"
            assert reply.header("Content-Length") == "4"
            assert reply.verdict == ("unkeyed" if name.startswith("POST") else "passed")
    received = world.consumer.requests("handshake")[seen:]
    assert len(received) == 3
    assert not any(request.values("Dedup-Attempt") for request in received)
    assert await world.database.count() == claims


def head(*lines: str, path: str = "/hooks/orders", version: str = "1.1") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/{version}", "Host: a", *lines, "", ""]).encode()


EMPTY, CHUNKED = "Content-Length: 0", "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
REFUSED = {
    "absolute form": head(EMPTY, path="http://evil.example/hooks/orders"),
    "fragment": head(EMPTY, path="/hooks/orders#x"),
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "coding": head("Transfer-Encoding: gzip, chunked") + END,
    "both framings": head("Content-Length: 3", CHUNKED) + END,
    "two lengths": head("Content-Length: 3", "Content-Length: 4") + b"abcd",
    "signed length": head("Content-Length: +3") + b"abc",
    "folded header": head("X: a", " b", EMPTY),
    "space before colon": head("X : a", EMPTY),
    "bad chunk": head(CHUNKED) + b"zz\r\n\r\n",
    "1.0 and chunked": head(CHUNKED, version="1.0") + END,
    "nominated length": head("Connection: content-length", EMPTY),
    "nominated id": head(
        "Connection: x-github-delivery", "X-GitHub-Delivery: 1", EMPTY, path="/hooks/gh"
    ),
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.row(4)
@pytest.mark.parametrize("name", REFUSED)
async def test_odd_framing_is_refused_and_nothing_of_it_reaches_the_consumer(
    world: World, gateway: Gateway, name: str
) -> None:
    before, seen = await gateway.scrape(), len(world.consumer.received)
    claims = await world.database.count()
    reply = await gateway.attempt(REFUSED[name], within=5)
    assert reply is None or reply.status in (400, 404, 405, 501), reply
    assert len(world.consumer.received) == seen
    assert await world.database.count() == claims
    assert (await gateway.scrape()).since(before, "dedup_rejected_total") == 1
    assert (await world.deliver(fresh())).verdict == "first"
