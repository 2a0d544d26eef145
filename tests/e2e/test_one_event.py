"""The life of one event whose consumer, sender or both misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Consumer, Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import Claim, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

HASTY = {"timeout": "500ms"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    closed = world.route("closed")
    closed["upstream"]["url"] = "http://127.0.0.1:1"
    yield await world.gateway(
        world.file(
            world.route(),
            world.route("hasty", upstream=HASTY),
            world.route("settled", success_status=[208, 409], upstream=HASTY),
            closed,
            world.route("tenants", scope="json:/tenant"),
        )
    )


@pytest.mark.case("B003")
@pytest.mark.row(29)
async def test_an_event_counts_as_done_only_after_the_consumer_succeeded(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(
        event,
        Says(status=500),
        Says(status=503),
        Says(hangs_up="unanswered", resets=True),
        Says(status=200),
    )
    replies = [await world.deliver(event) for _ in range(5)]
    assert [reply.status for reply in replies] == [500, 503, 502, 200, 200]
    assert replies[2].retry_after > 0
    assert [reply.verdict for reply in replies] == ["first"] * 4 + ["duplicate"]
    assert world.attempts(event) == [(1, False), (2, True), (3, True), (4, True)]


@pytest.mark.case("B004")
@pytest.mark.row(33, 46)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 415, 422, 425])
async def test_a_refused_copy_does_not_burn_the_id_of_the_genuine_one(
    world: World, gateway: Gateway, status: int
) -> None:
    event = fresh()
    world.consumer.script(
        event, Says(status=status, reason="No Way", body=b"no", headers=(("X-Why", "sig"),)), Says()
    )
    forged = await world.deliver(event, signature="wrong")
    assert (forged.status, forged.reason, forged.body) == (status, "No Way", b"no")
    assert forged.header("X-Why") == "sig"
    assert await world.database.claim(event) == Claim("released", False, 1)
    genuine = await world.deliver(event, signature="right")
    assert (genuine.status, genuine.verdict) == (200, "first")
    assert world.attempts(event) == [(1, False), (2, False)]


@pytest.mark.case("B004")
@pytest.mark.parametrize("status", [408, 409])
async def test_a_refusal_that_may_come_after_an_effect_frees_the_id_and_marks_the_next(
    world: World, gateway: Gateway, status: int
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=status), Says())
    assert (await world.deliver(event)).status == status
    assert (await world.deliver(event)).status == 200
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.case("B004")
@pytest.mark.row(35)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_consumer_that_says_when_to_come_again_is_passed_on_and_leaves_no_doubt(
    world: World, gateway: Gateway, status: int
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=status, headers=(("Retry-After", "17"),)), Says())
    refused = await world.deliver(event)
    assert (refused.status, refused.retry_after) == (status, 17)
    assert (await world.deliver(event)).status == 200
    assert world.attempts(event) == [(1, False), (2, False)]


@pytest.mark.case("B005")
@pytest.mark.row(37)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_goes_back_to_the_provider_and_nobody_follows_it(
    world: World, gateway: Gateway, status: int
) -> None:
    event, elsewhere = fresh(), Consumer()
    await elsewhere.start()
    target = f"http://127.0.0.1:{elsewhere.port}/login"
    world.consumer.script(event, Says(status=status, headers=(("Location", target),)), Says())
    redirected = await world.deliver(event)
    assert (redirected.status, redirected.header("Location")) == (status, target)
    assert elsewhere.connections == 0
    await elsewhere.stop()
    retried = await world.deliver(event)
    assert (retried.status, retried.verdict) == (200, "first")
    assert [request.method for request in world.consumer.requests(event)] == ["POST", "POST"]
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.case("B007")
@pytest.mark.row(53)
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
async def test_a_provider_that_hangs_up_does_not_stop_the_forward(
    world: World, gateway: Gateway, reset: bool
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free, acts="after"))
    async with sender.Connection(gateway.address) as connection:
        await connection.write(sender.event(event))
        await eventually(lambda: world.consumer.requests(event), within=15)
        if reset:
            connection.reset()
    free.set()
    await world.database.becomes(event, "completed")
    again = await world.deliver(event)
    assert (again.status, again.verdict) == (200, "duplicate")
    assert len(world.consumer.effects(event)) == 1
    assert set(await world.database.sessions()) <= {"idle"}


@pytest.mark.case("B007")
@pytest.mark.row(1)
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
async def test_half_a_body_is_no_delivery(world: World, gateway: Gateway, reset: bool) -> None:
    event, before = fresh(), await gateway.scrape()
    async with sender.Connection(gateway.address) as connection:
        await connection.write(sender.event(event, filling="x" * 500)[:-200])
        if reset:
            connection.reset()

    async def counted() -> bool:
        now = await gateway.scrape()
        return now.since(before, "dedup_rejected_total", reason="body_incomplete") == 1

    await eventually(counted, within=15)
    assert await world.database.claim(event) is None
    assert not world.consumer.requests(event)
    assert (await world.deliver(event)).verdict == "first"


@pytest.mark.row(22)
async def test_a_consumer_that_is_not_there_leaves_no_doubt(world: World, gateway: Gateway) -> None:
    event = fresh()
    reply = await world.deliver(event, path="/hooks/closed")
    assert (reply.status, reply.verdict) == (502, "first")
    assert reply.retry_after > 0
    assert await world.database.claim(event) == Claim("released", False, 1)


@pytest.mark.row(26, 47)
async def test_an_effect_whose_answer_never_came_makes_the_retry_a_marked_one(
    world: World, gateway: Gateway
) -> None:
    event, never = fresh(), asyncio.Event()
    world.consumer.script(event, Says(acts="before", until=never), Says(status=401), Says())
    gone = await world.deliver(event, path="/hooks/hasty")
    assert gone.status == 504
    assert gone.retry_after > 0
    assert await world.database.claim(event) == Claim("released", True, 1)
    # A refusal does not take the doubt away again.
    assert (await world.deliver(event, path="/hooks/hasty")).status == 401
    assert (await world.deliver(event, path="/hooks/hasty")).status == 200
    never.set()
    assert world.attempts(event) == [(1, False), (2, True), (3, True)]
    assert [effect.marked for effect in world.consumer.effects(event)] == [False, True]


@pytest.mark.row(27)
async def test_a_time_out_before_any_effect_is_a_false_alarm_that_costs_only_the_mark(
    world: World, gateway: Gateway
) -> None:
    event, never = fresh(), asyncio.Event()
    world.consumer.script(event, Says(acts="never", until=never), Says())
    assert (await world.deliver(event, path="/hooks/hasty")).status == 504
    assert (await world.deliver(event, path="/hooks/hasty")).status == 200
    never.set()
    assert [effect.marked for effect in world.consumer.effects(event)] == [True]


@pytest.mark.row(28)
@pytest.mark.parametrize("order", ["before the retry", "after the retry"])
async def test_an_effect_that_comes_after_our_time_out_stands_beside_a_marked_one_at_most(
    world: World, gateway: Gateway, order: str
) -> None:
    event, wakes = fresh(), asyncio.Event()
    world.consumer.script(event, Says(acts="after", until=wakes), Says())
    assert (await world.deliver(event, path="/hooks/hasty")).status == 504
    if order == "before the retry":
        wakes.set()
        await eventually(lambda: world.consumer.effects(event), within=15)
    assert (await world.deliver(event, path="/hooks/hasty")).status == 200
    wakes.set()
    await eventually(lambda: len(world.consumer.effects(event)) == 2, within=15)
    assert sorted(effect.marked for effect in world.consumer.effects(event)) == [False, True]


@pytest.mark.row(30, 39)
async def test_a_success_is_recorded_before_the_provider_hears_of_it(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    first = await world.deliver(event)
    assert (first.status, first.verdict) == (200, "first")
    claim = await world.database.claim(event)
    assert claim is not None
    assert (claim.state, claim.doubtful) == ("completed", False)
    second = await world.deliver(event)
    assert (second.status, second.verdict) == (200, "duplicate")
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(36)
@pytest.mark.parametrize("acts", ["before", "never"])
@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_5xx_leaves_doubt_whether_or_not_there_was_an_effect(
    world: World, gateway: Gateway, status: int, acts: str
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=status, acts=acts), Says())  # type: ignore[arg-type]
    assert (await world.deliver(event)).status == status
    assert await world.database.claim(event) == Claim("released", True, 1)
    assert (await world.deliver(event)).status == 200
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.row(38)
@pytest.mark.parametrize("status", [208, 409])
async def test_already_processed_is_a_success_where_the_route_lists_it(
    world: World, gateway: Gateway, status: int
) -> None:
    event = fresh()
    world.consumer.script(event, Says(status=status, reason="Already Done"))
    assert (await world.deliver(event, path="/hooks/settled")).status == status
    again = await world.deliver(event, path="/hooks/settled")
    assert (again.status, again.verdict) == (200, "duplicate")
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(48)
async def test_another_body_under_the_same_id_is_a_duplicate_that_is_counted(
    world: World, gateway: Gateway
) -> None:
    event, before = fresh(), await gateway.scrape()
    await world.deliver(event, amount=1)
    # Eight bits of the body are compared; out of ten other bodies some differ all but certainly.
    replies = [await world.deliver(event, amount=amount) for amount in range(2, 12)]
    assert {(reply.status, reply.verdict) for reply in replies} == {(200, "duplicate")}
    assert len(world.consumer.requests(event)) == 1
    after = await gateway.scrape()
    assert after.since(before, "dedup_payload_mismatches_total", route="orders") >= 1


@pytest.mark.row(49)
async def test_the_same_id_elsewhere_is_another_event(world: World, gateway: Gateway) -> None:
    event = fresh()
    verdicts = [
        (await world.deliver(event)).verdict,
        (await world.deliver(event, path="/hooks/hasty")).verdict,
        (await world.deliver(event, path="/hooks/tenants", tenant="A")).verdict,
        (await world.deliver(event, path="/hooks/tenants", tenant="B")).verdict,
        (await world.deliver(event, path="/hooks/tenants", tenant="A")).verdict,
    ]
    assert verdicts == ["first", "first", "first", "first", "duplicate"]
    assert world.attempts(event) == [(1, False)] * 4


@pytest.mark.row(59)
async def test_an_answer_that_is_lost_on_the_way_is_given_again(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    async with sender.Connection(gateway.address) as connection:
        await connection.write(sender.event(event))
        await world.database.becomes(event, "completed")
        connection.reset()
    again = await world.deliver(event)
    assert (again.status, again.verdict) == (200, "duplicate")
    assert len(world.consumer.effects(event)) == 1
