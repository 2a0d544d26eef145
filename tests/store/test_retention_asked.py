"""`check --store`: what the store has on record of the memory, against the file."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from gateway import asking
from gateway.config import check, load, report
from gateway.flow.remembering import Kept
from gateway.retaining import kept
from tests.rig import settings
from tests.store.remembered import Process, claim, shift, start
from tests.store.stores import Stores, fresh_offer

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, database: str) -> Write:
    """Writes a file with routes for that store."""

    def written(*routes: settings.Settings) -> Path:
        file = tmp_path / "gateway.yaml"
        file.write_text(yaml.safe_dump(settings.file(database, *routes), sort_keys=False))
        return file

    return written


def orders(**more: Any) -> settings.Settings:
    """A floor of 33 days."""
    return settings.route("orders", 3000, **more)


def of(file: Path) -> list[Kept]:
    return list(kept(load(file, env={}, flags={})))


async def asked(file: Path, dsn: str) -> tuple[bool, str]:
    """Whether something is wrong, and what is printed."""
    loaded = load(file, env={}, flags={})
    findings = check(loaded, await asking.ask(dsn, loaded))
    return findings.unsafe, report.as_text(findings)


async def run(file: Path, *options: str) -> tuple[int | None, str]:
    """The exit code and the output of the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "check", "--config", str(file), "--store", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def served(stores: Stores, file: Path) -> Process:
    """A process that runs with this file."""
    return await start(stores, *of(file))


def judgement(said: str) -> tuple[str, str]:
    """What is wrong, and the notices."""
    said = " ".join(said.split())
    wrong = said.partition(" wrong: ")[2].partition(" notices: ")[0]
    return wrong, said.partition(" notices: ")[2]


async def test_a_memory_that_is_well_says_nothing_before_the_first_start_or_after_it(
    write: Write, stores: Stores, sql: asyncpg.Connection
) -> None:
    file = write(orders())
    for _ in range(2):
        unsafe, said = await asked(file, stores.dsn)
        judged = "".join(judgement(said))
        assert "retention" not in judged
        assert "remember" not in judged
        assert unsafe == ("something is wrong" in said)
        await served(stores, file)
        await claim(sql)
        await shift(sql, 0.5)


async def test_a_new_memory_is_wrong_until_its_user_says_why(
    write: Write, stores: Stores, sql: asyncpg.Connection
) -> None:
    await served(stores, write(orders()))
    await claim(sql)
    unsafe, said = await asked(write(orders(event_id="json:/id")), stores.dsn)
    assert unsafe
    assert (
        "routes.0.event_id: its keys are made in another way than those that are remembered,"
        " so that late duplicates are forwarded as new; put event_id and scope back, or write"
        " accept_new_memory: REASON" in judgement(said)[0]
    )
    renamed = settings.route("shop", 3000, path="/hooks/orders")
    unsafe, said = await asked(write(renamed), stores.dsn)
    assert unsafe
    assert "remembered under the keys of 'orders'" in judgement(said)[0]
    assert max(map(len, said.splitlines())) <= 80
    _, said = await asked(write({**renamed, "accept_new_memory": "nobody redrives"}), stores.dsn)
    assert "remembered" not in judgement(said)[0]
    _, said = await asked(write({**renamed, "scope": "orders"}), stores.dsn)
    assert "remembered" not in judgement(said)[0]
    assert await sql.fetchval("select count(*) from dedup.routes") == 1  # asking writes nothing


async def test_the_latest_shortening_of_a_retention_is_shown_with_all_that_is_on_record(
    write: Write, stores: Stores
) -> None:
    process = await served(stores, write(orders(retention="50d")))
    file = write(orders(retention="40d12h"))
    await process.use(*of(file))
    _, said = await asked(file, stores.dsn)
    wrong, notices = judgement(said)
    assert "retention" not in wrong
    assert "routes.0.retention: was shortened from 50d to 40d12h on 20" in notices
    assert (
        "Z by host:1, derived from a floor of retry horizon 3d + redrive window 30d"
        " + own replay 0s, from https://provider.example/docs, looked at 2026-08-25" in notices
    )
    assert max(map(len, said.splitlines())) <= 80


async def test_a_memory_that_does_not_reach_as_far_as_it_has_to_is_wrong(
    write: Write, stores: Stores, sql: asyncpg.Connection
) -> None:
    file = write(orders())
    process = await served(stores, file)
    await shift(sql, 50)
    await process.memory()
    _, said = await asked(file, stores.dsn)
    assert "memory reaches" not in said
    await sql.execute("delete from dedup.claims")
    await shift(sql, 2)
    await process.memory()
    code, said = await run(file)
    assert code == 1
    assert (
        "routes.0.retention: the memory reaches back 1h, and has to reach 2d4h: claims were deleted"
        in judgement(said)[0]
    )
    code, said = await run(file, "--json")
    found = json.loads(said)
    assert (code, found["ok"]) == (1, False)
    assert found["answers"]["memory"]["memories"]["orders"]["reach"] == pytest.approx(3600, abs=60)
    assert any("the memory reaches" in one["message"] for one in found["wrong"])


async def test_a_store_of_an_earlier_release_is_told_apart_from_one_that_remembers_all(
    write: Write, stores: Stores, sql: asyncpg.Connection
) -> None:
    await sql.execute("drop table dedup.canaries, dedup.jobs")
    _, said = await asked(write(orders()), stores.dsn)
    assert "without a record of what it remembers: `migrate` brings that" in said


def test_without_a_question_to_the_store_nothing_is_said_of_its_memory(write: Write) -> None:
    findings = check(load(write(orders()), env={}, flags={}))
    assert "remembers" not in report.as_text(findings)


async def test_a_file_that_lacks_a_route_that_still_owes_is_wrong_as_the_gateway_refuses_it(
    stores: Stores, write: Write, database: str
) -> None:
    process = await served(stores, write(orders()))
    await process.store.accept(fresh_offer())
    _, said = await asked(write(orders()), database)
    assert "undelivered" not in said
    unsafe, said = await asked(write(settings.route("bills", 3000)), database)
    assert unsafe
    wrong, _ = judgement(said)
    assert "events are undelivered on routes that are not configured: orders (1)" in wrong
