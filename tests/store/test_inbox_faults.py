"""The inbox when replies get lost, a session dies in the middle, or the disk is full."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from gateway.core.claim import Seen, StoreAway
from gateway.core.inbox import Accepted, EntryEnding, EntryState
from tests.fault_proxy import FaultProxy, Wire
from tests.rig.deadline import eventually
from tests.store.lost import with_a_lost_reply
from tests.store.statements import storing
from tests.store.stores import (
    PATIENCE,
    ROUTE,
    Stores,
    at_once,
    claim,
    conclusion,
    entry,
    fresh_ask,
    fresh_offer,
    lapse_entry,
    waiting_for_a_lock,
)


@pytest.mark.row(75)
async def test_an_offer_whose_reply_was_lost_is_found_again_by_its_token(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    offer = fresh_offer(state=EntryState.LEASED)
    told = await with_a_lost_reply(
        wire, store.accept(offer, PATIENCE), once=lambda: entry(sql, offer.key)
    )
    assert isinstance(told, Accepted)
    assert len(store.sizes("accept")) > 1
    found = await entry(sql, offer.key)
    assert found is not None
    assert (found.state, found.attempt, found.token) == (EntryState.LEASED, 1, offer.token)


@pytest.mark.row(75)
async def test_an_offer_that_stays_unknown_is_never_acknowledged_and_the_retry_finds_it(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    await store.accept(fresh_offer())  # so that the next statement is prepared and goes in one trip
    offer = fresh_offer()
    wire.set(Wire.HOLD_REPLIES)
    with pytest.raises(StoreAway) as away:
        await store.accept(offer)
    assert away.value.undecided
    assert await eventually(lambda: entry(sql, offer.key), within=PATIENCE)
    wire.set(Wire.PASS)
    await store.up()
    assert isinstance(await store.accept(fresh_offer(offer.key)), Seen)


@pytest.mark.row(74)
async def test_an_offer_that_ended_before_it_was_committed_left_nothing_and_the_retry_stores_it(
    stores: Stores, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    dying, heir = await stores.open(), await stores.open()
    offer = fresh_offer()

    async def nobody_waits() -> bool:
        pid = await waiting_for_a_lock(sql)
        await sql.execute("select pg_terminate_backend($1)", pid or 0)
        return pid is None

    async with other.transaction():
        await other.execute("lock table dedup.entries in share mode")
        asked = asyncio.ensure_future(dying.accept(offer, PATIENCE))
        await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)  # its claim is in by now
        await dying.inner.stop()
        with pytest.raises(StoreAway):
            await asked
        await eventually(nobody_waits, within=PATIENCE)
    assert await claim(sql, offer.key) is None
    assert await entry(sql, offer.key) is None
    assert isinstance(await heir.accept(fresh_offer(offer.key)), Accepted)
    assert isinstance(await heir.accept(fresh_offer(offer.key)), Seen)
    assert await sql.fetchval("select count(*) from dedup.entries") == 1


async def test_storing_whose_reply_was_lost_is_repeated_and_told(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    await store.arrive(ask)
    offer = fresh_offer(ask.key, EntryState.LEASED, token=ask.token)
    stored = await with_a_lost_reply(
        wire, store.store(offer, PATIENCE), once=lambda: entry(sql, offer.key)
    )
    assert stored
    found = await entry(sql, offer.key)
    assert found is not None
    assert found.attempt == 1


async def test_storing_that_waits_for_its_own_first_try_is_told_what_that_did(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """The second looked before the first was done, so it sees no entry of its own."""
    store = await stores.open(wire.proxied)
    ask = fresh_ask()
    await store.arrive(ask)
    offer = fresh_offer(ask.key, token=ask.token)
    async with other.transaction():
        await other.fetch(*storing(offer))  # the first try, as if it had got through
        wire.set(Wire.BLACK_HOLE)
        asked = asyncio.ensure_future(store.store(offer, PATIENCE))
        await asyncio.sleep(0)
        wire.drop_all()
        await eventually(lambda: store.errors["connection"], within=PATIENCE)
        wire.set(Wire.PASS)
        await eventually(lambda: waiting_for_a_lock(sql), within=PATIENCE)
    assert await asked


@pytest.mark.parametrize("ending", [EntryEnding.RETRY, EntryEnding.DELIVER])
async def test_a_conclusion_whose_reply_was_lost_is_repeated_without_harm(
    ending: EntryEnding, stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    await store.accept(fresh_offer())
    (leased,) = await store.lease()

    async def is_over() -> bool:
        found = await entry(sql, leased.key)
        return found is not None and found.state is not EntryState.LEASED

    end = conclusion(leased, ending, pause=0.0)
    told = await with_a_lost_reply(wire, store.conclude(end), once=is_over)
    assert not told.late
    found = await entry(sql, leased.key)
    assert found is not None
    assert (found.attempt, found.doubtful) == (1, False)
    if ending is EntryEnding.DELIVER:
        assert found.state is EntryState.DELIVERED
    else:
        (again,) = await store.lease()
        assert (again.attempt, again.doubtful) == (2, False)


async def test_a_lease_whose_reply_was_lost_is_taken_over_when_it_ends(
    stores: Stores, wire: FaultProxy, sql: asyncpg.Connection
) -> None:
    store = await stores.open(wire.proxied)
    offer = fresh_offer()
    await store.accept(offer)
    await store.lease(0)

    async def is_leased() -> bool:
        found = await entry(sql, offer.key)
        return found is not None and found.state is EntryState.LEASED

    wire.cut_if = is_leased
    wire.set(Wire.CUT_REPLIES)
    with pytest.raises(StoreAway) as away:
        await store.lease()
    assert away.value.undecided
    wire.set(Wire.PASS)
    await store.up()
    assert await store.lease() == []
    await lapse_entry(sql, offer.key)
    (leased,) = await store.lease()
    assert (leased.attempt, leased.doubtful) == (2, True)


@pytest.mark.row(96)
async def test_on_a_full_disk_nothing_is_acknowledged_and_duplicates_are_served(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    known, new = fresh_offer(), fresh_offer()
    await store.accept(known)
    await sql.execute("""
        create function dedup.refuse() returns trigger language plpgsql as
            'begin raise exception ''No space left on device'' using errcode = ''disk_full''; end';
        create trigger refuse before insert on dedup.entries
            for each row execute function dedup.refuse();
    """)
    duplicate, refused = await asyncio.gather(
        store.accept(fresh_offer(known.key)), store.accept(new), return_exceptions=True
    )
    assert isinstance(duplicate, Seen)
    assert isinstance(refused, StoreAway)
    assert not refused.undecided
    assert "No space left" in str(refused)
    assert await claim(sql, new.key) is None
    assert store.inner.away_since is None
    await sql.execute("drop trigger refuse on dedup.entries")
    assert isinstance(await store.accept(new), Accepted)


async def test_calls_that_wait_when_the_store_stops_are_told(
    stores: Stores, wire: FaultProxy
) -> None:
    store = await stores.open(wire.proxied)
    wire.set(Wire.BLACK_HOLE)
    offer = fresh_offer()
    calls: list[asyncio.Future[object]] = [
        asyncio.ensure_future(store.accept(offer, PATIENCE)),
        asyncio.ensure_future(store.store(offer, PATIENCE)),
        asyncio.ensure_future(store.conclude(conclusion(offer, EntryEnding.BURY))),
        asyncio.ensure_future(store.lease()),
        asyncio.ensure_future(store.inner.revive(offer)),
        asyncio.ensure_future(store.inner.waiting()),
        asyncio.ensure_future(store.inner.due([ROUTE])),
    ]
    await asyncio.sleep(0)
    await asyncio.wait_for(store.inner.stop(), PATIENCE)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(t, StoreAway) for t in told), told


async def test_an_unknown_route_is_refused_at_once(stores: Stores) -> None:
    store = await stores.open()
    offer = fresh_offer()._replace(route="nowhere")
    for call in (
        lambda: store.accept(offer),
        lambda: store.store(offer),
        lambda: store.conclude(conclusion(offer, EntryEnding.BURY)),
        lambda: store.inner.lease("nowhere", 1, 1, 1.0, newest=False),
    ):
        with pytest.raises(LookupError, match="never registered"):
            await call()


async def test_one_that_cannot_be_stored_is_refused_alone(
    stores: Stores, sql: asyncpg.Connection
) -> None:
    store = await stores.open()
    good = [fresh_offer() for _ in range(6)]
    bad = fresh_offer()
    bad = bad._replace(delivery=bad.delivery._replace(target="/nul\x00"))
    told = await asyncio.gather(
        *(store.accept(offer, PATIENCE) for offer in [*good[:3], bad, *good[3:]]),
        return_exceptions=True,
    )
    assert isinstance(told.pop(3), StoreAway)
    assert all(isinstance(t, Accepted) for t in told)


async def test_offers_of_one_turn_leave_as_one_statement(stores: Stores) -> None:
    store = await stores.open()
    offers = [fresh_offer() for _ in range(100)]
    await at_once(store.accept(offer) for offer in offers)
    assert store.sizes("accept") == [100]
    leased = await store.lease(100)
    await at_once(store.conclude(conclusion(one, EntryEnding.RETRY)) for one in leased)
    assert store.sizes("put_back") == [100]
    leased = await store.lease(100)
    await at_once(store.conclude(conclusion(one, EntryEnding.DELIVER)) for one in leased)
    assert store.sizes("complete") == [100]
