"""An operator and the workers at the same rows, many rounds: each entry has one story."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway.core.claim import State
from gateway.core.inbox import EntryState
from gateway.core.operating import Action
from gateway.operating.bulk import Deed, Tally, act_on, act_on_all
from gateway.store.operator import By, Desk, Filter, Seen, desk
from tests.operating.rows import Rows, known, random_token

BY = By("alice", "race")
ROUNDS = 40


@pytest.fixture
async def worker(database: str) -> AsyncIterator[Rows]:
    """A worker's session."""
    connection = await asyncpg.connect(database)
    yield Rows(connection)
    await connection.close()


async def as_seen(at: Desk, key: bytes) -> Seen:
    entry = (await known(at, key)).entry
    assert entry is not None
    return Seen(key, entry.state, entry.attempt)


@pytest.mark.row(91)
async def test_a_redrive_beside_a_lease_never_makes_two_workers_of_one_attempt(
    at: Desk, rows: Rows, worker: Rows
) -> None:
    outcomes: Counter[str] = Counter()
    for n in range(ROUNDS):
        key = await rows.entry(f"evt_{n}", state="p", attempt=1)
        seen = await as_seen(at, key)
        mine, other = random_token(), random_token()
        done, leased = await asyncio.gather(at.act(Action.REDRIVE, [seen], BY), worker.lease(mine))
        entry = (await known(at, key)).entry
        assert entry is not None
        if leased:
            # whoever came first, the worker holds it now, and nobody else gets it
            assert (entry.state, entry.attempt, entry.token) == (EntryState.LEASED, 2, mine)
            assert not await rows.lease(other)
            assert await worker.put_back(key, mine, state="x")
        else:
            assert (entry.state, entry.attempt) == (EntryState.PENDING, 1)
            assert await rows.lease(other)
            assert await rows.put_back(key, other, state="x")
        outcomes[f"{bool(done)} {bool(leased)}"] += 1
    assert sum(outcomes.values()) == ROUNDS
    recorded = [action for _, action, _, _ in await rows.recorded()]
    assert len(recorded) == outcomes["True True"] + outcomes["True False"]


@pytest.mark.row(91)
async def test_a_redrive_beside_a_worker_that_concludes_leaves_a_success_a_success(
    at: Desk, rows: Rows, worker: Rows
) -> None:
    for n in range(ROUNDS):
        key = await rows.entry(f"evt_{n}", state="p", attempt=0)
        token = random_token()
        assert await worker.lease(token)
        # the lease is over, and the worker comes back with a success all the same
        await rows.sql.execute("update dedup.entries set due = now() - interval '1 s'")
        seen = await as_seen(at, key)
        await asyncio.gather(at.act(Action.REDRIVE, [seen], BY), worker.succeed(key, token))
        after = await known(at, key)
        assert after.entry is not None
        assert after.claim is not None
        assert (after.entry.state, after.claim.state) == (EntryState.DELIVERED, State.COMPLETED)
        assert not await rows.lease(random_token())


@pytest.mark.row(91)
async def test_a_worker_that_lost_its_entry_to_a_redrive_cannot_put_it_back(
    at: Desk, rows: Rows, worker: Rows
) -> None:
    key = await rows.entry(state="l", attempt=2, due=-1.0)
    assert await at.act(Action.REDRIVE, [await as_seen(at, key)], BY)
    assert not await worker.put_back(key, 7, state="x")
    entry = (await known(at, key)).entry
    assert entry is not None
    assert (entry.state, entry.doubtful) == (EntryState.PENDING, True)


async def test_the_next_attempt_after_a_redrive_is_known_to_be_a_persons_order(
    at: Desk, rows: Rows, worker: Rows
) -> None:
    key = await rows.entry(state="h", attempt=2)
    assert await at.act(Action.REDRIVE, [await as_seen(at, key)], BY)
    (ordered,) = await worker.lease(11)
    assert await worker.put_back(key, 11)
    (usual,) = await worker.lease(12)
    assert (ordered["by_order"], usual["by_order"]) == (True, False)


@pytest.mark.row(91)
@pytest.mark.parametrize("action", [Action.DROP, Action.COMPLETE])
async def test_what_is_dropped_or_completed_beside_a_lease_is_sent_by_nobody_or_left_alone(
    at: Desk, rows: Rows, worker: Rows, action: Action
) -> None:
    for n in range(ROUNDS):
        key = await rows.entry(f"evt_{n}", state="p", attempt=1)
        seen, token = await as_seen(at, key), random_token()
        done, leased = await asyncio.gather(at.act(action, [seen], BY), worker.lease(token))
        assert bool(done) is not bool(leased)
        after = await known(at, key)
        assert after.entry is not None
        assert after.claim is not None
        if leased:
            assert (after.entry.state, after.claim.state) == (EntryState.LEASED, State.STORED)
            await worker.succeed(key, token)
        else:
            assert after.entry.state in (EntryState.DROPPED, EntryState.DELIVERED)
            assert after.claim.state is State.COMPLETED


@pytest.mark.row(91)
async def test_a_release_beside_arrivals_lets_exactly_one_of_them_through(
    at: Desk, rows: Rows, worker: Rows
) -> None:
    for n in range(ROUNDS):
        key = await rows.claim(f"evt_{n}")

        async def deliver(by: Rows, key: bytes = key) -> bool:
            told = await by.arrive(key, random_token())
            if not told["open"]:
                return False
            won = await by.take_over(key, told["attempt"], told["state"], random_token())
            assert won is None or won["doubtful"]
            return won is not None

        released, early, late = await asyncio.gather(
            at.release(key, 1, BY), deliver(worker), deliver(rows)
        )
        assert released
        assert early + late + await deliver(rows) == 1


async def test_of_two_operators_with_one_release_one_is_refused(
    at: Desk, rows: Rows, database: str
) -> None:
    async with desk(database) as other:
        for n in range(10):
            key = await rows.claim(f"evt_{n}")
            both = await asyncio.gather(at.release(key, 1, BY), other.release(key, 1, BY))
            assert sorted(both) == [False, True]
    assert len(await rows.recorded()) == 10


async def test_a_bulk_redrive_beside_busy_workers_touches_every_entry_once_and_accounts_for_all(
    at: Desk, rows: Rows, worker: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operating.bulk.BATCH", 40)
    for n in range(300):
        await rows.entry(f"evt_{n}", state=random.choice("pxh"), attempt=1)
    stop = asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            token = random_token()
            for row in await worker.lease(token, most=5):
                ended = random.random()
                if ended < 0.5:
                    await worker.succeed(row["key"].bytes, token)
                else:
                    await worker.put_back(row["key"].bytes, token, state="x")

    busy = asyncio.create_task(work())
    states = (EntryState.PENDING, EntryState.DEAD, EntryState.HELD)
    wanted = Filter(None, states, at.now + 5, None)
    told: list[int] = []
    tally = Tally()
    await act_on_all(at, wanted, Deed(Action.REDRIVE, BY, told.append), tally)
    stop.set()
    await busy
    recorded = await rows.recorded()
    assert len(recorded) == tally.done
    assert told == sorted(told)
    assert told[-1] == tally.handled <= 300
    assert await rows.sql.fetchval("select count(distinct key) from dedup.actions") == tally.done
    assert not await rows.sql.fetchval(
        "select count(*) from dedup.entries e join dedup.claims c using (key)"
        " where (e.state = 'd') <> (c.state in ('d', 'D'))"
    )


async def test_a_locked_row_costs_a_batch_nothing_but_itself(
    at: Desk, rows: Rows, worker: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.operator.LOCKED_TRIES", 0)
    keys = [await rows.entry(f"evt_{n}") for n in range(9)]
    seen = [await as_seen(at, key) for key in keys]
    tally = Tally()
    async with worker.sql.transaction():
        await worker.sql.execute("select from dedup.entries where event_id = 'evt_4' for update")
        await act_on(at, seen, Deed(Action.DROP, BY), tally)
    assert (tally.done, dict(tally.refused)) == (8, {"locked": 1})
