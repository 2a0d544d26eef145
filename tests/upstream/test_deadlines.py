"""The lease before the first byte, the steps of a forward, and the end of a process."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Unreached
from gateway.upstream.hop import Hop
from tests.rig.deadline import eventually
from tests.upstream.requests import (
    BIG,
    BODY,
    LONG,
    NO_BODY,
    OK,
    Gate,
    answers_ok,
    hop_to,
    is_ok,
    never_answers,
    warmed,
)
from tests.upstream.scripted import Peer, ScriptedConsumer

both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


@pytest.mark.row(18)
@both_kinds
async def test_a_holder_that_was_paused_beyond_its_deadline_sends_nothing(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    now = 100.0
    paused = False

    def at(step: str) -> None:
        nonlocal now
        if step == "before_send" and paused:
            now = 130.1

    hop = hop_to(consumer.port, clock=lambda: now, at=at)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    paused = True

    assert await BODY.over(hop, send_before=130.0) == Unreached("lease_over")
    assert BODY.wire not in consumer.requests
    assert (hop.in_use, hop.idle) == (0, 0)


@pytest.mark.row(18)
async def test_at_its_last_moment_a_lease_still_holds(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, clock=lambda: 130.0)
    hops.append(hop)
    consumer.plays(answers_ok)
    assert is_ok(await BODY.over(hop, send_before=130.0))


async def test_the_steps_at_which_a_test_may_crash_come_in_order(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    steps: list[tuple[str, int]] = []

    def at(step: str) -> None:
        steps.append((step, sum(map(len, consumer.requests))))

    hop = hop_to(consumer.port, at=at)
    hops.append(hop)

    async def answers_when_all_is_there(peer: Peer) -> None:
        await peer.read_request()
        await eventually(lambda: len(steps) == 2, within=LONG)
        await peer.write(OK)

    consumer.plays(answers_when_all_is_there)
    await BIG.over(hop)

    assert [step for step, _ in steps] == ["before_send", "forwarding", "after_answer"]
    received = [count for _, count in steps]
    assert received[0] == 0
    # "Forwarding" means that the kernel has it all, and the kernel holds less than BIG.
    assert received[1] > 0
    assert received[2] == len(BIG.wire)


@both_kinds
async def test_a_drain_deadline_ends_every_forward_and_begins_no_other(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    consumer.plays(never_answers)
    sent = asyncio.create_task(BODY.over(hop))
    waits = asyncio.create_task(NO_BODY.over(hop))
    await eventually(lambda: consumer.requests[-1:] == [BODY.wire], within=LONG)

    await hop.abort()

    assert await sent == Ambiguous("shutting_down")
    assert await waits == Unreached("shutting_down")
    assert await BODY.over(hop) == Unreached("shutting_down")
    assert (hop.in_use, hop.idle) == (0, 0)
    assert len(consumer.requests) == 1 + pooled


async def test_a_drain_deadline_takes_a_success_whose_body_has_not_come(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    steps: list[str] = []

    async def answers_half(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01")
        steps.append("head")
        await peer.until_closed()

    consumer.plays(answers_half)
    send = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: steps, within=LONG)
    await asyncio.sleep(0)  # the loop reads what has arrived
    await hop.abort()

    outcome = await send
    assert isinstance(outcome, Delivered)
    assert not outcome.reply.complete


async def test_a_drain_deadline_ends_a_connection_attempt(hops: list[Hop]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
    ):
        hop = hop_to(full.getsockname()[1], concurrency=1)
        hops.append(hop)
        dials, waits = (asyncio.create_task(BODY.over(hop)) for _ in range(2))
        await eventually(lambda: hop.in_use == 1, within=LONG)

        await hop.abort()

        # Far below the time-out of a connection attempt: none is begun by the one that waited.
        for send in (dials, waits):
            assert await asyncio.wait_for(send, LONG / 4) == Unreached("shutting_down")
        assert hop.in_use == 0


async def test_a_closed_hop_lets_its_forwards_end_and_keeps_no_connection(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)
    gate = Gate()
    consumer.plays(gate, answers_ok)
    send = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests[-1:] == [BODY.wire], within=LONG)

    await hop.close()
    gate.opened.set()

    assert is_ok(await send)
    assert is_ok(await BODY.over(hop))
    assert (hop.in_use, hop.idle) == (0, 0)
