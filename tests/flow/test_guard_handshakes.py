"""Handshakes: answered or passed on, every time, and never claimed."""

from __future__ import annotations

import pytest

from gateway.core.answer import Greeted, Rejected, Verdict
from gateway.core.event import Delivery
from gateway.core.handshake import Condition, Greeting, Handshake, Proof, Said
from gateway.core.location import Json, Query
from gateway.core.route import Mode
from tests.flow.consumer import says
from tests.flow.seals import sealed
from tests.flow.world import EPOCH, MakeWorld, answered, delivery

CLAIMING = (Mode.FORWARD, Mode.INBOX)

CHALLENGE = Handshake(
    frozenset(),
    (Condition(Json(("type",)), "url_verification"),),
    signed=True,
    greeting=Greeting(200, "text/plain", text=Json(("challenge",))),
)
QUERIED = Handshake(
    frozenset({"GET"}),
    (Condition(Query("mode"), "subscribe"),),
    signed=False,
    greeting=Greeting(200, "text/plain", text=Query("challenge")),
)
PING = Handshake(frozenset(), (Condition(Json(("zen",))),), signed=False, greeting=None)
PROVING = Handshake(
    frozenset(),
    (Condition(Json(("event",)), "validate"),),
    signed=True,
    greeting=Greeting(
        200,
        "application/json",
        members=(("plain", Json(("token",))), ("proof", Proof(Json(("token",))))),
    ),
)
ALL = (CHALLENGE, QUERIED, PING, PROVING)


def challenge() -> Delivery:
    return sealed(EPOCH, type="url_verification", challenge="3eZbrw")


@pytest.mark.parametrize("mode", CLAIMING)
async def test_a_handshake_is_answered_every_time_and_never_claimed(
    signed: MakeWorld, mode: Mode
) -> None:
    world = signed(mode, handshakes=ALL)
    greeted = Greeted(Said(200, ((b"Content-Type", b"text/plain"),), b"3eZbrw"))
    for _ in range(3):
        assert await world.receiver.receive(challenge()) == greeted
        got = delivery()._replace(
            method="GET", target="/hooks/orders?mode=subscribe&challenge=3eZbrw"
        )
        assert await world.receiver.receive(got) == greeted
    assert not world.shop.claims.rows
    assert not world.shop.patience
    assert not world.consumer.received
    assert world.counted["delivery", Verdict.PASSED] == 6


@pytest.mark.parametrize("mode", Mode)
async def test_a_handshake_that_only_the_consumer_can_answer_passes_every_time_and_claims_nothing(
    signed: MakeWorld, mode: Mode
) -> None:
    world = signed(mode, handshakes=ALL)
    for _ in range(3):
        world.consumer.answers(says(200))
        told = answered(await world.receiver.receive(delivery(zen="Keep it simple")))
        assert told.verdict is Verdict.PASSED
    await world.settled()
    assert not world.shop.claims.rows
    assert not world.shop.patience
    assert len(world.consumer.received) == 3
    # Nobody expects a signature there, so none is missing.
    assert not world.counted["signature", "missing", ""]


async def test_in_observe_a_handshake_is_left_to_the_consumer(
    signed: MakeWorld,
) -> None:
    world = signed(Mode.OBSERVE, handshakes=ALL)
    world.consumer.answers(says(200))
    told = answered(await world.receiver.receive(challenge()))
    assert (told.verdict, told.visible) == (Verdict.PASSED, False)
    assert len(world.consumer.received) == 1


async def test_a_handshake_that_the_provider_signs_is_refused_with_a_bad_signature(
    signed: MakeWorld,
) -> None:
    # Some providers send one on purpose, to see that it is refused.
    world = signed(handshakes=ALL)
    for bad in (
        delivery(type="url_verification", challenge="x"),
        sealed(EPOCH, secret="guessed", type="url_verification", challenge="x"),
        sealed(EPOCH, secret="guessed", event="validate", token="x"),
    ):
        told = await world.receiver.receive(bad)
        assert isinstance(told, Rejected)
        assert told.status == 401


async def test_a_handshake_that_lacks_what_its_answer_repeats_is_left_to_the_consumer(
    signed: MakeWorld,
) -> None:
    world = signed(handshakes=ALL)
    world.consumer.answers(says(400))
    told = answered(await world.receiver.receive(sealed(EPOCH, type="url_verification")))
    assert (told.verdict, told.reply.status) == (Verdict.PASSED, 400)


async def test_a_proof_is_made_with_the_first_secret(signed: MakeWorld) -> None:
    world = signed(handshakes=ALL)
    told = await world.receiver.receive(sealed(EPOCH, secret="old", event="validate", token="abc"))
    assert isinstance(told, Greeted)
    assert told.said.body == (  # printf %s abc | openssl dgst -sha256 -hmac new
        b'{"plain": "abc", "proof":'
        b' "54a818bc60e785d356919b452b6aae5260e5b8744ec48ab82034e834ff6def9d"}'
    )
