"""Bodies: invited, reserved, and in the order of asking."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.answer import Reason
from gateway.web.body import FREE
from gateway.web.budget import MOST_WAITING, ByteBudget
from tests.rig.deadline import eventually
from tests.web.stage import LAST_CHUNK, MIB, MakeStage, Sender, Stage, chunk, chunked_head, post

EXPECT = b"Expect: 100-continue"
CONTINUE = b"HTTP/1.1 100 Continue"


async def test_a_body_is_invited_when_the_sender_waits_for_it(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(post(b"body", headers=(EXPECT,))[:-4])
    assert (await sender.reply()).start == CONTINUE
    await sender.send(b"body")
    assert (await sender.reply()).status == 200
    assert stage.receiver.last.body == b"body"
    assert stage.receiver.last.header(b"expect") is None


async def test_an_unwanted_body_is_not_invited(stage: Stage) -> None:
    for parts in (
        post(b"x", target=b"/elsewhere", headers=(EXPECT,))[:-1],
        post(b"", headers=(EXPECT,)).replace(b"Length: 0", b"Length: 99999999"),
    ):
        sender = await stage.connect()
        await sender.send(parts)
        answer = await sender.reply()
        assert (answer.status in (404, 413), answer.closes) == (True, True)
        assert await sender.rest() == b""


async def test_a_body_that_is_here_needs_no_invitation(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(post(b"body", headers=(EXPECT,)))
    assert (await sender.reply()).status == 200
    old = b"POST /hooks/orders HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    sender = await stage.connect()
    await sender.send(old)
    await eventually(lambda: stage.tally.requests["orders"] == 2, within=5)
    await sender.send(b"body")
    assert (await sender.reply()).status == 200


async def test_a_body_that_has_begun_needs_no_invitation(stage: Stage) -> None:
    sender = await stage.connect()
    await sender.send(post(b"body", headers=(EXPECT,))[:-2])
    await eventually(lambda: stage.tally.requests["orders"], within=5)
    await sender.send(b"dy")
    assert (await sender.reply()).status == 200


async def _large_body(stage: Stage, size: int) -> Sender:
    """A sender of `size` bytes that has sent all it could so far."""
    sender = await stage.connect()
    sender.writer.write(post(b"x" * size))
    return sender


async def test_large_bodies_wait_their_turn_and_all_get_through(make_stage: MakeStage) -> None:
    stage = await make_stage(body_memory=2 * MIB)
    stage.receiver.gate.clear()
    senders = [await _large_body(stage, MIB) for _ in range(6)]
    await eventually(lambda: len(stage.receiver.deliveries) == 2, within=10)
    assert stage.ingress._bodies.budget.free == 0
    small = await stage.connect()
    await small.send(post(b"x" * FREE))  # passes whatever the others hold
    await eventually(lambda: len(stage.receiver.deliveries) == 3, within=5)
    stage.receiver.gate.set()
    assert (await small.reply()).status == 200
    for sender in senders:
        assert (await sender.reply()).status == 200
    assert stage.ingress._bodies.budget.free == 2 * MIB


async def test_a_large_body_that_came_in_one_piece_is_reserved_too(stage: Stage) -> None:
    stage.receiver.gate.clear()
    sender = await stage.connect()
    await eventually(lambda: stage.ingress._connections.all, within=5)
    stage.ingress._connections.all[0].data_received(post(b"x" * MIB))
    await eventually(lambda: stage.receiver.deliveries, within=5)
    assert stage.ingress._bodies.budget.free == 63 * MIB
    stage.receiver.gate.set()
    assert (await sender.reply()).status == 200
    assert stage.ingress._bodies.budget.free == 64 * MIB


async def test_the_wait_for_room_is_not_held_against_the_sender(make_stage: MakeStage) -> None:
    stage = await make_stage(body_memory=MIB, body_timeout=0.4)
    stage.receiver.gate.clear()
    holder = await _large_body(stage, MIB)
    await eventually(lambda: stage.receiver.deliveries, within=5)
    waiting = await _large_body(stage, MIB)
    await eventually(lambda: stage.ingress._bodies.budget._waiting, within=5)
    await asyncio.sleep(0.6)  # longer than a body may take
    stage.receiver.gate.set()
    assert (await holder.reply()).status == 200
    assert (await waiting.reply()).status == 200


async def test_who_waits_too_long_for_room_is_told_to_come_again(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_dripping_sender_holds_nothing_before_its_first_64_kib(stage: Stage) -> None:
    senders = []
    for _ in range(10):
        sender = await stage.connect()
        await sender.send(post(b"x" * 20 * MIB)[: FREE - 1000])
        senders.append(sender)
    await eventually(lambda: stage.tally.requests["orders"] == 10, within=5)
    assert stage.ingress._bodies.budget.free == 64 * MIB


async def test_a_chunked_body_reserves_the_limit_and_keeps_what_it_needs(stage: Stage) -> None:
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
async def test_a_sender_that_leaves_gives_its_reservation_back(stage: Stage, how: str) -> None:
    budget = stage.ingress._bodies.budget
    sender = await stage.connect()
    await sender.send(post(b"x" * 20 * MIB)[: 2 * MIB])
    await eventually(lambda: budget.free == 44 * MIB, within=5)
    await (sender.close() if how == "fin" else sender.reset())
    await eventually(lambda: budget.free == 64 * MIB, within=5)


async def test_a_large_wish_is_not_overtaken_by_small_ones() -> None:
    budget = ByteBudget(10)
    assert await budget.take(6, timeout=1)
    large = asyncio.create_task(budget.take(8, timeout=1))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(1, timeout=1))
    await asyncio.sleep(0)
    assert not small.done()
    budget.give_back(6)
    assert (await large, await small, budget.free) == (True, True, 1)


async def test_a_wish_that_is_given_up_lets_the_next_one_in() -> None:
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


async def test_a_wish_that_is_cancelled_as_it_is_granted_gives_back() -> None:
    budget = ByteBudget(10)
    assert await budget.take(10, timeout=1)
    wish = asyncio.create_task(budget.take(5, timeout=5))
    await asyncio.sleep(0)
    budget.give_back(10)
    wish.cancel()
    await asyncio.wait([wish])
    assert budget.free == 10


async def test_only_so_many_may_wait() -> None:
    budget = ByteBudget(1)
    assert await budget.take(1, timeout=1)
    waiting = [asyncio.create_task(budget.take(1, timeout=5)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    assert not await budget.take(1, timeout=5)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
