"""Claims by operation key: found by the id of the event that took it last, or by its value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.config import load, try_sample
from gateway.core.keying import digest
from tests.operating.lines import WHO, refused, run, told
from tests.operating.rows import Rows

TICKETS = 9
OPERATION = ("--operation", "4711", "--operation", "created", "--route", "tickets")
REQUEST = (
    b"POST /hooks/tickets HTTP/1.1\r\nHost: a\r\nX-Topic: created\r\n\r\n"
    b'{"id": "evt_7", "order": {"id": 4711}}'
)


async def claim(rows: Rows, order: str, event_id: str | None, state: str = "d") -> bytes:
    key = digest(["tickets"], ["ticket", order, "created"])
    await rows.sql.execute(
        "insert into dedup.routes (id, name, recipe) values ($1, 'tickets', '')"
        " on conflict do nothing",
        TICKETS,
    )
    await rows.sql.execute(
        "insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)"
        " values ($1, extract(epoch from now()), $2, $3, 'a', $4)",
        UUID(key), TICKETS, state.encode(), event_id,
    )  # fmt: skip
    return key


async def test_a_claim_is_found_by_the_id_of_the_event_that_took_it_and_by_its_operation(
    file: Path, rows: Rows
) -> None:
    key = await claim(rows, "4711", "evt_1")
    await claim(rows, "4712", "evt_2")
    await rows.claim("evt_1")
    for words in (("evt_1", "--route", "tickets"), OPERATION, ("--key", key.hex())):
        story = await told("claims", "show", *words)
        assert (story["key"], story["event_id"]) == (key.hex(), "evt_1")
        assert story["operation_key"] == ["literal:ticket", "json:/order/id", "header:X-Topic"]
    said = " ".join((await run("claims", "show", *OPERATION)).stdout.split())
    assert "by operation key: literal:ticket, json:/order/id, header:X-Topic" in said
    assert "the one that took the operation last" in said


async def test_the_parts_of_an_operation_make_the_key_that_its_deliveries_have(
    file: Path, rows: Rows
) -> None:
    key = await claim(rows, "4711", None)
    loaded = load(file, env={}, variables_required=False)
    assert try_sample(loaded, "tickets", REQUEST).key == key.hex()
    for words in (OPERATION, ("--operation", "ticket", *OPERATION)):
        assert (await told("claims", "show", *words))["key"] == key.hex()


async def test_an_event_by_its_id_is_no_operation(file: Path, rows: Rows) -> None:
    await rows.claim("evt_1")
    story = await told("claims", "show", "evt_1", "--route", "orders")
    assert story["operation_key"] is None
    shown = await run("claims", "show", "evt_1", "--route", "orders")
    assert "by operation" not in shown.stdout


async def test_an_id_that_no_claim_keeps_and_one_that_several_keep_say_what_to_write(
    file: Path, rows: Rows
) -> None:
    keys = [await claim(rows, order, "evt_1") for order in ("4711", "4712")]
    said = await refused("claims", "show", "evt_1", "--route", "tickets")
    assert all(f"--key {key.hex()}" in said for key in keys)
    said = await refused("claims", "show", "evt_9", "--route", "tickets")
    assert said.startswith("nothing is known of evt_9: no claim of route tickets keeps this id")
    assert "--operation VALUE" in said


async def test_where_there_are_no_operations_none_is_asked_for(file: Path, rows: Rows) -> None:
    said = await refused("claims", "show", "a\x1b7", "--route", "accounts")
    assert said.startswith("nothing is known of a\\x1b7: no claim of route accounts keeps this id")
    assert "--operation" not in said
    assert "--body FILE" in said


async def test_an_operation_is_released_by_the_id_of_its_event(file: Path, rows: Rows) -> None:
    key = await claim(rows, "4711", "evt_1")
    done = await told("claims", "release", "evt_1", "--route", "tickets", *WHO, "--yes")
    assert (done["done"], done["event"]["key"]) == (1, key.hex())
    assert done["event"]["operation_key"]


async def test_an_id_is_looked_for_as_it_is_kept(file: Path, rows: Rows) -> None:
    key = await claim(rows, "4711", "é" * 255)
    story = await told("claims", "show", "é" * 300, "--route", "tickets")
    assert story["key"] == key.hex()


WRONG = [
    (("--operation", "a", "--route", "orders"), "route orders has no operation_key"),
    (("--operation", "a"), "write --route NAME with it"),
    (("--operation", "a", "--route", "tickets"), "has 2 parts, in this order: json:/order/id"),
    (("evt_1", *OPERATION), "name one event"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=lambda one: str(one)[:30])
async def test_a_line_that_means_no_operation_says_what_to_write(
    words: tuple[str, ...], said: str, file: Path
) -> None:
    assert said in await refused("claims", "show", *words, code=2)


async def test_an_item_of_a_batch_is_keyed_as_its_route_keys_it(file: Path, rows: Rows) -> None:
    loaded = load(file, env={}, variables_required=False)
    (item,) = try_sample(loaded, "mails", json.dumps([{"id": "m1"}]).encode()).items
    ended = await run("claims", "show", "m1", "--route", "mails", "--json")
    assert json.loads(ended.stdout)["key"] == item.key == digest(["mails"], ["m1"]).hex()


async def test_a_body_means_the_one_event_in_it_and_of_several_none(file: Path, rows: Rows) -> None:
    lines = ("claims", "show", "--route", "mails", "--body")
    for items, code in (([{"id": "m1"}, {"id": "m1"}, {}], 1), ([{"id": "m1"}, {"id": "m2"}], 2)):
        sample = file.with_name("sample.json")
        sample.write_text(json.dumps(items))
        ended = await run(*lines, str(sample))
        assert ended.exit_code == code
        said = digest(["mails"], ["m1"]).hex() if code == 1 else "a batch of 2 events; name one"
        assert said in ended.stderr
