"""Replies of every framing, and what the connection is good for afterwards."""

from __future__ import annotations

import pytest

from gateway.core.outcome import Delivered, Refused, Reply
from gateway.upstream.hop import Hop
from tests.upstream.requests import BODY, NO_BODY, OK, Request, answers_ok, hop_to
from tests.upstream.scripted import Act, Peer, ScriptedConsumer

H = b"HTTP/1.1 200 OK\r\n"
CHUNKED = (b"Transfer-Encoding", b"chunked")


def says(data: bytes, *, closes: bool = False) -> Act:
    """Reads the request and answers."""

    async def act(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(data)
        if closes:
            peer.close()

    return act


def ok(body: bytes, *headers: tuple[bytes, bytes], reason: bytes = b"OK") -> Reply:
    """A complete 200."""
    return Reply(200, reason, headers, body)


KEPT = {
    "length": (OK, ok(b"ok", (b"Content-Length", b"2"))),
    "no body": (H + b"content-length: 0\r\n\r\n", ok(b"", (b"content-length", b"0"))),
    "chunks": (
        H + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n1\r\n!\r\n0\r\nX-Event: 2\r\n\r\n",
        ok(b"ok!", CHUNKED),
    ),
    "chunk sizes with spaces behind": (
        H + b"Transfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\n\r\n",
        ok(b"ok", CHUNKED),
    ),
    "interim replies first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        ok(b"ok", (b"Content-Length", b"2")),
    ),
    "204": (b"HTTP/1.1 204 None\r\n\r\n", Reply(204, b"None", (), b"")),
    "204 with a length": (
        b"HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\n",
        Reply(204, b"None", ((b"Content-Length", b"2"),), b""),
    ),
    "headers in order, case and number": (
        H + b"x-b: 1\r\nX-A: 2\r\nX-B:  3 \r\nSet-Cookie: a\r\nset-cookie: b\r\n"
        b"X-Empty:\r\nX-Latin: \xe9\xff\r\nContent-Length: 0\r\n\r\n",
        ok(
            b"",
            (b"x-b", b"1"),
            (b"X-A", b"2"),
            (b"X-B", b"3 "),
            (b"Set-Cookie", b"a"),
            (b"set-cookie", b"b"),
            (b"X-Empty", b""),
            (b"X-Latin", b"\xe9\xff"),
            (b"Content-Length", b"0"),
        ),
    ),
    "a reason of its own": (
        b"HTTP/1.1 200 Gern  geschehen \xe9\r\nContent-Length: 0\r\n\r\n",
        ok(b"", (b"Content-Length", b"0"), reason=b"Gern  geschehen \xe9"),
    ),
    "no reason": (
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        ok(b"", (b"Content-Length", b"0"), reason=b""),
    ),
    "control characters, which nobody may write on": (
        b"HTTP/1.1 200 O\x00K\r\nX: a\x01b\r\nY: a\tb\r\nZ: \x7f\r\nContent-Length: 0\r\n\r\n",
        ok(b"", (b"Y", b"a\tb"), (b"Content-Length", b"0"), reason=b""),
    ),
    "bare line feeds": (
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        ok(b"ok", (b"Content-Length", b"2")),
    ),
    "1.0 that stays": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        ok(b"ok", (b"Connection", b"keep-alive"), (b"Content-Length", b"2")),
    ),
    "a compressed body, as it came": (
        H + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00",
        ok(b"\x1f\x8b\x00", (b"Content-Encoding", b"gzip"), (b"Content-Length", b"3")),
    ),
}

CLOSED = {
    "until close": (H + b"\r\nok", ok(b"ok")),
    "until close, empty": (H + b"\r\n", ok(b"")),
    "1.0": (
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ok(b"ok", (b"Content-Length", b"2")),
    ),
    "close announced": (
        H + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        ok(b"ok", (b"Connection", b"close"), (b"Content-Length", b"2")),
    ),
    "a keep-alive too short to be used": (
        H + b"Keep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
        ok(b"ok", (b"Keep-Alive", b"timeout=1"), (b"Content-Length", b"2")),
    ),
}


@pytest.mark.parametrize(("data", "reply"), KEPT.values(), ids=KEPT)
async def test_a_reply_crosses_as_it_came_and_its_connection_is_used_again(
    data: bytes, reply: Reply, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    consumer.plays(says(data), says(data))

    assert await BODY.over(hop) == Delivered(reply)
    assert await BODY.over(hop) == Delivered(reply)

    assert consumer.requests == [BODY.wire, BODY.wire]
    assert consumer.connections == 1


@pytest.mark.parametrize(("data", "reply"), CLOSED.values(), ids=CLOSED)
async def test_a_reply_that_ends_its_connection_is_complete_and_the_next_request_gets_a_new_one(
    data: bytes, reply: Reply, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    consumer.plays(says(data, closes=True), answers_ok)

    assert await BODY.over(hop) == Delivered(reply)
    assert hop.idle == 0
    await BODY.over(hop)

    assert consumer.requests == [BODY.wire, BODY.wire]
    assert consumer.connections == 2


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 7000", b"Transfer-Encoding: chunked", b"X: y"]
)
async def test_a_reply_to_head_has_no_body_whatever_its_lines_say(
    framing: bytes, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    consumer.plays(says(b"HTTP/1.1 103 Hint\r\n\r\n" + H + framing + b"\r\n\r\n"))
    head = Request(b"", method="HEAD")

    name, _, value = framing.partition(b": ")
    assert await head.over(hop) == Delivered(ok(b"", (name, value)))
    assert consumer.requests == [head.wire]


@pytest.mark.parametrize("status", [304, 300, 302])
async def test_nothing_is_followed(
    status: int, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    consumer.plays(says(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n" % status))

    lines = ((b"Content-Length", b"0"), (b"Location", b"/x"))
    assert await BODY.over(hop) == Refused(Reply(status, b"X", lines, b""), doubtful=True)
    assert consumer.requests == [BODY.wire]


async def test_nothing_is_remembered_from_one_reply_to_the_next_request(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    consumer.plays(says(cookie), answers_ok)

    await NO_BODY.over(hop)
    await NO_BODY.over(hop)

    assert consumer.requests == [NO_BODY.wire, NO_BODY.wire]


async def test_an_answer_before_the_whole_body_is_taken_and_its_connection_is_not_used_again(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    big = Request(bytes(20 * 2**20))

    async def judges_by_the_head(peer: Peer) -> None:
        await peer.read_head()
        await peer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await peer.until_closed()

    consumer.plays(judges_by_the_head)

    reply = Reply(413, b"Too Large", ((b"Content-Length", b"0"),), b"")
    assert await big.over(hop) == Refused(reply, doubtful=False)
    assert (hop.in_use, hop.idle) == (0, 0)
    assert len(consumer.requests[0]) < len(big.wire)


async def test_a_large_body_and_a_large_reply_cross_whole(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, max_reply=8 * 2**20)
    hops.append(hop)
    content = bytes(range(256)) * 2**15
    big = Request(content)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)
    consumer.plays(says(answer), answers_ok)

    outcome = await big.over(hop)
    assert isinstance(outcome, Delivered)
    assert outcome.reply.body == content
    assert consumer.requests == [big.wire]
    await BODY.over(hop)
    assert consumer.connections == 1
