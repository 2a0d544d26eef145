"""Slots, kept connections, deadlines: everything about a forward but the reply."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.core.outcome import Ambiguous, Delivered, Outcome, Unreached
from gateway.upstream import wire
from gateway.upstream.hop import Hop
from gateway.upstream.slots import Slots
from tests.rig.deadline import eventually
from tests.upstream.requests import BODY, LONG, NO_BODY, OK, Request, answers_ok, hop_to
from tests.upstream.scripted import Peer, ScriptedConsumer

SOON = 0.15
"""A time-out that a test waits for."""
BIG = Request(bytes(20 * 2**20))
"""More than the kernel's buffers take when nobody reads."""
IDEMPOTENT = [Request(BODY.body, method="PUT"), Request(b"", method="DELETE")]

both_kinds = pytest.mark.parametrize("pooled", [False, True], ids=["fresh", "pooled"])


class Gate:
    """A consumer that answers when it is told to."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.read_request()
        await self.opened.wait()
        await peer.write(OK)


async def never_answers(peer: Peer) -> None:
    """Reads and says nothing."""
    await peer.read_request()
    await peer.until_closed()


async def warmed(hop: Hop, consumer: ScriptedConsumer, *, pooled: bool) -> None:
    """Leaves one idle connection if `pooled`."""
    if pooled:
        consumer.plays(answers_ok)
        await NO_BODY.over(hop)
        assert hop.idle == 1


def is_ok(outcome: Outcome) -> bool:
    """Delivered, and whole."""
    return isinstance(outcome, Delivered) and outcome.reply.body == b"ok"


# Writing


@both_kinds
async def test_a_consumer_that_stops_reading_makes_the_forward_ambiguous_after_the_write_timeout(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, write_timeout=SOON)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    gave_up = asyncio.Event()

    async def reads_a_little(peer: Peer) -> None:
        await peer.read(100)
        await gave_up.wait()
        await peer.until_closed()

    consumer.plays(reads_a_little)

    assert await BIG.over(hop) == Ambiguous("write_timeout", timed_out=True)
    gave_up.set()
    received = consumer.requests[-1]
    await eventually(lambda: len(received) > 100, within=LONG)
    assert 0 < len(received) < len(BIG.wire)
    assert BIG.wire.startswith(received)
    assert (hop.in_use, hop.idle) == (0, 0)


async def test_a_consumer_that_reads_slowly_but_steadily_is_written_to_in_the_end(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, write_timeout=SOON)
    hops.append(hop)

    async def reads_all(peer: Peer) -> None:
        missing = len(BIG.wire)
        while missing:
            missing -= len(await peer.read(2**20))
            if missing % 3 == 0:
                await asyncio.sleep(SOON / 5)
        await peer.write(OK)

    consumer.plays(reads_all)

    assert is_ok(await BIG.over(hop))
    assert consumer.requests[-1] == BIG.wire


@pytest.mark.row(25)
@both_kinds
async def test_an_upload_cut_halfway_is_ambiguous_and_not_sent_again(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)

    async def dies_halfway(peer: Peer) -> None:
        await peer.read(2**16)
        peer.close()

    consumer.plays(dies_halfway)

    outcome = await BIG.over(hop)
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason in {"reset", "closed"}
    assert BIG.wire.startswith(consumer.requests[-1])
    assert len(consumer.requests) == 1 + pooled


# Kept connections


@pytest.mark.row(23)
@pytest.mark.parametrize("request_", [BODY, NO_BODY], ids=["body", "no_body"])
async def test_a_connection_that_died_while_idle_costs_nothing(
    request_: Request, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)
    consumer.plays(answers_ok)

    # The loop gets no turn between the consumer's FIN and our next request: only the kernel knows.
    consumer.close_connections()
    assert is_ok(await request_.over(hop))

    assert consumer.requests == [NO_BODY.wire, request_.wire]
    assert consumer.connections == 2


@pytest.mark.row(23)
async def test_a_connection_on_which_something_arrived_while_idle_is_not_used_again(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)

    async def speaks_unasked(peer: Peer) -> None:
        await answers_ok(peer)
        await eventually(lambda: hop.idle == 1, within=LONG)
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
        await peer.until_closed()

    consumer.plays(speaks_unasked, answers_ok)

    await BODY.over(hop)
    await eventually(lambda: hop.idle == 0, within=LONG)
    assert is_ok(await BODY.over(hop))
    assert consumer.connections == 2


@pytest.mark.row(23)
@pytest.mark.row(24)
@pytest.mark.parametrize("request_", IDEMPOTENT, ids=["put", "delete"])
async def test_a_kept_connection_that_dies_on_the_request_is_ambiguous_and_nothing_is_sent_again(
    request_: Request, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    await warmed(hop, consumer, pooled=True)

    async def acts_and_dies(peer: Peer) -> None:
        await peer.read_request()
        peer.close()

    consumer.plays(acts_and_dies, answers_ok)

    assert await request_.over(hop) == Ambiguous("closed")
    assert consumer.requests == [NO_BODY.wire, request_.wire]
    assert consumer.connections == 1


async def test_an_idle_connection_is_closed_by_us_before_the_consumer_does_it(
    consumer: ScriptedConsumer, hops: list[Hop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "IDLE_SECONDS", 0.05)
    hop = hop_to(consumer.port)
    hops.append(hop)
    ended = asyncio.Event()

    async def answers_and_waits(peer: Peer) -> None:
        await answers_ok(peer)
        await peer.until_closed()
        ended.set()

    consumer.plays(answers_and_waits)
    await BODY.over(hop)
    assert hop.idle == 1
    await asyncio.wait_for(ended.wait(), LONG)
    assert hop.idle == 0


async def test_the_connection_used_last_is_used_first(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port)
    hops.append(hop)
    first, second = Gate(), Gate()
    consumer.plays(first, second)
    sends = [asyncio.create_task(BODY.over(hop)) for _ in range(2)]
    await eventually(lambda: len(consumer.requests) == 2, within=LONG)
    for gate in (first, second):
        gate.opened.set()
        await eventually(lambda: any(send.done() for send in sends), within=LONG)
    await asyncio.gather(*sends)
    assert hop.idle == 2

    consumer.plays(*[answers_ok] * 3)
    for _ in range(3):
        await BODY.over(hop)
    assert hop.idle == 2
    assert consumer.connections == 2


# Slots


@pytest.mark.row(22)
async def test_who_finds_no_slot_in_time_is_unreached_and_nothing_left(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1, slot_timeout=SOON)
    hops.append(hop)
    gate = Gate()
    consumer.plays(gate)
    first = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests, within=LONG)

    assert await NO_BODY.over(hop) == Unreached("no_slot", timed_out=True)
    assert repr(hop) == f"<Hop 127.0.0.1:{consumer.port} in_use=1 idle=0>"

    gate.opened.set()
    assert is_ok(await first)
    assert consumer.requests == [BODY.wire]
    assert (hop.in_use, hop.idle) == (0, 1)


async def test_slots_are_given_in_the_order_of_asking_and_never_more_than_there_are(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=2)
    hops.append(hop)
    at_once = 0

    async def counts(peer: Peer) -> None:
        nonlocal at_once
        await peer.read_request()
        at_once = max(at_once, hop.in_use)
        await peer.write(OK)

    consumer.plays(*[counts] * 10)
    requests = [Request(b"", target=f"/{n}") for n in range(10)]
    outcomes = await asyncio.gather(*[request.over(hop) for request in requests])

    assert all(is_ok(outcome) for outcome in outcomes)
    assert at_once == 2
    seen = [int(bytes(raw).split()[1][1:]) for raw in consumer.requests]
    assert all(abs(place - number) <= 1 for place, number in enumerate(seen))


async def test_who_stops_waiting_for_a_slot_is_passed_over(
    consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    gate = Gate()
    consumer.plays(gate, answers_ok)
    first = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests, within=LONG)
    leaves, stays = (asyncio.create_task(NO_BODY.over(hop)) for _ in range(2))
    await asyncio.sleep(0)

    leaves.cancel()
    gate.opened.set()
    assert is_ok(await first)
    assert is_ok(await stays)
    assert consumer.requests == [BODY.wire, NO_BODY.wire]
    assert hop.in_use == 0


async def test_a_slot_given_to_somebody_who_is_cancelled_in_that_moment_is_not_lost() -> None:
    slots = Slots(1)
    assert slots.take()
    waits = asyncio.create_task(slots.wait(LONG))
    await asyncio.sleep(0)

    slots.give_back()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert slots.in_use == 0
    assert slots.take()
    assert not await slots.wait(0)


@both_kinds
async def test_a_cancelled_forward_frees_its_slot_and_drops_its_connection(
    pooled: bool, consumer: ScriptedConsumer, hops: list[Hop]
) -> None:
    hop = hop_to(consumer.port, concurrency=1)
    hops.append(hop)
    await warmed(hop, consumer, pooled=pooled)
    consumer.plays(never_answers, answers_ok)
    send = asyncio.create_task(BODY.over(hop))
    await eventually(lambda: consumer.requests[-1:] == [BODY.wire], within=LONG)

    send.cancel()
    with pytest.raises(asyncio.CancelledError):
        await send
    assert (hop.in_use, hop.idle) == (0, 0)
    assert is_ok(await BODY.over(hop))


# The lease


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
    # "Forwarding" means that the kernel has it all, and what the kernel holds is a few MiB.
    assert len(BIG.wire) - received[1] < 8 * 2**20
    assert received[2] == len(BIG.wire)


# The end


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
        hop = hop_to(full.getsockname()[1])
        hops.append(hop)
        send = asyncio.create_task(BODY.over(hop))
        await eventually(lambda: hop.in_use == 1, within=LONG)

        await hop.abort()

        assert await send == Unreached("shutting_down")
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
