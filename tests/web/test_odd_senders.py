"""Senders that are legal and odd: upgrades they hope for, bodies in crumbs, heads at the limit."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from gateway.core.answer import Answered, Verdict
from gateway.core.outcome import Reply
from tests.rig.certificate import self_signed
from tests.rig.deadline import eventually
from tests.web.stage import LAST_CHUNK, MIB, MakeStage, Stage, chunk, chunked_head, post

H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
WEBSOCKET = (b"Connection: Upgrade", b"Upgrade: websocket")


@pytest.mark.parametrize("hoped", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("body", [b"", b'{"event_id": 1}', b"x" * 300_000], ids=len)
async def test_a_sender_that_hopes_for_an_upgrade_is_served_as_it_is(
    body: bytes, split: bool, hoped: tuple[bytes, ...], stage: Stage
) -> None:
    request = post(body, headers=hoped)
    head = request[: len(request) - len(body)]
    sender = await stage.connect()
    if split:
        await sender.send(head)
        await asyncio.sleep(0.02)
        await sender.send(body)
    else:
        await sender.send(request)
    answer = await sender.reply()
    assert answer.status == 200
    assert stage.receiver.last.body == body
    assert not [
        n for n, _ in stage.receiver.last.headers if n.lower() in (b"upgrade", b"connection")
    ]
    assert answer.closes
    assert await sender.rest() == b""


@pytest.mark.parametrize("hoped", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
async def test_what_comes_behind_a_hoped_for_upgrade_is_never_looked_at(
    hoped: tuple[bytes, ...], stage: Stage
) -> None:
    """Not even what a later read brings, which could be a body that looks like a request."""
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await sender.send(post(b"1", headers=hoped) + post(b"2" * 100)[:-50])
    await eventually(lambda: stage.receiver.deliveries, within=5)
    await sender.send(post(b"smuggled"))
    await asyncio.sleep(0.02)
    stage.receiver.gate.set()
    assert (await sender.reply()).closes
    assert await sender.rest() == b""
    assert [d.body for d in stage.receiver.deliveries] == [b"1"]


async def test_a_body_in_single_bytes_arrives_whole(stage: Stage) -> None:
    body = bytes(range(256)) * 4
    request = post(body)
    sender = await stage.connect()
    for at in range(len(request)):
        sender.writer.write(request[at : at + 1])
        if at % 16 == 0:
            await asyncio.sleep(0)
    assert (await sender.reply()).status == 200
    assert stage.receiver.last.body == body


@pytest.mark.parametrize("gone", ["head", "body", "waiting", "reply", "reply_rst"])
@pytest.mark.parametrize("chunky", [False, True])
async def test_whenever_a_sender_leaves_nothing_is_left_of_it(
    gone: str, chunky: bool, make_stage: MakeStage
) -> None:
    stage = await make_stage(body_timeout=5.0)
    body = b"x" * 400_000
    request = chunked_head() + chunk(body) + LAST_CHUNK if chunky else post(body)
    stage.receiver.gate.clear()
    stage.receiver.script.append(Answered(Reply(200, b"OK", (), b"y" * 8 * MIB), Verdict.FIRST))
    sender = await stage.connect()
    match gone:
        case "head":
            await sender.send(request[:30])
        case "body":
            await sender.send(request[:200_000])
        case _:
            await sender.send(request)
            await eventually(lambda: stage.receiver.deliveries, within=5)
    if gone.startswith("reply"):
        stage.receiver.gate.set()
        await sender.reader.readexactly(1000)
    await (sender.reset() if gone in ("reply_rst", "waiting") else sender.close())
    stage.receiver.gate.set()
    await eventually(lambda: not len(stage.ingress._connections), within=10)
    await eventually(lambda: stage.ingress._in_flight == 0, within=10)
    bodies = stage.ingress._bodies.budget
    assert bodies.free == bodies.total
    assert len(stage.receiver.deliveries) == (gone not in ("head", "body"))
    assert sum(stage.tally.requests.values()) == (gone != "head")


async def test_a_sender_that_goes_on_with_a_refused_body_is_cut_off(make_stage: MakeStage) -> None:
    stage = await make_stage()
    sender = await stage.connect()
    head = b"POST /elsewhere HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\n"
    await sender.send(head)
    assert (await sender.reply()).status == 404

    async def go_on() -> None:
        while True:
            await sender.send(b"x" * 65536)

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(go_on(), 10)
    await eventually(lambda: not len(stage.ingress._connections), within=10)


async def test_a_pipelining_sender_that_reads_slowly_gets_all_its_replies(
    make_stage: MakeStage,
) -> None:
    stage = await make_stage(body_timeout=5.0)
    for _ in range(6):
        stage.receiver.script.append(Answered(Reply(200, b"OK", (), b"y" * 2 * MIB), Verdict.FIRST))
    sender = await stage.connect()
    await sender.send(*(post(b"%d" % n) for n in range(6)))
    for _ in range(6):
        await asyncio.sleep(0.1)
        assert len((await sender.reply()).body) == 2 * MIB
    assert [d.body for d in stage.receiver.deliveries] == [b"%d" % n for n in range(6)]


async def test_a_forward_longer_than_the_idle_time_is_answered(make_stage: MakeStage) -> None:
    stage = await make_stage(idle_timeout=0.2)
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await sender.send(post(b"1"))
    await eventually(lambda: stage.receiver.deliveries, within=5)
    await asyncio.sleep(0.5)
    stage.receiver.gate.set()
    assert (await sender.reply()).status == 200
    assert await sender.rest() == b""


async def test_a_sender_over_tls_that_never_reads_its_reply_is_cut_off_when_it_counts_as_idle(
    make_stage: MakeStage, tmp_path: Path
) -> None:
    """A transport over TLS takes a whole reply and never says that it was too much."""
    stage = await make_stage(body_timeout=0.3, idle_timeout=0.5)
    stage.receiver.script.append(Answered(Reply(200, b"OK", (), b"x" * 64 * MIB), Verdict.FIRST))
    cert, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    host, port = await stage.ingress.listen("127.0.0.1", 0, context)
    trusting = ssl.create_default_context(cafile=str(cert))
    _, writer = await asyncio.open_connection(
        host, port, ssl=trusting, server_hostname="localhost", limit=2**16
    )
    try:
        writer.write(post())
        await eventually(lambda: stage.receiver.ended, within=5)
        await eventually(lambda: not len(stage.ingress._connections), within=10)
        assert stage.ingress._in_flight == 0
    finally:
        writer.transport.abort()
        await asyncio.sleep(0.01)
