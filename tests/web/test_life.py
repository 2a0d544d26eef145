"""Starting and ending: listeners, the cap, the drain, and what does not start at all."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import http_parser, web_protocol

from gateway.core.answer import Reason
from gateway.web import connection
from gateway.web.connection import UnfitServer
from tests.rig.certificate import self_signed
from tests.rig.deadline import eventually
from tests.web.stage import MakeStage, Sender, Stage, post


async def test_connections_beyond_the_cap_are_closed_unread_and_counted(
    make_stage: MakeStage,
) -> None:
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


async def test_while_draining_requests_are_taken_and_connections_end(stage: Stage) -> None:
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
) -> None:
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


async def test_a_body_that_is_arriving_when_listening_ends_is_still_delivered(stage: Stage) -> None:
    sender = await stage.connect()
    whole = post(b"x" * 200_000)
    await sender.send(whole[:100_000])
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    await stage.ingress.stop_listening()
    await sender.send(whole[100_000:])
    assert (await sender.reply()).status == 200
    assert len(stage.receiver.last.body) == 200_000


async def test_connections_that_were_never_asked_anything_are_served_once_more(
    stage: Stage,
) -> None:
    fresh = [await stage.connect() for _ in range(20)]
    await eventually(lambda: len(stage.ingress._connections) == 20, within=5)
    await stage.ingress.stop_listening()
    assert not await stage.ingress.wait_idle(0.05)
    waiting = asyncio.create_task(stage.ingress.wait_idle(5))
    for sender in fresh:
        await sender.send(post())
    for sender in fresh:
        answer = await sender.reply()
        assert (answer.status, answer.closes) == (200, True)
    assert await waiting


async def test_connections_in_the_accept_queue_are_not_reset(stage: Stage) -> None:
    # Opened without a turn of the loop in between, so that nobody has accepted them.
    queued = [socket.create_connection(stage.address) for _ in range(20)]
    await stage.ingress.stop_listening()
    for sock in queued:
        sender = Sender(*await asyncio.open_connection(sock=sock))
        stage._senders.append(sender)
        await sender.send(post())
        assert (await sender.reply()).status == 200
    assert await stage.ingress.wait_idle(5)


async def test_connections_that_bring_nothing_do_not_hold_up_the_end(stage: Stage) -> None:
    silent = await stage.connect()
    await stage.ingress.stop_listening()
    assert await stage.ingress.wait_idle(5)
    assert await silent.rest() == b""


async def test_closing_breaks_off_what_would_not_end(stage: Stage) -> None:
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
) -> None:
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


async def test_an_address_in_use_is_an_error(stage: Stage) -> None:
    with pytest.raises(OSError, match="in use"):
        await stage.ingress.listen(*stage.address)


async def test_a_server_without_the_c_parser_does_not_start(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HttpRequestParser", http_parser.HttpRequestParserPy)
    with pytest.raises(UnfitServer, match="C parser"):
        await make_stage()


async def test_a_server_that_inflates_bodies_does_not_start(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vars(web_protocol)["HttpRequestParser"]

    def inflating(*args: Any, **kwargs: Any) -> object:
        return real(*args, **{**kwargs, "auto_decompress": True})

    monkeypatch.setattr(web_protocol, "HttpRequestParser", inflating)
    with pytest.raises(UnfitServer, match="changes requests"):
        await make_stage()


async def test_settings_that_did_not_take_do_not_start(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., None] = web_protocol.RequestHandler.__init__

    def deaf(self: object, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "max_headers": 128})

    monkeypatch.setattr(web_protocol.RequestHandler, "__init__", deaf)
    with pytest.raises(UnfitServer, match="128"):
        await make_stage()
