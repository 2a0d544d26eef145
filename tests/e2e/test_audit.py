"""An audit of what a real gateway let through, against what its consumer did."""

from __future__ import annotations

import asyncio
import csv
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.operating.wording import stamp
from tests.operating.lines import told
from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway, run
from tests.rig.pooler import Pooler
from tests.rig.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY = 86_400.0
FOUND = {"leak": 1, "loss": 1, "marked": 0, "double": 2}
PLAIN = [f"plain_{number}" for number in range(20)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    """What it did lies a day back."""
    started = await world.gateway()
    await everything(world)
    yield started


async def everything(world: World) -> None:
    world.consumer.script("in_doubt", Says(hangs_up="unanswered", acts="before"), Says())
    world.consumer.script("lost", Says(acts="never"))
    world.consumer.script("refused", Says(status=500))
    for event in [*PLAIN, *PLAIN, "twice", "lost", "refused", "forged"]:
        await world.deliver(event)
    assert [(await world.deliver("in_doubt")).status for _ in range(2)] == [502, 200]
    past_it = [sender.event(event) for event in ("leaked", "twice")]
    around = ("127.0.0.1", world.consumer.port)
    assert {reply.status for reply in await sender.volley([around], past_it)} == {200}
    await world.database.execute("update dedup.claims set first_seen = first_seen - 86400")
    long_ago = "now() - interval '40 days'"
    await world.database.execute(f"update dedup.routes set born = {long_ago}, since = {long_ago}")


def listed(world: World, *events: str) -> str:
    """A file with a row for each."""
    path = world.directory / "list.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "time"))
        rows.writerows((event, stamp(time.time() - DAY)) for event in events)
    return str(path)


async def audit(file: Path, *words: str) -> dict[str, list[tuple[str, bool]]]:
    """By kind: events, and whether their claim is doubtful."""
    window = ("--since", "3d", "--until", "1h")
    line = ("audit", "--route", "orders", "--config", str(file), *words, *window)
    said: dict[str, Any] = await told(*line, code=1)
    found: dict[str, list[tuple[str, bool]]] = {}
    for one in said["findings"]:
        found.setdefault(one["kind"], []).append((one["event_id"], one["doubtful"]))
    return {kind: sorted(events) for kind, events in found.items()}


def effects(world: World) -> str:
    acted = world.consumer.acted
    return listed(world, *(event for event, done in acted.items() for _ in done))


async def test_what_went_past_the_gateway_was_lost_or_done_twice_is_found_and_nothing_else(
    world: World, gateway: Gateway
) -> None:
    assert await audit(gateway.file, "--effects", effects(world)) == {
        "leak": [("leaked", None)],
        "loss": [("lost", False)],
        "double": [("in_doubt", True), ("twice", False)],
    }


async def test_what_never_arrived_and_what_the_provider_never_sent_is_found(
    world: World, gateway: Gateway
) -> None:
    sent = listed(world, *PLAIN, "in_doubt", "in_doubt", "twice", "lost", "refused", "undelivered")
    assert await audit(gateway.file, "--provider-log", sent) == {
        "missing": [("undelivered", None)],
        "unknown": [("forged", False)],
    }


async def test_an_audit_passes_through_a_pooler_in_transaction_mode(
    world: World, gateway: Gateway, tmp_path: Path
) -> None:
    pooler = Pooler(tmp_path, size=2)
    pooler.leads_to(world.database.dsn)
    await pooler.start()
    try:
        file = tmp_path / "behind.yaml"
        text = json.dumps(world.file(dsn=pooler.dsn("?statement_cache_size=0")))
        await asyncio.to_thread(file.write_text, text)
        words = ("audit", "--route", "orders", "--config", str(file), "--since", "3d", "--json")
        line = (*words, "--until", "1h", "--effects", effects(world))
        ended = await asyncio.gather(*(asyncio.to_thread(run, *line) for _ in range(4)))
    finally:
        pooler.stop()
    assert [one.returncode for one in ended] == [1] * 4, ended
    assert all(json.loads(one.stdout)["found"] == FOUND for one in ended)
