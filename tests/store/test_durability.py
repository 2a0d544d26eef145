"""A store that may lose what it has confirmed says so, at start and when it is asked."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.core.claim import StoreAway
from gateway.store.durability import Durability, ask
from tests.rig.balancer import free_port
from tests.store.stores import Stores

SAFE = Durability("15.8", True, True, "on", "", 0)


@pytest.mark.parametrize(
    ("said", "about"),
    [
        (SAFE, None),
        (SAFE._replace(synchronous_standby_names="ANY 1 (a, b)", followers=2), None),
        (SAFE._replace(synchronous_commit="remote_apply"), None),
        (SAFE._replace(fsync=False), "fsync"),
        (SAFE._replace(full_page_writes=False), "full_page_writes"),
        (SAFE._replace(synchronous_commit="off"), "synchronous_commit is off"),
        (SAFE._replace(synchronous_commit="local"), None),
        (SAFE._replace(synchronous_commit="local", synchronous_standby_names="a"), "is local"),
        (SAFE._replace(followers=1), "1 of others follow"),
    ],
)
def test_each_way_to_lose_what_was_confirmed_is_named(said: Durability, about: str | None) -> None:
    found = " ".join(said.risks)
    assert about in found if about else not found


@pytest.mark.row(97)
async def test_a_server_that_confirms_before_it_keeps_is_found_out(
    stores: Stores, database: str, sql: asyncpg.Connection
) -> None:
    before = await stores.open()  # of a test server, which is not asked to survive a power cut
    assert (await ask(database)).risks == before.inner.risks
    name = await sql.fetchval("select current_database()")
    await sql.execute(f"alter database {name} set synchronous_commit = off")
    rash = await stores.open()
    (new,) = set(rash.inner.risks) - set(before.inner.risks)
    assert new.startswith("synchronous_commit is off")
    assert (await ask(database)).risks == rash.inner.risks


async def test_a_store_that_is_not_there_cannot_say() -> None:
    with pytest.raises(StoreAway):
        await ask(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
