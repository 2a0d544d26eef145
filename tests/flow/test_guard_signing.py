"""Signing anew: what was checked leaves with a fresh signature, and nothing else does."""

from __future__ import annotations

import pytest

from gateway.core.answer import Acknowledged, Verdict
from gateway.core.inbox import EntryState
from gateway.core.outcome import Unreached
from gateway.core.route import Mode
from gateway.core.signature import VERIFIED
from tests.flow.consumer import says
from tests.flow.seals import NAME, RESIGNED, TOLERANCE, seal, sealed
from tests.flow.test_guard_handshakes import ALL
from tests.flow.world import EPOCH, MakeWorld, answered


async def test_what_is_forwarded_is_signed_anew_with_the_first_secret_and_the_time_of_sending(
    signed: MakeWorld,
) -> None:
    world = signed(signature=RESIGNED)
    world.consumer.answers(Unreached("connect_refused"), says(200))
    came = sealed(EPOCH - 200, secret="old")
    await world.receiver.receive(came)
    world.pass_by(50)
    assert answered(await world.receiver.receive(came)).verdict is Verdict.FIRST
    sent = [dict(one.headers)[NAME] for one in world.consumer.received]
    assert sent == [seal(came.body, "new", EPOCH), seal(came.body, "new", EPOCH + 50)]
    assert [name for name, _ in world.consumer.received[0].headers[:2]] == [b"Host", NAME]
    assert VERIFIED[0] not in dict(world.consumer.received[0].headers)


async def test_an_entry_that_outlived_the_tolerance_verifies_at_the_consumer(
    signed: MakeWorld,
) -> None:
    world = signed(Mode.INBOX, signature=RESIGNED)
    world.consumer.answers(Unreached("connect_refused"), says(200))
    came = sealed(EPOCH)
    assert isinstance(await world.receiver.receive(came), Acknowledged)
    await world.settled()
    stored = world.shop.claims.entries[world.key("evt_1").digest].offer.delivery
    assert stored.headers[:-1] == came.headers  # what is stored is what came
    world.pass_by(TOLERANCE * 10)
    await world.work()
    assert world.entry().state is EntryState.DELIVERED
    late = world.consumer.received[-1]
    assert dict(late.headers)[NAME] == seal(came.body, "new", EPOCH + TOLERANCE * 10)
    assert VERIFIED[0] not in dict(late.headers)


async def test_what_was_checked_before_resign_was_on_is_signed_once_it_is(
    signed: MakeWorld,
) -> None:
    before = signed(Mode.INBOX)
    before.consumer.answers(Unreached("connect_refused"), says(200))
    came = sealed(EPOCH)
    assert isinstance(await before.receiver.receive(came), Acknowledged)
    await before.settled()
    assert VERIFIED[0] not in dict(before.consumer.received[0].headers)
    stored = before.shop.claims.entries[before.key("evt_1").digest].offer.delivery
    assert stored.headers == (*came.headers, VERIFIED)
    after = signed(Mode.INBOX, signature=RESIGNED, shop=before.shop)
    after.consumer.answers(says(200))
    after.pass_by(TOLERANCE * 10)
    await after.work()
    late = seal(came.body, "new", EPOCH + TOLERANCE * 10)
    assert dict(after.consumer.received[0].headers)[NAME] == late
    assert VERIFIED[0] not in dict(after.consumer.received[0].headers)


async def test_what_was_stored_unchecked_is_never_signed(signed: MakeWorld) -> None:
    # Else a route that gets a signature would vouch for what anybody had sent before.
    world = signed(Mode.INBOX, signature=RESIGNED)
    world.owes("evt_old")
    world.consumer.answers(says(200))
    await world.work()
    assert dict(world.consumer.received[0].headers).get(NAME) is None


@pytest.mark.parametrize("mode", Mode)
async def test_what_passes_unchecked_is_never_signed(signed: MakeWorld, mode: Mode) -> None:
    world = signed(mode, handshakes=ALL, signature=RESIGNED)
    ping = sealed(EPOCH, secret="guessed", zen="Keep it simple")
    for came in (ping, sealed(EPOCH, secret="guessed")._replace(method="PATCH")):
        world.consumer.answers(says(200))
        await world.receiver.receive(came)
        assert dict(world.consumer.received[-1].headers)[NAME] == dict(came.headers)[NAME]


async def test_observe_forwards_the_signature_that_came(signed: MakeWorld) -> None:
    world = signed(Mode.OBSERVE, signature=RESIGNED)
    world.consumer.answers(says(200))
    came = sealed(EPOCH - 10)
    await world.receiver.receive(came)
    assert world.consumer.received[0].headers[: len(came.headers)] == came.headers


async def test_without_resign_the_bytes_that_came_go_on(signed: MakeWorld) -> None:
    world = signed()
    world.consumer.answers(says(200))
    came = sealed(EPOCH - 10, secret="old")
    await world.receiver.receive(came)
    assert dict(world.consumer.received[0].headers)[NAME] == dict(came.headers)[NAME]
