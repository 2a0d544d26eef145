"""A backfill beside gateways that serve the same events, on one small pool of PgBouncer."""

from __future__ import annotations

import asyncio
import json
import random
import time
from pathlib import Path

import pytest

from gateway.operating.wording import stamp
from tests.rig import sender
from tests.rig.gateway import run
from tests.rig.pooler import Pooler
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHO = ("--by", "alice", "--reason", "adopting the gateway")
MANY = 30_000
LANES = 16


def listed(path: Path, events: list[str]) -> str:
    at = stamp(time.time() - 3600)
    path.write_text("id,time\n" + "".join(f"{event},{at}\n" for event in events))
    return str(path)


async def test_deliveries_and_a_backfill_behind_a_pooler_never_both_take_an_event(
    world: World, tmp_path: Path
) -> None:
    pooler = Pooler(tmp_path, size=2)
    pooler.leads_to(world.database.dsn)
    await pooler.start()
    try:
        file = world.file(dsn=pooler.dsn("?statement_cache_size=0"))
        pair = await asyncio.gather(world.gateway(file), world.gateway(file))
        stem = fresh("processed")
        events = [f"{stem}_{number}" for number in range(MANY)]
        source = listed(tmp_path / "processed.csv", events)
        words = ("backfill", "--route", "orders", source, *WHO, "--json")
        going = asyncio.ensure_future(asyncio.to_thread(run, *words, "--config", str(pair[0].file)))
        left = random.sample(events, MANY)
        replies = []
        while not going.done():
            sent, left = left[-LANES:], left[:-LANES]
            replies += await sender.volley(
                [gateway.address for gateway in pair], [sender.event(event) for event in sent]
            )
        ended = await going
        delivered = events[:: MANY // 200]
        later = await sender.volley([pair[0].address], [sender.event(one) for one in delivered])
        scrapes = [await gateway.scrape() for gateway in pair]
    finally:
        pooler.stop()
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert {reply.status for reply in replies} == {200}
    firsts = [reply for reply in replies if reply.verdict == "first"]
    assert 0 < len(firsts) < len(replies)
    assert said["marked"] + sum(said["there"].values()) == MANY
    assert said["marked"] + len(firsts) == MANY
    assert sum(len(world.consumer.requests(event)) for event in events) == len(firsts)
    assert {(reply.status, reply.verdict) for reply in later} == {(200, "duplicate")}
    assert not sum(scrape.total("dedup_payload_mismatches_total") for scrape in scrapes)
