"""What is refused before anybody could claim it: a clear 4xx, one counter, nothing received."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gateway.core.answer import Reason
from gateway.core.route import Mode
from tests.rig.deadline import eventually
from tests.web.stage import LAST_CHUNK, MIB, ROUTE, MakeStage, Stage, chunk, chunked_head, post


async def refused(stage: Stage, *parts: bytes, status: int, reason: Reason) -> None:
    """Sent, answered so, counted once, unseen by the receiver, and a newcomer is served."""
    answer = await stage.ask(*parts)
    assert answer.status == status
    said = json.loads(answer.body)
    assert said["error"] == reason.value
    assert said["detail"].isascii()
    assert answer.value(b"dedup-verdict") is None
    assert answer.value(b"server") is None
    assert stage.tally.reasons == {reason: 1}
    assert stage.tally.requests.total() == 1
    assert not stage.receiver.deliveries
    assert (await stage.ask(post())).status == 200


MALFORMED = {
    "length and coding": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
    "two different lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "a list of lengths": b"Content-Length: 4, 4\r\n\r\nbody",
    "a signed length": b"Content-Length: +4\r\n\r\nbody",
    "a hexadecimal length": b"Content-Length: 0x4\r\n\r\nbody",
    "a negative length": b"Content-Length: -4\r\n\r\nbody",
    "an empty length": b"Content-Length:\r\n\r\nbody",
    "a length past 64 bits": b"Content-Length: 99999999999999999999\r\n\r\nbody",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding after chunked": b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "gzip as coding": b"Transfer-Encoding: gzip\r\n\r\nbody",
    "a folded line": b"X-A: 1\r\n 2\r\n\r\n",
    "a bare line feed": b"X-A: 1\nX-B: 2\r\n\r\n",
    "a bare carriage return": b"X-A: 1\rX-B: 2\r\n\r\n",
    "a NUL in a value": b"X-A: a\x00b\r\n\r\n",
    "a control character in a value": b"X-A: a\x01b\r\n\r\n",
    "a space before the colon": b"X-A : 1\r\n\r\n",
    "a space in a name": b"X A: 1\r\n\r\n",
    "an empty name": b": 1\r\n\r\n",
    "a bad chunk size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a signed chunk size": b"Transfer-Encoding: chunked\r\n\r\n+4\r\nbody\r\n0\r\n\r\n",
    "a chunk longer than its size": b"Transfer-Encoding: chunked\r\n\r\n2\r\nbody\r\n0\r\n\r\n",
    "two hosts": b"Host: other\r\n\r\n",
    "two content types": b"Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n",
    "two user agents": b"User-Agent: a\r\nUser-Agent: b\r\n\r\n",
}


@pytest.mark.parametrize("rest", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.row(4)
async def test_malformed_framing_is_refused_and_unseen(stage: Stage, rest: bytes) -> None:
    head = b"POST /hooks/orders HTTP/1.1\r\nHost: h\r\n"
    await refused(stage, head + rest, status=400, reason=Reason.MALFORMED)


@pytest.mark.parametrize(
    "start",
    [
        b"post /hooks/orders HTTP/1.1",
        b"FOO /hooks/orders HTTP/1.1",
        b"POST /hooks/or\xc3\xa9ders HTTP/1.1",
        b"POST /hooks/orders x HTTP/1.1",
        b"POST  HTTP/1.1",
        b"POST /hooks/orders HTTP/2.0",
        b"POST /hooks/orders HTTP/0.9",
        b"POST /hooks/orders HTTP/1.2",
        b"POST /hooks/orders",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0",
    ],
)
async def test_an_odd_request_line_is_malformed(stage: Stage, start: bytes) -> None:
    parts = start + b"\r\nHost: h\r\n\r\n"
    await refused(stage, parts, status=400, reason=Reason.MALFORMED)


async def test_a_request_without_host_is_malformed_on_http_1_1_only(stage: Stage) -> None:
    answer = await stage.ask(b"POST /hooks/orders HTTP/1.1\r\n\r\n")
    assert (answer.status, stage.tally.reasons) == (400, {Reason.MALFORMED: 1})
    assert (await stage.ask(b"POST /hooks/orders HTTP/1.0\r\n\r\n")).status == 200


@pytest.mark.parametrize(
    "start",
    [
        b"POST http://evil.example/hooks/orders HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT evil.example:443 HTTP/1.1",
        b"POST /hooks/orders#fragment HTTP/1.1",
        b"POST /hooks/orders?a=1#fragment HTTP/1.1",
    ],
)
@pytest.mark.row(4)
async def test_a_target_that_is_not_a_path_is_refused(stage: Stage, start: bytes) -> None:
    parts = start + b"\r\nHost: h\r\n\r\n"
    await refused(stage, parts, status=400, reason=Reason.TARGET)


async def test_a_target_without_scheme_slashes_is_malformed(stage: Stage) -> None:
    start = b"POST hooks/orders HTTP/1.1\r\nHost: h\r\n\r\n"
    await refused(stage, start, status=400, reason=Reason.MALFORMED)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /hooks/orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST /hooks/orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
        b"POST /hooks/orders HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
@pytest.mark.row(4)
async def test_a_transfer_coding_other_than_chunked_is_refused(stage: Stage, head: bytes) -> None:
    await refused(stage, head + b"0\r\n\r\n", status=501, reason=Reason.TRANSFER_CODING)


async def test_framing_that_breaks_behind_the_head_ends_the_body_at_once(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(chunked_head() + chunk(b"a" * 10))
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    await sender.send(b"zz\r\n")
    answer = await asyncio.wait_for(sender.reply(), 3)
    assert (answer.status, answer.closes) == (400, True)
    assert await sender.rest() == b""
    assert stage.tally.reasons == {Reason.MALFORMED: 1}
    assert not stage.receiver.deliveries


@pytest.mark.parametrize(
    "lines",
    [
        b"X-A: " + b"v" * 8200,
        b"X-" + b"N" * 8200 + b": v",
        b"\r\n".join(b"X-%d: v" % n for n in range(65)),
    ],
    ids=["value", "name", "number"],
)
async def test_heads_beyond_the_limits_are_refused(stage: Stage, lines: bytes) -> None:
    parts = b"POST /hooks/orders HTTP/1.1\r\nHost: h\r\n" + lines + b"\r\n\r\n"
    await refused(stage, parts, status=431, reason=Reason.HEADERS_TOO_LARGE)


async def test_a_target_beyond_the_limit_is_refused(stage: Stage) -> None:
    parts = post(target=b"/hooks/orders?" + b"q" * 8200)
    await refused(stage, parts, status=431, reason=Reason.HEADERS_TOO_LARGE)


async def test_refusals_echo_nothing_of_the_request(stage: Stage) -> None:
    for parts in (
        b"POST /secret-path HTTP/1.1\r\nHost: secret-host\r\nSecret Line: x\r\n\r\n",
        post(target=b"/secret-path"),
        post(headers=(b"Connection: Host, secret-token",)),
    ):
        answer = await stage.ask(parts)
        assert b"ecret" not in answer.start + answer.body
        assert answer.status // 100 == 4


async def test_a_path_without_a_route_is_404_and_the_connection_goes_on(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(post(b"x", target=b"/elsewhere"))
    answer = await sender.reply()
    assert (answer.status, json.loads(answer.body)["error"]) == (404, "no_route")
    await sender.send(post())
    assert (await sender.reply()).status == 200
    assert stage.tally.rejections == {("", Reason.NO_ROUTE): 1}
    assert stage.tally.requests == {"": 1, "orders": 1}


@pytest.mark.parametrize(
    "nominated", [b"Host", b"Content-Length", b"x-event-id", b"X-Forwarded-For", b"Dedup-Attempt"]
)
async def test_a_nominated_line_that_decides_is_refused(stage: Stage, nominated: bytes) -> None:
    parts = post(headers=(b"X-Event-Id: e1", b"Connection: close, " + nominated))
    await refused(stage, parts, status=400, reason=Reason.NOMINATION)


async def test_in_observe_a_nominated_id_is_dropped_like_any_line(make_stage: MakeStage) -> None:
    stage = await make_stage(route=replace(ROUTE, mode=Mode.OBSERVE))
    parts = post(headers=(b"X-Event-Id: e1", b"Connection: X-Event-Id"))
    assert (await stage.ask(parts)).status == 200
    assert stage.receiver.last.header(b"x-event-id") is None


@pytest.mark.row(3)
async def test_a_declared_length_over_the_limit_is_refused_before_the_body(
    make_stage: MakeStage,
) -> None:
    stage = await make_stage(route=replace(ROUTE, body_limit=1000))
    sender = await stage.connect()
    await sender.send(post(b"x" * 1001)[:-1001])  # the head alone
    answer = await sender.reply()
    assert (answer.status, answer.closes) == (413, True)
    assert await sender.rest() == b""
    assert stage.tally.rejections == {("orders", Reason.BODY_TOO_LARGE): 1}
    assert not stage.receiver.deliveries


@pytest.mark.row(3)
@pytest.mark.case("B018")
async def test_a_body_over_the_limit_is_413_and_the_refusal_reaches_the_sender(
    make_stage: MakeStage,
) -> None:
    stage = await make_stage(route=replace(ROUTE, body_limit=MIB))
    assert (await stage.ask(post(b"x" * MIB))).status == 200
    for parts in (
        (post(b"x" * (MIB + 1)),),
        (chunked_head(), chunk(b"x" * (MIB + 1)), LAST_CHUNK),
        (chunked_head(), chunk(b"x" * MIB), chunk(b"x"), LAST_CHUNK),
    ):
        answer = await stage.ask(*parts)
        assert (answer.status, answer.closes) == (413, True)
    assert stage.tally.reasons == {Reason.BODY_TOO_LARGE: 3}
    assert len(stage.receiver.deliveries) == 1
    assert stage.ingress._bodies.budget.free == stage.ingress._bodies.budget.total


@pytest.mark.row(3)
async def test_a_chunked_body_over_the_limit_in_one_piece_is_413_too(make_stage: MakeStage) -> None:
    stage = await make_stage(route=replace(ROUTE, body_limit=1000))
    assert (await stage.ask(chunked_head() + chunk(b"x" * 1001) + LAST_CHUNK)).status == 413
    assert (await stage.ask(chunked_head() + chunk(b"x" * 1000) + LAST_CHUNK)).status == 200


@pytest.mark.row(2)
async def test_a_body_that_stalls_is_408(make_stage: MakeStage) -> None:
    stage = await make_stage(body_timeout=0.3)
    for parts in (post(b"x" * 100)[:-98], chunked_head() + chunk(b"x")):
        sender = await stage.connect()
        await sender.send(parts)
        answer = await sender.reply()
        assert (answer.status, answer.closes) == (408, True)
        assert await sender.rest() == b""
    assert stage.tally.rejections == {("orders", Reason.BODY_TIMEOUT): 2}
    assert not stage.receiver.deliveries


@pytest.mark.row(2)
async def test_a_body_that_drips_is_408_too(make_stage: MakeStage) -> None:
    stage = await make_stage(body_timeout=0.5)
    sender = await stage.connect()
    await sender.send(post(b"x" * 100)[:-100])

    async def drip() -> None:
        while True:
            await sender.send(b"x")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    assert (await sender.reply()).status == 408
    dripping.cancel()
    assert stage.tally.reasons == {Reason.BODY_TIMEOUT: 1}


@pytest.mark.row(1)
@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("start", [post(b"x" * 100)[:-50], chunked_head() + chunk(b"x" * 50)])
async def test_a_sender_that_leaves_in_the_middle_of_its_body_left_no_trace(
    stage: Stage, how: str, start: bytes
) -> None:
    sender = await stage.connect()
    await sender.send(start)
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    await (sender.close() if how == "fin" else sender.reset())
    await eventually(lambda: stage.tally.reasons, within=5)
    assert stage.tally.rejections == {("orders", Reason.BODY_INCOMPLETE): 1}
    assert not stage.receiver.deliveries
    await eventually(lambda: stage.ingress._in_flight == 0, within=5)


async def test_a_sender_that_leaves_in_the_middle_of_its_head_is_no_request(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(b"POST /hooks/orders HTTP/1.1\r\nHo")
    await eventually(lambda: len(stage.ingress._connections), within=5)
    await sender.close()
    await eventually(lambda: not len(stage.ingress._connections), within=5)
    assert not stage.tally.requests


async def test_a_head_that_does_not_come_ends_the_connection(make_stage: MakeStage) -> None:
    stage = await make_stage(idle_timeout=0.3)
    silent, slow = await stage.connect(), await stage.connect()
    await slow.send(b"POST /hooks/orders HTTP/1.1\r\n")
    assert await silent.rest() == b""
    assert await slow.rest() == b""
