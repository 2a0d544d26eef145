"""What crosses the gateway crosses unchanged: bytes in are bytes out, both ways."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.certificate import self_signed
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = b"whsec_1"
BODY_LIMIT = 21 * 2**20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(
        world.file(
            world.route(body_limit="21MiB"),
            world.route("small", body_limit="64KiB"),
            world.route("ipn", event_id="form:txn_id"),
        )
    )


def signed(body: bytes) -> str:
    return hmac.new(SECRET, body, hashlib.sha256).hexdigest()


@pytest.mark.case("B013")
@pytest.mark.parametrize(
    "body",
    [
        '{ "b":1.0,"a":"\\u2028 caf\\u00e9 é 😀", "event_id" : "%s","n":1e2 }\n',
        '{\r\n\t"b":1.0,\r\n\t"event_id" :\t"%s",\r\n\t"n":1e2 }\r\n',
        ' \n{"event_id":"%s","event":"\\/","z":1,"a":[ ]}',
    ],
    ids=["escapes", "CRLF and tabs", "leading space"],
)
async def test_a_signature_over_the_raw_body_still_holds(
    world: World, gateway: Gateway, body: str
) -> None:
    event = fresh()
    raw = (body % event).encode()
    reply = await gateway.send(
        sender.request("/hooks/orders", raw, headers=[("X-Hmac", signed(raw))])
    )
    assert reply.verdict == "first"
    (received,) = world.consumer.requests(event)
    assert received.body == raw
    assert received.header("X-Hmac") == signed(received.body)


@pytest.mark.case("B014")
async def test_the_public_host_reaches_the_consumer_and_forged_forwarding_headers_do_not(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    await gateway.send(
        sender.request(
            "/hooks/ipn?x=1",
            f"txn_id={event}".encode(),
            host="hooks.example.com:8443",
            headers=[
                ("X-Rig", event),
                ("X-Forwarded-For", "1.2.3.4"),
                ("X-Forwarded-Proto", "gopher"),
                ("Forwarded", "for=1.2.3.4"),
            ],
        )
    )
    (received,) = world.consumer.requests(event)
    assert received.target == "/hooks/ipn?x=1"
    assert received.values("Host") == [b"hooks.example.com:8443"]
    assert received.values("X-Forwarded-For") == [b"127.0.0.1"]
    assert received.values("X-Forwarded-Proto") == [b"http"]
    assert received.values("X-Forwarded-Host") == [b"hooks.example.com:8443"]
    assert received.values("Forwarded") == []


@pytest.mark.case("B014")
async def test_a_trusted_front_is_believed_and_extended(world: World) -> None:
    gateway = await world.gateway(
        world.file(world.route("ipn", event_id="form:txn_id"), trusted_proxies=["127.0.0.0/8"])
    )
    event = fresh()
    await gateway.send(
        sender.request(
            "/hooks/ipn?x=1",
            f"txn_id={event}".encode(),
            host="hooks.example.com:8443",
            headers=[
                ("X-Rig", event),
                ("X-Forwarded-For", "198.51.100.7"),
                ("X-Forwarded-Proto", "https"),
            ],
        )
    )
    (received,) = world.consumer.requests(event)
    assert received.values("Host") == [b"hooks.example.com:8443"]
    assert received.values("X-Forwarded-For") == [b"198.51.100.7, 127.0.0.1"]
    assert received.values("X-Forwarded-Proto") == [b"https"]
    await gateway.stop()


@pytest.mark.case("B014")
async def test_a_listener_with_tls_says_so_to_the_consumer(world: World, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    listen = {"address": "127.0.0.1:0", "tls": {"cert": str(cert), "key": str(key)}}
    gateway = await world.gateway(world.file(listen=[listen]))
    event = fresh()
    context = ssl.create_default_context(cafile=str(cert))
    reader, writer = await asyncio.open_connection(
        *gateway.address, ssl=context, server_hostname="localhost"
    )
    writer.write(sender.event(event))
    assert (await sender.read_reply(reader)).status == 200
    writer.transport.abort()
    (received,) = world.consumer.requests(event)
    assert received.values("X-Forwarded-Proto") == [b"https"]
    await gateway.stop()


@pytest.mark.case("B015")
@pytest.mark.parametrize(
    "rest",
    [
        "/a%2Fb",
        "/a%28x%29",
        "/a%2520b",
        "/a//b",
        "/a/",
        "/a/./b",
        "/a/../b",
        "/a%7E%41%zz",
        "/a?b=2&a=1&a=0",
        "/a?s=x%2Fy%3D",
        "/a?x=1;y=2",
        "/a?q=%E9",
        "/a?",
        "//evil.example/x",
    ],
)
async def test_the_raw_target_reaches_the_consumer_byte_for_byte(
    world: World, gateway: Gateway, rest: str
) -> None:
    event = fresh()
    reply = await gateway.send(sender.event(event, f"/hooks/orders{rest}"))
    assert (reply.status, reply.verdict) == (200, "first")
    assert [request.target for request in world.consumer.requests(event)] == [
        f"/hooks/orders{rest}"
    ]


@pytest.mark.case("B016")
async def test_every_header_line_arrives_in_order_both_ways(world: World, gateway: Gateway) -> None:
    event = fresh()
    back = (
        ("Set-Cookie", "a=1"),
        ("Link", "</1>; rel=next"),
        ("set-cookie", "b=2"),
        ("Link", "</2>; rel=prev"),
        ("X-oDd-CaSe", "V"),
    )
    world.consumer.script(event, Says(headers=back))
    long = "x" * 7168
    there = [
        ("X-Sig", "old"),
        ("x-LoWeR-case", "V"),
        ("x-sig", "new"),
        ("X-Long", long),
        ("X-Latin", "caf\xe9"),
    ]
    body = json.dumps({"event_id": event}).encode()
    reply = await gateway.send(sender.request("/hooks/orders", body, headers=there))
    (received,) = world.consumer.requests(event)
    sent = [(name.encode(), value.encode("latin-1")) for name, value in there]
    assert [line for line in received.headers if line in sent] == sent
    ours = [name for name, _ in received.headers][len(there) + 2 :]
    assert ours == [
        b"X-Forwarded-For",
        b"X-Forwarded-Proto",
        b"X-Forwarded-Host",
        b"Dedup-Event-Id",
        b"Dedup-Attempt",
    ]
    assert [(n.decode(), v.decode()) for n, v in reply.headers] == [
        *back,
        ("Content-Length", "11"),
        ("Dedup-Verdict", "first"),
    ]


@pytest.mark.case("B017")
@pytest.mark.parametrize("asked", [False, True])
async def test_a_reply_is_compressed_only_if_the_provider_asked_and_never_touched(
    world: World, gateway: Gateway, asked: bool
) -> None:
    event, plain = fresh(), os.urandom(5000).hex().encode()
    packed = gzip.compress(plain)
    coded = Says(headers=(("Content-Encoding", "gzip"),), body=packed)
    world.consumer.script(event, coded if asked else Says(body=plain))
    headers = [("Accept-Encoding", "gzip")] if asked else []
    body = json.dumps({"event_id": event}).encode()
    reply = await gateway.send(sender.request("/hooks/orders", body, headers=headers))
    (received,) = world.consumer.requests(event)
    assert received.values("Accept-Encoding") == ([b"gzip"] if asked else [])
    assert reply.body == (packed if asked else plain)
    assert reply.header("Content-Encoding") == ("gzip" if asked else None)
    assert not received.values("Accept")
    assert not received.values("User-Agent")
    assert not received.values("Content-Type")


@pytest.mark.case("B017")
async def test_a_compressed_event_is_read_for_its_id_and_forwarded_compressed(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    packed = gzip.compress(json.dumps({"event_id": event}).encode())
    headers = [("Content-Encoding", "gzip"), ("X-Rig", event)]
    raw = sender.request("/hooks/orders", packed, headers=headers)
    assert [(await gateway.send(raw)).verdict for _ in range(2)] == ["first", "duplicate"]
    (received,) = world.consumer.requests(event)
    assert received.body == packed


def filled(event: str, size: int) -> bytes:
    start = json.dumps({"event_id": event})[:-1].encode() + b', "x": "'
    return start + b"x" * (size - len(start) - 2) + b'"}'


def framed(body: bytes, path: str, *, chunked: bool) -> bytes:
    if not chunked:
        return sender.request(path, body)
    pieces = [body[at : at + 65536] for at in range(0, len(body), 65536)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return sender.request(path, headers=[("Transfer-Encoding", "chunked")]) + coded


@pytest.mark.case("B018")
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
@pytest.mark.parametrize("size", [2**20, 2**20 + 1, 20_000_000, BODY_LIMIT])
async def test_a_large_push_passes_bit_for_bit_up_to_the_limit(
    world: World, gateway: Gateway, size: int, chunked: bool
) -> None:
    event = fresh()
    body = filled(event, size)
    reply = await gateway.send(framed(body, "/hooks/orders", chunked=chunked))
    assert reply.status == 200
    (received,) = world.consumer.requests(event)
    assert hashlib.sha256(received.body).digest() == hashlib.sha256(body).digest()


@pytest.mark.case("B018")
@pytest.mark.row(3)
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
async def test_a_body_over_the_limit_is_refused_before_any_claim(
    world: World, gateway: Gateway, chunked: bool
) -> None:
    event, before = fresh(), await gateway.scrape()
    fits, over = filled(event, 65536), filled(event, 65537)
    reply = await gateway.attempt(framed(over, "/hooks/small", chunked=chunked))
    assert reply is not None
    assert reply.status == 413
    assert await world.database.claim(event) is None
    assert not world.consumer.requests(event)
    after = await gateway.scrape()
    assert after.since(before, "dedup_rejected_total", route="small", reason="body_too_large") == 1
    assert (await gateway.send(framed(fits, "/hooks/small", chunked=chunked))).status == 200


async def test_what_the_gateway_says_about_itself_cannot_be_forged(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    body = json.dumps({"event_id": event}).encode()
    forged = [("Dedup-Attempt", "7"), ("dedup-possible-duplicate", "1"), ("Dedup_Event_Id", "x")]
    await gateway.send(sender.request("/hooks/orders", body, headers=forged))
    (received,) = world.consumer.requests(event)
    assert (received.attempt, received.marked) == (1, False)
    assert received.values("Dedup-Event-Id") == [event.encode()]
    assert not received.values("Dedup_Event_Id")
