"""Connections: reused, pipelined, half closed, too many, drained; the budget for their bodies."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import http_parser, web_protocol

from gateway.core.answer import Answered, Busy, Reason, Verdict
from gateway.core.outcome import Reply
from gateway.web import connection
from gateway.web.body import FREE
from gateway.web.budget import MOST_WAITING, ByteBudget
from gateway.web.connection import UnfitServer
from tests.rig.certificate import self_signed
from tests.rig.deadline import eventually
from tests.web.stage import LAST_CHUNK, MIB, ROUTE, Sender, Stage, chunk, chunked_head, post

EXPECT = b"Expect: 100-continue"
CONTINUE = b"HTTP/1.1 100 Continue"


async def test_one_connection_carries_many_requests(stage: Stage):
    sender = await stage.connect()
    for n in range(5):
        await sender.send(post(b"%d" % n))
        answer = await sender.reply()
        assert (answer.status, answer.value(b"connection")) == (200, None)
    assert [d.body for d in stage.receiver.deliveries] == [b"0", b"1", b"2", b"3", b"4"]


async def test_pipelined_requests_are_answered_in_order(stage: Stage):
    sender = await stage.connect()
    stage.receiver.script.extend([Busy(n) for n in range(100)])
    await sender.send(b"".join(post(b"%d" % n) for n in range(100)))
    for n in range(100):
        assert (await sender.reply()).value(b"retry-after") == b"%d" % n
    assert [d.body for d in stage.receiver.deliveries] == [b"%d" % n for n in range(100)]


async def test_requests_behind_a_slow_one_stay_in_the_kernel(stage: Stage):
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
):
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
async def test_a_half_closing_sender_has_its_effect_once_and_never_sees_the_answer(stage: Stage):
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
async def test_a_delivery_goes_on_when_its_sender_has_left(stage: Stage, how: str):
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


async def test_a_complete_request_is_handled_though_its_sender_left_before_its_turn(stage: Stage):
    sender = await stage.connect()
    await eventually(lambda: stage.ingress._connections.all, within=5)
    (server_end,) = stage.ingress._connections.all
    await eventually(lambda: server_end.idle, within=5)
    server_end.data_received(post(b"e1"))
    server_end.connection_lost(None)
    await eventually(lambda: stage.receiver.ended, within=5)
    assert stage.receiver.last.body == b"e1"
    await sender.close()


async def test_a_sender_that_leaves_while_its_refused_body_is_read_away_is_no_error(make_stage):
    stage = await make_stage(route=replace(ROUTE, body_limit=10))
    sender = await stage.connect()
    await sender.send(chunked_head() + chunk(b"x" * 11))
    assert (await sender.reply()).status == 413
    (server_end,) = stage.ingress._connections.all
    server_end.data_received(chunk(b"more"))
    server_end.connection_lost(None)
    await eventually(lambda: not len(stage.ingress._connections), within=5)


async def test_a_body_whose_end_came_together_with_its_senders_is_complete(stage: Stage):
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
):
    stage.receiver.script.append(ZeroDivisionError("secret detail"))
    sender = await stage.connect()
    await sender.send(post())
    answer = await sender.reply()
    assert (answer.status, json.loads(answer.body)["error"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert stage.tally.rejections == {("orders", Reason.INTERNAL): 1}
    (record,) = caplog.records
    assert (record.message, record.route) == ("request_failed", "orders")
    await sender.send(post())
    assert (await sender.reply()).status == 200


async def test_a_timeout_inside_a_delivery_is_a_crash_like_any_other(stage: Stage):
    stage.receiver.script.append(TimeoutError())
    assert (await stage.ask(post())).status == 500
    assert stage.tally.reasons == {Reason.INTERNAL: 1}


async def test_a_body_is_invited_when_the_sender_waits_for_it(stage: Stage):
    sender = await stage.connect()
    await sender.send(post(b"body", headers=(EXPECT,))[:-4])
    assert (await sender.reply()).start == CONTINUE
    await sender.send(b"body")
    assert (await sender.reply()).status == 200
    assert stage.receiver.last.body == b"body"
    assert stage.receiver.last.header(b"expect") is None


async def test_an_unwanted_body_is_not_invited(stage: Stage):
    for parts in (
        post(b"x", target=b"/elsewhere", headers=(EXPECT,))[:-1],
        post(b"", headers=(EXPECT,)).replace(b"Length: 0", b"Length: 99999999"),
    ):
        sender = await stage.connect()
        await sender.send(parts)
        answer = await sender.reply()
        assert (answer.status in (404, 413), answer.closes) == (True, True)
        assert await sender.rest() == b""


async def test_a_body_that_is_here_needs_no_invitation(stage: Stage):
    sender = await stage.connect()
    await sender.send(post(b"body", headers=(EXPECT,)))
    assert (await sender.reply()).status == 200
    old = b"POST /hooks/orders HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    sender = await stage.connect()
    await sender.send(old)
    await eventually(lambda: stage.tally.requests["orders"] == 2, within=5)
    await sender.send(b"body")
    assert (await sender.reply()).status == 200


async def test_connections_beyond_the_cap_are_closed_unread_and_counted(make_stage):
    stage = await make_stage(connections=3)
    first = [await stage.connect() for _ in range(3)]
    await eventually(lambda: len(stage.ingress._connections) == 3, within=5)
    beyond = await stage.connect()
    assert await beyond.rest() == b""
    assert stage.tally.rejections == {("", Reason.OVERLOADED): 1}
    assert stage.tally.requests == {"": 1}
    await first[0].send(post())
    assert (await first[0].reply()).status == 200
    await first[0].close()
    await eventually(lambda: len(stage.ingress._connections) == 2, within=5)
    assert (await stage.ask(post())).status == 200


async def test_a_sender_that_never_reads_its_reply_is_cut_off(make_stage):
    stage = await make_stage(body_timeout=0.3)
    stage.receiver.script.append(Answered(Reply(200, b"OK", (), b"x" * 64 * MIB), Verdict.FIRST))
    with socket.create_connection(stage.address) as sock:
        sock.sendall(post() * 3)
        await eventually(lambda: stage.receiver.ended, within=5)
        await eventually(lambda: not len(stage.ingress._connections), within=10)
    assert stage.receiver.ended == 1
    assert stage.ingress._in_flight == 0


async def _large_body(stage: Stage, size: int) -> Sender:
    """A sender of `size` bytes that has sent all it could so far."""
    sender = await stage.connect()
    sender.writer.write(post(b"x" * size))
    return sender


async def test_large_bodies_wait_their_turn_and_all_get_through(make_stage):
    stage = await make_stage(body_memory=2 * MIB)
    stage.receiver.gate.clear()
    senders = [await _large_body(stage, MIB) for _ in range(6)]
    await eventually(lambda: len(stage.receiver.deliveries) == 2, within=10)
    assert stage.ingress._bodies.budget.free == 0
    assert (await _small(stage)) == 200
    stage.receiver.gate.set()
    for sender in senders:
        assert (await sender.reply()).status == 200
    assert stage.ingress._bodies.budget.free == 2 * MIB


async def _small(stage: Stage) -> int:
    """A body within the free part passes whatever the others hold."""
    stage.receiver.gate.set()
    answer = await stage.ask(post(b"x" * FREE))
    return answer.status


async def test_who_waits_too_long_for_room_is_told_to_come_again(make_stage, monkeypatch):
    monkeypatch.setattr("gateway.web.body.LONGEST_WAIT_FOR_ROOM", 0.2)
    stage = await make_stage(body_memory=MIB)
    stage.receiver.gate.clear()
    holder = await _large_body(stage, MIB)
    await eventually(lambda: stage.receiver.deliveries, within=5)
    refused = await _large_body(stage, MIB)
    answer = await refused.reply()
    assert (answer.status, answer.value(b"retry-after"), answer.closes) == (503, b"5", True)
    assert stage.tally.rejections == {("orders", Reason.OVERLOADED): 1}
    stage.receiver.gate.set()
    assert (await holder.reply()).status == 200
    assert stage.ingress._bodies.budget.free == MIB


async def test_a_dripping_sender_holds_nothing_before_its_first_64_kib(stage: Stage):
    senders = []
    for _ in range(10):
        sender = await stage.connect()
        await sender.send(post(b"x" * 20 * MIB)[: FREE - 1000])
        senders.append(sender)
    await eventually(lambda: stage.tally.requests["orders"] == 10, within=5)
    assert stage.ingress._bodies.budget.free == 64 * MIB


async def test_a_chunked_body_reserves_the_limit_and_keeps_what_it_needs(stage: Stage):
    stage.receiver.gate.clear()
    budget = stage.ingress._bodies.budget
    sender = await stage.connect()
    await sender.send(chunked_head(), chunk(b"x" * MIB))
    await eventually(lambda: budget.free == (64 - 25) * MIB, within=5)
    await sender.send(LAST_CHUNK)
    await eventually(lambda: stage.receiver.deliveries, within=5)
    assert budget.free == 63 * MIB
    stage.receiver.gate.set()
    assert (await sender.reply()).status == 200
    assert budget.free == 64 * MIB


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_sender_that_leaves_gives_its_reservation_back(stage: Stage, how: str):
    budget = stage.ingress._bodies.budget
    sender = await stage.connect()
    await sender.send(post(b"x" * 20 * MIB)[: 2 * MIB])
    await eventually(lambda: budget.free == 44 * MIB, within=5)
    await (sender.close() if how == "fin" else sender.reset())
    await eventually(lambda: budget.free == 64 * MIB, within=5)


async def test_a_large_wish_is_not_overtaken_by_small_ones():
    budget = ByteBudget(10)
    assert await budget.take(6, timeout=1)
    large = asyncio.create_task(budget.take(8, timeout=1))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(1, timeout=1))
    await asyncio.sleep(0)
    assert not small.done()
    budget.give_back(6)
    assert (await large, await small, budget.free) == (True, True, 1)


async def test_a_wish_that_is_given_up_lets_the_next_one_in():
    budget = ByteBudget(10)
    assert await budget.take(6, timeout=1)
    large = asyncio.create_task(budget.take(8, timeout=5))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(4, timeout=5))
    await asyncio.sleep(0)
    large.cancel()
    assert await asyncio.wait_for(small, 1)
    assert budget.free == 0
    assert not await budget.take(1, timeout=0.01)
    budget.give_back(10)
    assert budget.free == 10


async def test_a_wish_that_is_cancelled_as_it_is_granted_gives_back():
    budget = ByteBudget(10)
    assert await budget.take(10, timeout=1)
    wish = asyncio.create_task(budget.take(5, timeout=5))
    await asyncio.sleep(0)
    budget.give_back(10)
    wish.cancel()
    await asyncio.wait([wish])
    assert budget.free == 10


async def test_only_so_many_may_wait():
    budget = ByteBudget(1)
    assert await budget.take(1, timeout=1)
    waiting = [asyncio.create_task(budget.take(1, timeout=5)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    assert not await budget.take(1, timeout=5)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_while_draining_requests_are_taken_and_connections_end(stage: Stage):
    sender = await stage.connect()
    await sender.send(post())
    assert not (await sender.reply()).closes
    stage.ingress.drain()
    await sender.send(post())
    assert (await sender.reply()).closes
    assert await sender.rest() == b""
    assert (await stage.ask(post())).closes


async def test_after_listening_ends_the_idle_go_the_busy_finish_and_newcomers_are_refused(
    stage: Stage,
):
    stage.receiver.gate.clear()
    idle, busy = await stage.connect(), await stage.connect()
    stage.receiver.gate.set()
    await idle.send(post())
    await idle.reply()
    stage.receiver.gate.clear()
    await busy.send(post(b"busy"))
    await eventually(lambda: len(stage.receiver.deliveries) == 2, within=5)
    await stage.ingress.stop_listening()
    assert await asyncio.wait_for(idle.rest(), 0.5) == b""
    with pytest.raises(ConnectionRefusedError):
        await stage.connect()
    assert not await stage.ingress.wait_idle(0.1)
    stage.receiver.gate.set()
    answer = await busy.reply()
    assert (answer.status, answer.closes) == (200, True)
    assert await stage.ingress.wait_idle(5)


async def test_a_body_that_is_arriving_when_listening_ends_is_still_delivered(stage: Stage):
    sender = await stage.connect()
    whole = post(b"x" * 200_000)
    await sender.send(whole[:100_000])
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    await stage.ingress.stop_listening()
    await sender.send(whole[100_000:])
    assert (await sender.reply()).status == 200
    assert len(stage.receiver.last.body) == 200_000


async def test_connections_that_were_never_asked_anything_are_served_once_more(stage: Stage):
    fresh = [await stage.connect() for _ in range(20)]
    await stage.ingress.stop_listening()  # some of them are still in the accept queue
    waiting = asyncio.create_task(stage.ingress.wait_idle(5))
    for sender in fresh:
        await sender.send(post())
    for sender in fresh:
        answer = await sender.reply()
        assert (answer.status, answer.closes) == (200, True)
    assert await waiting


async def test_connections_that_bring_nothing_do_not_hold_up_the_end(stage: Stage):
    silent = await stage.connect()
    await stage.ingress.stop_listening()
    assert await stage.ingress.wait_idle(5)
    assert await silent.rest() == b""


async def test_closing_breaks_off_what_would_not_end(stage: Stage):
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await sender.send(post())
    await eventually(lambda: stage.receiver.deliveries, within=5)
    await stage.ingress.stop_listening()
    await asyncio.wait_for(stage.ingress.close(), 2)
    assert await sender.rest() == b""
    assert await stage.ingress.wait_idle(1)
    assert not stage.receiver.ended


async def test_a_tls_listener_says_https_and_stands_beside_a_plain_one(
    stage: Stage, tmp_path: Path
):
    cert, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    host, port = await stage.ingress.listen("127.0.0.1", 0, context)
    trusting = ssl.create_default_context(cafile=str(cert))
    opened = await asyncio.open_connection(host, port, ssl=trusting, server_hostname="localhost")
    sender = Sender(*opened)
    stage._senders.append(sender)
    await sender.send(post(b"x" * 300_000))
    assert (await sender.reply()).status == 200
    assert (stage.receiver.last.scheme, stage.receiver.last.peer) == ("https", "127.0.0.1")
    assert len(stage.receiver.last.body) == 300_000
    await stage.ask(post())
    assert stage.receiver.last.scheme == "http"


async def test_an_address_in_use_is_an_error(stage: Stage):
    with pytest.raises(OSError, match="in use"):
        await stage.ingress.listen(*stage.address)


async def test_a_server_without_the_c_parser_does_not_start(make_stage, monkeypatch):
    monkeypatch.setattr(connection, "HttpRequestParser", http_parser.HttpRequestParserPy)
    with pytest.raises(UnfitServer, match="C parser"):
        await make_stage()


async def test_a_server_that_inflates_bodies_does_not_start(make_stage, monkeypatch):
    real = web_protocol.HttpRequestParser

    def inflating(*args: object, **kwargs: object) -> object:
        return real(*args, **{**kwargs, "auto_decompress": True})

    monkeypatch.setattr(web_protocol, "HttpRequestParser", inflating)
    with pytest.raises(UnfitServer, match="changes requests"):
        await make_stage()


async def test_settings_that_did_not_take_do_not_start(make_stage, monkeypatch):
    original = web_protocol.RequestHandler.__init__

    def deaf(self, *args: object, **kwargs: object) -> None:
        original(self, *args, **{**kwargs, "max_headers": 128})

    monkeypatch.setattr(web_protocol.RequestHandler, "__init__", deaf)
    with pytest.raises(UnfitServer, match="128"):
        await make_stage()
