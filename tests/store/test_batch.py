"""Calls leave together, and what happens to one of them is not the others' business."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from gateway.core.claim import Ending, Held, Seen, Settled, StoreAway, Won
from gateway.store.batch import Batch, Group, calls_of
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.stores import PATIENCE, Stores, fresh_ask


async def test_calls_of_one_turn_leave_as_one_statement(stores: Stores) -> None:
    store = await stores.open()
    asks = [fresh_ask() for _ in range(100)]
    await asyncio.gather(*(store.arrive(ask) for ask in asks))
    await asyncio.gather(*(store.settle(ask, Ending.COMPLETE) for ask in asks))
    assert store.sizes("arrive") == [100]
    assert store.sizes("settle") == [100]


async def test_more_calls_than_a_statement_takes_leave_as_several(stores: Stores) -> None:
    store = await stores.open()
    told = await asyncio.gather(*(store.arrive(fresh_ask(), PATIENCE) for _ in range(1100)))
    assert all(isinstance(t, Won) for t in told)
    assert sorted(store.sizes("arrive")) == [76, 512, 512]


async def test_a_batch_is_sorted_so_that_those_who_meet_wait_in_one_direction() -> None:
    sent: list[list[bytes]] = []

    async def send(groups: list[Group[int, int]], _wait: str) -> None:
        sent.append([group[0].key for group in groups])
        for call in calls_of(groups):
            call.tell(call.item)

    batch = Batch(send, time.monotonic, apart=Batch(send, time.monotonic))
    keys = [bytes([n * 37 % 256]) for n in range(100)]
    told = await asyncio.gather(*(batch.call(key, key[0], PATIENCE) for key in keys))
    assert told == [key[0] for key in keys]
    assert sent == [sorted(keys)]
    await batch.close()


async def test_a_batch_that_breaks_tells_its_callers_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def send(groups: list[Group[int, int]], _wait: str) -> None:
        groups[0][0].tell(1)
        raise ArithmeticError("a fault of ours")

    batch = Batch(send, time.monotonic, apart=Batch(send, time.monotonic))
    told = await asyncio.gather(
        batch.call(b"a", 0, PATIENCE), batch.call(b"b", 0, PATIENCE), return_exceptions=True
    )
    assert told[0] == 1
    assert isinstance(told[1], StoreAway)
    assert str(told[1]) == "the batch broke"
    await batch.close()
    gc.collect()
    assert "a fault of ours" in caplog.text  # and the log says why


async def test_batches_grow_while_a_statement_is_under_way(stores: Stores, database: str) -> None:
    proxy = FaultProxy(database)
    await proxy.start()
    store = await stores.open(proxy.proxied)
    await store.arrive(fresh_ask())
    store.statements.clear()
    proxy.set(Wire.HOLD_REPLIES)
    first = asyncio.ensure_future(store.arrive(fresh_ask(), PATIENCE))
    await eventually(lambda: proxy.replies_held == 1, within=PATIENCE)
    rest = []
    for _ in range(30):  # one by one, each in a turn of its own
        rest.append(asyncio.ensure_future(store.arrive(fresh_ask(), PATIENCE)))
        await asyncio.sleep(0)
    proxy.set(Wire.PASS)
    told = await asyncio.gather(first, *rest)
    assert all(isinstance(t, Won) for t in told)
    assert len(store.sizes("arrive")) <= 4
    await store.inner.stop()
    await proxy.stop()


async def test_of_deliveries_of_one_event_in_one_turn_one_wins_and_the_others_meet_it(
    stores: Stores,
) -> None:
    store = await stores.open()
    first = fresh_ask(fingerprint=7)
    same, other = fresh_ask(first.key), fresh_ask(first.key, fingerprint=8)
    told = await asyncio.gather(*(store.arrive(ask) for ask in (first, same, other, first)))
    assert isinstance(told[0], Won)
    now = told[0].now
    assert told == [told[0], Held(True, now), Held(False, now), told[0]]
    assert store.sizes("arrive") == [1]


async def test_a_storm_of_duplicates_of_one_event_is_one_question(stores: Stores) -> None:
    store = await stores.open()
    ask = fresh_ask(fingerprint=7)
    await store.arrive(ask)
    await store.settle(ask, Ending.COMPLETE)
    store.statements.clear()
    asks = [fresh_ask(ask.key, fingerprint=n % 2 + 7) for n in range(1000)]
    told = await asyncio.gather(*(store.arrive(ask) for ask in asks))
    assert all(isinstance(t, Seen) and t.same_body is (n % 2 == 0) for n, t in enumerate(told))
    assert store.sizes("arrive") == [1]


async def test_one_that_cannot_be_stored_fails_alone(stores: Stores) -> None:
    """Refused by asyncpg before it is sent, and refused by the server."""
    store = await stores.open()
    too_big = fresh_ask()._replace(token=2**64)
    endless = fresh_ask()._replace(lease=1e300)
    good = [fresh_ask() for _ in range(40)]
    asks = [*good[:20], too_big, *good[20:], endless]
    told = await asyncio.gather(*(store.arrive(ask) for ask in asks), return_exceptions=True)
    failed = [ask for ask, t in zip(asks, told, strict=True) if isinstance(t, StoreAway)]
    assert failed == [too_big, endless]
    assert sum(isinstance(t, Won) for t in told) == len(good)
    assert store.errors["data"] > 0


async def test_a_caller_that_leaves_takes_nobody_along(stores: Stores) -> None:
    store = await stores.open()
    asks = [fresh_ask() for _ in range(10)]
    calls = [asyncio.ensure_future(store.arrive(ask)) for ask in asks]
    await asyncio.sleep(0)
    calls[3].cancel()
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(told.pop(3), asyncio.CancelledError)
    assert all(isinstance(t, Won) for t in told)
    settled = await asyncio.gather(*(store.settle(ask, Ending.COMPLETE) for ask in asks))
    assert all(s in (Settled(True, False), Settled(True, True)) for s in settled)


@pytest.mark.parametrize("within", [0.1, 0.25])
async def test_a_call_fails_at_its_own_deadline_not_at_its_batch_s(
    within: float, stores: Stores, database: str
) -> None:
    proxy = FaultProxy(database)
    await proxy.start()
    store = await stores.open(proxy.proxied)
    await store.arrive(fresh_ask())
    proxy.set(Wire.HOLD_REPLIES)
    began = asyncio.get_running_loop().time()
    patient = asyncio.ensure_future(store.arrive(fresh_ask(), PATIENCE))
    with pytest.raises(StoreAway):
        await store.arrive(fresh_ask(), within)
    assert within <= asyncio.get_running_loop().time() - began < within + 0.8
    proxy.set(Wire.PASS)
    assert isinstance(await patient, Won)
    await store.inner.stop()
    await proxy.stop()
