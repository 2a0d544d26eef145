"""Signed routes: what nobody has signed takes no claim and reaches no consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.core.answer import Answered, Reason, Rejected, Verdict
from gateway.core.claim import State
from gateway.core.event import Delivery
from gateway.core.route import Mode
from gateway.flow.forward import Sender
from gateway.flow.guard import Guard, Receiver
from gateway.flow.modes import wire
from gateway.flow.reach import Reach
from tests.flow.consumer import Gate, says
from tests.flow.seals import NAME, RESIGNED, SECRETS, TOLERANCE, Seals, sealed
from tests.flow.world import EPOCH, MakeWorld, World, answered, delivery

CLAIMING = (Mode.FORWARD, Mode.INBOX)


def forged(event_id: str = "evt_1") -> Delivery:
    return sealed(EPOCH, event_id, secret="guessed")


def one_byte(changed: Delivery) -> Delivery:
    return changed._replace(body=changed.body.replace(b"evt_1", b"evt_2"))


def logging_each(world: World, *, each: bool = True) -> Receiver:
    """What receives a world's deliveries, and writes a line for each."""
    sender = Sender(
        world.route, world.consumer, (), world.counted, world.clock,
        Reach(world.route, world.clock), None, world.epoch,
    )  # fmt: skip
    shared = replace(world.shared, log_deliveries=each)
    receiver, _ = wire(world.route, sender, None, world.verifier, shared)
    return receiver


BAD: list[tuple[str, Callable[[], Delivery]]] = [
    ("missing", delivery),
    ("wrong", forged),
    ("wrong", lambda: one_byte(sealed(EPOCH))),
    ("expired", lambda: sealed(EPOCH - TOLERANCE - 1)),
    ("expired", lambda: sealed(EPOCH + TOLERANCE + 1)),
]


@pytest.mark.row(6)
@pytest.mark.parametrize("mode", CLAIMING)
@pytest.mark.parametrize(("result", "bad"), BAD)
async def test_a_bad_signature_is_401_before_any_claim_and_nothing_is_forwarded(
    signed: MakeWorld, mode: Mode, result: str, bad: Callable[[], Delivery]
) -> None:
    world = signed(mode)
    told = await world.receiver.receive(bad())
    assert isinstance(told, Rejected)
    assert (told.reason, told.status, told.retry_after) == (Reason.SIGNATURE, 401, None)
    assert not world.shop.patience  # nobody asked the store
    assert not world.shop.claims.rows
    assert not world.consumer.received
    assert world.counted["signature", result, ""] == 1
    assert world.counted["rejection", Reason.SIGNATURE] == 1


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("place", "secret"), [*enumerate(SECRETS)])
async def test_every_secret_counts_and_which_one_it_was_is_known(
    signed: MakeWorld, mode: Mode, place: int, secret: str
) -> None:
    world = signed(mode)
    world.consumer.answers(says(200))
    await world.receiver.receive(sealed(EPOCH, secret=secret))
    await world.settled()
    assert world.claim().state is State.COMPLETED
    assert world.counted["signature", "valid", str(place)] == 1
    assert world.counted["delivery", Verdict.FIRST] == 1


@pytest.mark.parametrize("age", [-TOLERANCE, 0, TOLERANCE])
async def test_a_time_stamp_within_the_tolerance_is_believed(signed: MakeWorld, age: float) -> None:
    world = signed()
    world.consumer.answers(says(200))
    assert answered(await world.receiver.receive(sealed(EPOCH - age))).verdict is Verdict.FIRST


@pytest.mark.row(108)
async def test_a_forged_copy_never_holds_the_slot_that_the_genuine_one_needs(
    signed: MakeWorld,
) -> None:
    world = signed()
    gate = Gate(says(200))
    world.consumer.answers(gate)
    first = asyncio.create_task(world.receiver.receive(sealed(EPOCH)))
    await gate.reached.wait()
    told = await world.receiver.receive(forged())
    assert isinstance(told, Rejected)
    assert not first.done()
    gate.open()
    assert answered(await first).verdict is Verdict.FIRST
    assert len(world.consumer.received) == 1


async def test_after_a_forged_one_the_genuine_one_is_the_first_and_not_marked(
    signed: MakeWorld,
) -> None:
    world = signed()
    world.consumer.answers(says(200))
    await world.receiver.receive(forged())
    assert answered(await world.receiver.receive(sealed(EPOCH))).verdict is Verdict.FIRST
    assert world.claim().attempt is None or world.claim().attempt == 1


@pytest.mark.parametrize("mode", CLAIMING)
async def test_without_the_keys_nobody_knows_so_it_is_503_and_comes_again(
    signed: MakeWorld, mode: Mode
) -> None:
    world = signed(mode)
    assert isinstance(world.verifier, Seals)
    world.verifier.why = "the JWKS cannot be fetched"
    for _ in range(3):
        told = await world.receiver.receive(sealed(EPOCH))
        assert isinstance(told, Rejected)
        assert (told.reason, told.status, told.retry_after) == (Reason.KEYS_AWAY, 503, 5)
    assert not world.shop.patience
    assert not world.consumer.received
    assert world.counted["signature", "unchecked", ""] == 3
    assert world.counted["rejection", Reason.KEYS_AWAY] == 3


@pytest.mark.parametrize(("result", "bad"), BAD)
async def test_in_observe_a_bad_signature_is_counted_and_forwarded_as_it_came_and_takes_no_claim(
    signed: MakeWorld, result: str, bad: Callable[[], Delivery]
) -> None:
    world = signed(Mode.OBSERVE, signature=RESIGNED)
    world.consumer.answers(says(401))
    came = bad()
    told = answered(await world.receiver.receive(came))
    assert (told.verdict, told.visible, told.reply.status) == (Verdict.PASSED, False, 401)
    await world.settled()
    assert not world.shop.claims.rows
    assert world.consumer.received[0].headers[: len(came.headers)] == came.headers
    assert world.counted["signature", result, ""] == 1
    assert world.counted["delivery", Verdict.PASSED] == 1


async def test_in_observe_absent_keys_delay_nothing_and_claim_nothing(
    signed: MakeWorld,
) -> None:
    world = signed(Mode.OBSERVE)
    assert isinstance(world.verifier, Seals)
    world.verifier.why = "away"
    world.consumer.answers(says(200))
    assert answered(await world.receiver.receive(sealed(EPOCH))).verdict is Verdict.PASSED
    assert not world.shop.claims.rows


@pytest.mark.parametrize(("why", "flaw"), [(None, "wrong"), ("away", "unchecked")])
async def test_in_observe_the_line_of_a_delivery_says_what_is_wrong_with_its_signature(
    signed: MakeWorld, caplog: pytest.LogCaptureFixture, why: str | None, flaw: str
) -> None:
    caplog.set_level("INFO", "gateway")
    world = signed(Mode.OBSERVE)
    assert isinstance(world.verifier, Seals)
    world.verifier.why = why
    world.consumer.answers(says(200))
    await logging_each(world).receive(forged())
    (line,) = [one.__dict__ for one in caplog.records if one.message == "delivery"]
    assert (line["told"], line["flaw"]) == ("passed", flaw)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PATCH"])
async def test_a_request_that_is_no_event_by_its_method_passes_unchecked(
    signed: MakeWorld, method: str
) -> None:
    world = signed()
    world.consumer.answers(says(200))
    told = await world.receiver.receive(delivery()._replace(method=method))
    assert answered(told).verdict is Verdict.PASSED
    assert not [key for key in world.counted.by if key[0] == "signature"]


async def test_a_sender_that_nominates_its_signature_away_is_refused_but_not_in_observe(
    signed: MakeWorld,
) -> None:
    assert NAME.lower() in signed().receiver.decisive
    assert NAME.lower() not in signed(Mode.OBSERVE).receiver.decisive


async def test_a_check_that_takes_its_time_keeps_nobody_else_waiting(
    signed: MakeWorld,
) -> None:
    world = signed()
    assert isinstance(world.verifier, Seals)
    world.verifier.gate.clear()
    waiting = asyncio.create_task(world.receiver.receive(sealed(EPOCH)))
    await asyncio.sleep(0)
    world.consumer.answers(says(200), says(200))
    other = await world.receiver.receive(delivery()._replace(method="PATCH"))
    assert isinstance(other, Answered)
    world.verifier.gate.set()
    assert answered(await waiting).verdict is Verdict.FIRST


@pytest.mark.parametrize("each", [True, False])
async def test_a_forged_delivery_is_a_line_only_where_every_delivery_is_one(
    signed: MakeWorld, caplog: pytest.LogCaptureFixture, each: bool
) -> None:
    caplog.set_level("INFO", "gateway")
    world = signed()
    assert isinstance(world.receiver, Guard)
    await logging_each(world, each=each).receive(forged())
    lines = [(line.message, line.__dict__.get("flaw")) for line in caplog.records]
    assert lines == ([("signature_invalid", "wrong"), ("delivery", "wrong")] if each else [])
    assert not [line for line in caplog.records if "guessed" in str(line.__dict__)]
