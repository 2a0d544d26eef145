"""Connections: reused, pipelined, half closed, left alone by their senders."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Busy, Reason, Verdict
from gateway.core.outcome import Reply
from tests.rig.deadline import eventually
from tests.web.stage import LAST_CHUNK, MIB, ROUTE, MakeStage, Stage, chunk, chunked_head, post


async def test_one_connection_carries_many_requests(stage: Stage) -> None:
    sender = await stage.connect()
    for n in range(5):
        await sender.send(post(b"%d" % n))
        answer = await sender.reply()
        assert (answer.status, answer.value(b"connection")) == (200, None)
    assert [d.body for d in stage.receiver.deliveries] == [b"0", b"1", b"2", b"3", b"4"]


async def test_pipelined_requests_are_answered_in_order(stage: Stage) -> None:
    sender = await stage.connect()
    stage.receiver.script.extend([Busy(n) for n in range(100)])
    await sender.send(b"".join(post(b"%d" % n) for n in range(100)))
    for n in range(100):
        assert (await sender.reply()).value(b"retry-after") == b"%d" % n
    assert [d.body for d in stage.receiver.deliveries] == [b"%d" % n for n in range(100)]


async def test_requests_behind_a_slow_one_stay_in_the_kernel(stage: Stage) -> None:
    stage.receiver.gate.clear()
    sender = await stage.connect()
    sender.writer.write(post(b"x" * 60_000) * 200)
    await eventually(lambda: stage.receiver.deliveries, within=5)
    (server_end,) = stage.ingress._connections.all
    await eventually(lambda: server_end._buffer_paused, within=5)
    # Two may wait; the segment that brought the second may have brought the rest of 256 KiB.
    assert len(server_end._messages) <= 2 + 5
    stage.receiver.gate.set()
    for _ in range(200):
        assert (await sender.reply()).status == 200


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"HTTP/1.0\r\n", b"close"),
        (b"HTTP/1.0\r\nConnection: keep-alive\r\n", b"keep-alive"),
        (b"HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", b"close"),
        (b"HTTP/1.1\r\nHost: h\r\n", None),
    ],
)
async def test_a_connection_lasts_as_long_as_its_sender_says(
    stage: Stage, lines: bytes, said: bytes | None
) -> None:
    sender = await stage.connect()
    await sender.send(b"POST /hooks/orders " + lines + b"\r\n")
    answer = await sender.reply()
    assert answer.start == b"HTTP/1.1 200 OK"
    assert answer.value(b"connection") == said
    if said == b"close":
        assert await sender.rest() == b""
    else:
        await sender.send(post())
        assert (await sender.reply()).status == 200


@pytest.mark.row(54)
async def test_a_half_closing_sender_has_its_effect_once_and_never_sees_the_answer(
    stage: Stage,
) -> None:
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await sender.send(post(b"e1"))
    sender.half_close()
    assert await sender.rest() == b""
    stage.receiver.gate.set()
    await eventually(lambda: stage.receiver.ended, within=5)
    assert (await stage.ask(post(b"e1"))).status == 200
    assert [d.body for d in stage.receiver.deliveries] == [b"e1", b"e1"]
    assert not stage.tally.rejections


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_delivery_goes_on_when_its_sender_has_left(stage: Stage, how: str) -> None:
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await sender.send(chunked_head() + chunk(b"x" * 200_000) + LAST_CHUNK)
    await eventually(lambda: stage.receiver.deliveries, within=5)
    await (sender.close() if how == "fin" else sender.reset())
    await eventually(lambda: stage.ingress._connections.all[0].transport is None, within=5)
    stage.receiver.gate.set()
    await eventually(lambda: stage.receiver.ended == 1, within=5)
    assert not stage.tally.rejections
    await eventually(lambda: not len(stage.ingress._connections), within=5)


async def test_a_complete_request_is_handled_though_its_sender_left_before_its_turn(
    stage: Stage,
) -> None:
    sender = await stage.connect()
    await eventually(lambda: stage.ingress._connections.all, within=5)
    (server_end,) = stage.ingress._connections.all
    await eventually(lambda: server_end.idle, within=5)
    server_end.data_received(post(b"e1"))
    server_end.connection_lost(None)
    await eventually(lambda: stage.receiver.ended, within=5)
    assert stage.receiver.last.body == b"e1"
    await sender.close()


async def test_a_sender_that_leaves_while_its_refused_body_is_read_away_is_no_error(
    make_stage: MakeStage,
) -> None:
    stage = await make_stage(route=replace(ROUTE, body_limit=10))
    sender = await stage.connect()
    await sender.send(chunked_head() + chunk(b"x" * 11))
    assert (await sender.reply()).status == 413
    (server_end,) = stage.ingress._connections.all
    server_end.data_received(chunk(b"more"))
    server_end.connection_lost(None)
    await eventually(lambda: not len(stage.ingress._connections), within=5)


async def test_a_body_that_broke_off_before_its_turn_is_no_error(stage: Stage) -> None:
    sender = await stage.connect()
    await eventually(lambda: stage.ingress._connections.all, within=5)
    (server_end,) = stage.ingress._connections.all
    await eventually(lambda: server_end.idle, within=5)
    server_end.data_received(post(b"e1")[:-1])
    server_end.connection_lost(None)
    await eventually(lambda: stage.tally.rejections, within=5)
    assert stage.tally.rejections == {("orders", Reason.BODY_INCOMPLETE): 1}
    await sender.close()


async def test_framing_that_breaks_before_its_turn_ends_the_body_at_once(stage: Stage) -> None:
    sender = await stage.connect()
    await eventually(lambda: stage.ingress._connections.all, within=5)
    (server_end,) = stage.ingress._connections.all
    await eventually(lambda: server_end.idle, within=5)
    server_end.data_received(chunked_head())
    server_end.data_received(b"zz\r\n")
    assert (await asyncio.wait_for(sender.reply(), 3)).status == 400
    assert stage.tally.rejections == {("orders", Reason.MALFORMED): 1}


async def test_a_body_whose_end_came_together_with_its_senders_is_complete(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(post(b"e1")[:-1])
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    (server_end,) = stage.ingress._connections.all
    server_end.data_received(b"1")
    server_end.connection_lost(None)
    await eventually(lambda: stage.receiver.ended, within=5)
    assert stage.receiver.last.body == b"e1"


async def test_a_crash_is_500_logged_counted_and_harms_nobody_else(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.receiver.script.append(ZeroDivisionError("secret detail"))
    sender = await stage.connect()
    await sender.send(post())
    answer = await sender.reply()
    assert (answer.status, json.loads(answer.body)["error"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert stage.tally.rejections == {("orders", Reason.INTERNAL): 1}
    (record,) = caplog.records
    assert (record.message, vars(record)["route"]) == ("request_failed", "orders")
    await sender.send(post())
    assert (await sender.reply()).status == 200


async def test_a_timeout_inside_a_delivery_is_a_crash_like_any_other(stage: Stage) -> None:
    stage.receiver.script.append(TimeoutError())
    assert (await stage.ask(post())).status == 500
    assert stage.tally.reasons == {Reason.INTERNAL: 1}


async def test_a_sender_that_never_reads_its_reply_is_cut_off(make_stage: MakeStage) -> None:
    stage = await make_stage(body_timeout=0.3)
    stage.receiver.script.append(Answered(Reply(200, b"OK", (), b"x" * 64 * MIB), Verdict.FIRST))
    with socket.create_connection(stage.address) as sock:
        sock.sendall(post() * 3)
        await eventually(lambda: stage.receiver.ended, within=5)
        await eventually(lambda: not len(stage.ingress._connections), within=10)
    assert stage.receiver.ended == 1
    assert stage.ingress._in_flight == 0
