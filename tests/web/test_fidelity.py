"""What goes through unchanged: targets, header lines, bodies, replies."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random

import pytest

from gateway.core.answer import Answered, Verdict
from gateway.core.outcome import Reply
from tests.web.stage import LAST_CHUNK, MIB, Stage, chunk, chunked_head, post


@pytest.mark.parametrize(
    "target",
    [
        b"/hooks/orders/a%2Fb",
        b"/hooks/orders/a%28x%29",
        b"/hooks/orders/a%2520b",
        b"/hooks/orders/a//b",
        b"/hooks/orders/a/",
        b"/hooks/orders/a/./b",
        b"/hooks/orders/a/../b",
        b"/hooks/orders/%7Ea/%2e%2e/%zz",
        b"/hooks/orders/a?b=2&a=1&a=0",
        b"/hooks/orders/a?s=x%2Fy%3D",
        b"/hooks/orders/a?x=1;y=2",
        b"/hooks/orders/a?q=%E9",
        b"/hooks/orders/a?",
        b"/hooks/orders?/?",
        b"/hooks/orders/a\\b[1]|{2}",
    ],
)
@pytest.mark.case("B015")
async def test_a_target_arrives_byte_for_byte(stage: Stage, target: bytes) -> None:
    assert (await stage.ask(post(target=target))).status == 200
    assert stage.receiver.last.target.encode("ascii") == target


@pytest.mark.case("B016")
async def test_header_lines_keep_order_case_repeats_and_bytes(stage: Stage) -> None:
    long = b"v" * 7168
    await stage.ask(
        post(
            headers=(
                b"X-Sig: new",
                b"x-LoWeR-case: V",
                b"X-Sig: old",
                b"X-Long: " + long,
                b"X-Bytes: caf\xe9 \xff",
                b"X-Spaced:\t  a  b \t",
                b"X-Empty:",
                b"x-sig: third",
            )
        )
    )
    assert stage.receiver.last.headers == (
        (b"Host", b"hooks.example.com"),
        (b"X-Sig", b"new"),
        (b"x-LoWeR-case", b"V"),
        (b"X-Sig", b"old"),
        (b"X-Long", long),
        (b"X-Bytes", b"caf\xe9 \xff"),
        (b"X-Spaced", b"a  b"),
        (b"X-Empty", b""),
        (b"x-sig", b"third"),
        (b"Content-Length", b"0"),
    )


async def test_lines_that_end_at_a_hop_do_not_cross_it(stage: Stage) -> None:
    await stage.ask(
        post(
            headers=(
                b"Connection: keep-alive, X-Hop",
                b"Keep-Alive: timeout=5",
                b"X-Hop: 1",
                b"TE: trailers",
                b"Dedup-Possible-Duplicate: 1",
                b"dedup_attempt: 9",
                b"X-Stays: 1",
            )
        )
    )
    names = [name for name, _ in stage.receiver.last.headers]
    assert names == [b"Host", b"X-Stays", b"Content-Length"]


BODIES = [
    b'{ "b":1.0,"a":"\\u2028 caf\\u00e9 \xc3\xa9 \xf0\x9f\x98\x80", "event_id" : "evt_b1"'
    b',"n":1e2 }\n',
    b'{\r\n\t"event_id":\t"evt_b1"\r\n}\r\n',
    b"",
    b"ping",
    bytes(range(256)) * 3,
    b"\x1f\x8b\x08\x00 only looks like gzip",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.case("B013")
async def test_a_body_arrives_byte_for_byte(stage: Stage, body: bytes) -> None:
    await stage.ask(post(body, headers=(b"Content-Encoding: gzip",)))
    assert stage.receiver.last.body == body
    assert stage.receiver.last.header(b"content-encoding") == b"gzip"
    await stage.ask(chunked_head() + _chunks(body, 7) + LAST_CHUNK)
    assert stage.receiver.last.body == body


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1, MIB, MIB + 1, 20 * MIB, 25 * MIB])
@pytest.mark.case("B018")
async def test_large_bodies_arrive_whole_with_and_without_a_length(stage: Stage, size: int) -> None:
    body = hashlib.sha256(b"seed").digest() * (size // 32) + b"x" * (size % 32)
    assert (await stage.ask(post(body))).status == 200
    assert stage.receiver.last.body == body
    pieces = [chunk(body[i : i + 300_000]) for i in range(0, size, 300_000)]
    assert (await stage.ask(chunked_head(), *pieces, LAST_CHUNK)).status == 200
    assert stage.receiver.last.body == body
    assert stage.ingress._bodies.budget.free == 64 * MIB


async def test_a_body_in_two_hundred_thousand_chunks_arrives_whole(stage: Stage) -> None:
    assert (await stage.ask(chunked_head(), chunk(b"x") * 200_000, LAST_CHUNK)).status == 200
    assert stage.receiver.last.body == b"x" * 200_000


async def test_however_a_stream_is_cut_the_deliveries_are_the_same(stage: Stage) -> None:
    bodies = [b"one", b"", b"x" * 70_000, b"two" * 100, b"last"]
    stream = b"".join(
        post(body) if n % 2 == 0 else chunked_head() + _chunks(body, 13) + LAST_CHUNK
        for n, body in enumerate(bodies)
    )
    for seed in range(30):
        dice = random.Random(seed)
        cuts = sorted(dice.sample(range(len(stream)), dice.randint(1, 12)))
        sender = await stage.connect()
        for start, end in itertools.pairwise([0, *cuts, len(stream)]):
            await sender.send(stream[start:end])
            await asyncio.sleep(0)
        for _ in bodies:
            assert (await sender.reply()).status == 200
        assert [d.body for d in stage.receiver.deliveries] == bodies
        stage.receiver.deliveries.clear()


def _chunks(body: bytes, size: int) -> bytes:
    return b"".join(chunk(body[i : i + size]) for i in range(0, len(body), size))


async def test_trailers_do_not_become_headers(stage: Stage) -> None:
    await stage.ask(chunked_head() + chunk(b"a") + b"0\r\nX-Event-Id: smuggled\r\n\r\n")
    assert stage.receiver.last.header(b"x-event-id") is None
    assert stage.receiver.last.body == b"a"


async def test_peer_scheme_and_method_are_those_of_the_connection(stage: Stage) -> None:
    await stage.ask(b"OPTIONS /hooks/orders HTTP/1.1\r\nHost: h\r\n\r\n")
    delivery = stage.receiver.last
    assert (delivery.method, delivery.peer, delivery.scheme) == ("OPTIONS", "127.0.0.1", "http")


async def test_the_consumers_reply_crosses_byte_for_byte(stage: Stage) -> None:
    stage.receiver.script.append(
        Answered(
            Reply(
                202,
                b"Taken With Thanks",
                (
                    (b"SET-cookie", b"a=1"),
                    (b"Set-Cookie", b"b=2"),
                    (b"Transfer-Encoding", b"chunked"),
                    (b"Connection", b"X-Hop"),
                    (b"X-Hop", b"1"),
                    (b"Link", b"</caf\xe9>"),
                    (b"Dedup-Verdict", b"forged"),
                ),
                b"\x00\xffbody",
            ),
            Verdict.FIRST,
        )
    )
    sender = await stage.connect()
    await sender.send(post(headers=(b"Connection: close",)))
    assert await sender.rest() == (
        b"HTTP/1.1 202 Taken With Thanks\r\n"
        b"SET-cookie: a=1\r\n"
        b"Set-Cookie: b=2\r\n"
        b"Link: </caf\xe9>\r\n"
        b"Content-Length: 6\r\n"
        b"Dedup-Verdict: first\r\n"
        b"Connection: close\r\n"
        b"\r\n"
        b"\x00\xffbody"
    )


async def test_a_reply_of_several_mebibytes_reaches_a_slow_reader(stage: Stage) -> None:
    body = bytes(range(256)) * 4096 * 5
    stage.receiver.script.append(Answered(Reply(200, b"OK", (), body), Verdict.FIRST))
    assert (await stage.ask(post())).body == body


@pytest.mark.case("B019")
async def test_a_reply_to_head_has_no_body_and_the_next_request_is_unharmed(stage: Stage) -> None:
    head = Reply(200, b"OK", ((b"Content-Length", b"1234"),), b"")
    stage.receiver.script.append(Answered(head, Verdict.PASSED))
    sender = await stage.connect()
    await sender.send(b"HEAD /hooks/orders HTTP/1.1\r\nHost: h\r\n\r\n")
    first = await sender.reply(bodiless=True)
    assert (first.status, first.value(b"content-length")) == (200, b"1234")
    await sender.send(post())
    assert (await sender.reply()).body == b"ok"


@pytest.mark.parametrize("status", [204, 304])
async def test_a_reply_without_a_body_is_not_given_a_length(stage: Stage, status: int) -> None:
    stage.receiver.script.append(Answered(Reply(status, b"", (), b""), Verdict.FIRST))
    sender = await stage.connect()
    await sender.send(post() + post())
    assert (await sender.reply()).lines == ((b"Dedup-Verdict", b"first"),)
    assert (await sender.reply()).status == 200


async def test_observe_adds_nothing(stage: Stage) -> None:
    reply = Reply(200, b"OK", ((b"Content-Length", b"2"),), b"ok")
    stage.receiver.script.append(Answered(reply, Verdict.FIRST, visible=False))
    assert (await stage.ask(post())).lines == ((b"Content-Length", b"2"),)
