"""Copies that meet the first one while it is undecided."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.deadline import eventually
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The field case: 50 connections on one barrier, 200 rounds.
CONNECTIONS = 50
ROUNDS_IN_TEST, ROUNDS_IN_SOAK = 30, 200
# Less than a second: time passes for all rounds of a process one after another.
CONSUMER_TAKES = 0.1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(world: World) -> AsyncIterator[list[Gateway]]:
    """Two gateways on one store."""
    slow = world.route(
        "slow", promise={"timeout": "2s", "retry_horizon": "1h", "redrive_window": "1h"}
    )
    # A thousand connections in one test keep its consumer from answering in the usual four seconds.
    file = world.file(world.route(upstream={"timeout": "20s"}), slow)
    yield [await world.gateway(file), await world.gateway(file)]


async def race(world: World, gateways: list[Gateway], rounds: int) -> None:
    for _ in range(rounds):
        event = fresh("race")
        world.consumer.script(event, Says(delay=CONSUMER_TAKES))
        replies = await sender.volley(
            [gateway.address for gateway in gateways], [sender.event(event)] * CONNECTIONS
        )
        assert len(world.consumer.requests(event)) == 1
        assert {reply.status for reply in replies} == {200}
        verdicts = sorted(reply.verdict or "" for reply in replies)
        assert verdicts == ["duplicate"] * (CONNECTIONS - 1) + ["first"]
        late = await world.deliver(event, gateways[-1])
        assert (late.status, late.verdict) == (200, "duplicate")
        assert len(world.consumer.requests(event)) == 1


@pytest.mark.case("B001")
@pytest.mark.parametrize("processes", [1, 2])
async def test_every_path_that_did_not_win_stops_before_the_forward(
    world: World, pair: list[Gateway], processes: int
) -> None:
    await race(world, pair[:processes], ROUNDS_IN_TEST)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.case("B001")
@pytest.mark.parametrize("processes", [1, 2])
async def test_two_hundred_rounds_have_two_hundred_winners(
    world: World, pair: list[Gateway], processes: int
) -> None:
    await race(world, pair[:processes], ROUNDS_IN_SOAK)


@pytest.mark.case("B002")
@pytest.mark.row(40)
async def test_a_copy_of_an_undecided_event_is_never_acknowledged_on_the_claim_alone(
    world: World, pair: list[Gateway]
) -> None:
    event, failed = fresh(), asyncio.Event()
    world.consumer.script(event, Says(status=500, until=failed), Says())
    async with sender.Connection(pair[0].address) as impatient:
        await impatient.write(sender.event(event))
        await eventually(lambda: world.consumer.requests(event), within=15)
    copy = asyncio.create_task(world.deliver(event, pair[0]))
    await asyncio.sleep(0.3)
    assert not copy.done()
    failed.set()
    assert (await copy).status == 500
    third = await world.deliver(event, pair[0])
    assert (third.status, third.verdict) == (200, "first")
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.case("B002")
async def test_a_copy_at_another_gateway_forwards_again_once_the_first_has_failed(
    world: World, pair: list[Gateway]
) -> None:
    event, failed = fresh(), asyncio.Event()
    world.consumer.script(event, Says(status=500, until=failed), Says())
    first = asyncio.create_task(world.deliver(event, pair[0]))
    await eventually(lambda: world.consumer.requests(event), within=15)
    copy = asyncio.create_task(world.deliver(event, pair[1]))
    await asyncio.sleep(0.3)
    assert not copy.done()
    failed.set()
    assert (await first).status == 500
    second = await copy
    assert (second.status, second.verdict) == (200, "first")
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.row(40)
@pytest.mark.parametrize("other", [0, 1], ids=["same process", "another process"])
async def test_a_copy_that_outwaits_the_promise_is_told_503_and_when_to_come_again(
    world: World, pair: list[Gateway], other: int
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    first = asyncio.create_task(world.deliver(event, pair[0], "/hooks/slow"))
    await eventually(lambda: world.consumer.requests(event), within=15)
    began = time.monotonic()
    copy = await world.deliver(event, pair[other], "/hooks/slow")
    took = time.monotonic() - began
    assert (copy.status, copy.verdict) == (503, "busy")
    assert copy.retry_after > 0
    assert 0.8 < took < 2.0  # the promised time-out, 2 s, less a second
    free.set()
    assert (await first).status == 200
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(43)
async def test_a_waiter_at_another_gateway_learns_of_the_success(
    world: World, pair: list[Gateway]
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    first = asyncio.create_task(world.deliver(event, pair[0]))
    await eventually(lambda: world.consumer.requests(event), within=15)
    copies = [asyncio.create_task(world.deliver(event, pair[1])) for _ in range(5)]
    await asyncio.sleep(0.4)
    assert not any(copy.done() for copy in copies)
    free.set()
    assert (await first).verdict == "first"
    assert {(await copy).verdict for copy in copies} == {"duplicate"}
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(41)
async def test_a_storm_of_copies_is_bounded_and_the_store_sees_little_of_it(
    world: World, pair: list[Gateway]
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    first = asyncio.create_task(world.deliver(event, pair[0]))
    await eventually(lambda: world.consumer.requests(event), within=15)
    before = await pair[0].scrape()
    storm = asyncio.create_task(
        sender.volley([pair[0].address], [sender.event(event)] * 1000, within=30)
    )

    async def most_are_refused() -> bool:
        now = await pair[0].scrape()
        return now.since(before, "dedup_deliveries_total", verdict="busy") >= 500

    await eventually(most_are_refused, within=10)
    free.set()
    replies = await storm
    assert (await first).status == 200
    statuses = [reply.status for reply in replies]
    assert set(statuses) == {200, 503}
    assert statuses.count(503) >= 500
    assert all(reply.retry_after for reply in replies if reply.status == 503)
    after = await pair[0].scrape()
    # One watcher per id and process: a thousand copies must not be a thousand look-ups.
    assert after.since(before, "dedup_claim_duration_seconds_count") < 100
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(42)
@pytest.mark.parametrize("other", [0, 1], ids=["same process", "another process"])
async def test_a_waiter_whose_sender_leaves_changes_nothing(
    world: World, pair: list[Gateway], other: int
) -> None:
    event, free = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=free))
    first = asyncio.create_task(world.deliver(event, pair[0]))
    await eventually(lambda: world.consumer.requests(event), within=15)
    async with sender.Connection(pair[other].address) as leaving:
        await leaving.write(sender.event(event))
        await asyncio.sleep(0.1)
    staying = asyncio.create_task(world.deliver(event, pair[other]))
    await asyncio.sleep(0.1)
    free.set()
    assert (await first).verdict == "first"
    assert (await staying).verdict == "duplicate"
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.row(45)
async def test_of_many_that_find_a_lapsed_claim_one_takes_it_over(
    world: World, pair: list[Gateway]
) -> None:
    event, never = fresh(), asyncio.Event()
    world.consumer.script(event, Says(until=never), Says(delay=0.2))
    dead = await world.gateway(failpoint="forwarding:kill")
    assert await dead.attempt(sender.event(event)) is None
    await dead.died()
    await world.database.lapse(event)
    replies = await sender.volley([gateway.address for gateway in pair], [sender.event(event)] * 20)
    never.set()
    assert {reply.status for reply in replies} == {200}
    assert world.attempts(event) == [(1, False), (2, True)]


@pytest.mark.row(108)
async def test_a_forged_copy_that_holds_the_slot_does_not_answer_for_the_genuine_one(
    world: World, pair: list[Gateway]
) -> None:
    event, refused = fresh(), asyncio.Event()
    world.consumer.script(event, Says(status=401, reason="Unauthorized", until=refused), Says())
    forged = asyncio.create_task(world.deliver(event, pair[0], signature="wrong"))
    await eventually(lambda: world.consumer.requests(event), within=15)
    genuine = asyncio.create_task(world.deliver(event, pair[0], signature="right"))
    await asyncio.sleep(0.2)
    assert len(world.consumer.requests(event)) == 1
    refused.set()
    assert (await forged).status == 401
    assert ((await genuine).status, (await genuine).verdict) == (200, "first")
    assert world.attempts(event) == [(1, False), (2, False)]


@pytest.mark.row(109, 39)
async def test_a_replay_of_a_completed_event_gets_what_any_duplicate_gets(
    world: World, pair: list[Gateway]
) -> None:
    event = fresh()
    world.consumer.script(event, Says(body=b'{"order":"internal-4711"}'))
    assert (await world.deliver(event, pair[0])).body == b'{"order":"internal-4711"}'
    replies = [await world.deliver(event, gateway, attack=True) for gateway in pair]
    assert {(reply.status, reply.body) for reply in replies} == {
        (200, b'{"received": true, "duplicate": true}')
    }
    assert len(world.consumer.requests(event)) == 1
