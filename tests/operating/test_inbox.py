"""`inbox list`, `show`, `redrive`, `drop` and `complete` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.operating import Refusal
from gateway.operating import bulk
from gateway.operating.bulk import Tally
from tests.operating.lines import WHO, at_a_terminal, refused, run, told
from tests.operating.rows import BILLING, Rows, key_of

EVENT = ("evt_1", "--route", "orders")
ALL_DEAD = ("--state", "dead")


async def backlog(rows: Rows) -> None:
    """Three dead entries of two routes, one held, one with a worker, one delivered."""
    await rows.entry("old", age=7200, why="503")
    await rows.entry("young", why="timeout after 30 s")
    await rows.entry("other", route=BILLING)
    await rows.entry("held", state="h", doubtful=True, claim="S")
    await rows.entry("busy", state="l", due=20.0)
    await rows.entry("done", state="d", claim="d")


async def test_a_list_has_what_is_not_delivered_yet_and_the_longest_waiting_first(
    file: Path, rows: Rows
) -> None:
    assert (await run("inbox", "list")).stdout == "no entries\n"
    await backlog(rows)
    listed = await told("inbox", "list")
    assert listed["matching"] == 5
    ids = [entry["event_id"] for entry in listed["entries"]]
    assert (ids[0], sorted(ids)) == ("old", ["busy", "held", "old", "other", "young"])
    assert listed["entries"][0]["key"] == key_of("old").hex()
    text = (await run("inbox", "list", "--limit", "2")).stdout
    assert "2 of 5; --limit shows more" in text
    assert max(map(len, text.splitlines())) <= 80


async def test_a_list_is_narrowed_by_route_state_age_and_the_latest_end(
    file: Path, rows: Rows
) -> None:
    await backlog(rows)

    async def ids(*words: str) -> list[str]:
        return sorted(one["event_id"] for one in (await told("inbox", "list", *words))["entries"])

    assert await ids(*ALL_DEAD) == ["old", "other", "young"]
    assert await ids("--route", "billing") == ["other"]
    assert await ids(*ALL_DEAD, "--state", "delivered", "--route", "orders") == [
        "done", "old", "young",
    ]  # fmt: skip
    assert await ids("--older-than", "1h") == ["old"]
    assert await ids("--older-than", "9000d") == []
    assert await ids("--why", "timeout") == ["young"]


WRONG = [
    (["list", "--state", "dea"], "'dea' is no state of an entry; there is pending, leased"),
    (["list", "--older-than", "soon"], "--older-than: 'soon' is not a duration"),
    (["list", "--route", "nope"], "no route 'nope' ever claimed an event here; there is billing"),
    (["list", "--limit", "0"], "--limit"),
    (["drop", *WHO], "name one event by its ID, or many by --state dead, held or pending"),
    (["drop", "--route", "orders", *WHO], "or many by --state"),
    (["drop", "--state", "leased", *WHO], "--state: leased entries are left alone"),
    (["drop", "--state", "delivered", *WHO], "--state: delivered entries are left alone"),
    (["drop", *EVENT, *ALL_DEAD, *WHO], "takes no --state, --older-than or --why"),
    (["drop", *ALL_DEAD, *WHO], "Nobody is here to answer: write --yes"),
]


async def test_a_line_that_cannot_be_meant_is_exit_code_2_and_says_what_to_write(
    file: Path, rows: Rows
) -> None:
    await backlog(rows)
    for words, said in WRONG:
        assert said in await refused("inbox", *words, code=2), words
    assert await rows.recorded() == []


async def test_secrets_of_headers_and_query_are_hidden_unless_they_are_asked_for(
    file: Path, rows: Rows
) -> None:
    secret = b"Authorization:Bearer s3cret\r\nX-Shop-Hmac-Sha256: s3cret\r\nX-Topic: a:b\r\n"
    await rows.entry(headers=secret, target="/hooks/orders?token=s3cret", body=b'{"s3cret": 1}')
    hidden = await run("inbox", "show", *EVENT)
    assert "s3cret" not in hidden.stdout
    assert "X-Topic: a:b\n" in hidden.stdout
    assert "s3cret" not in json.dumps(await told("inbox", "show", *EVENT))
    full = (await run("inbox", "show", *EVENT, "--full")).stdout
    assert full.count("s3cret") == 3


async def test_a_payload_is_written_byte_for_byte(file: Path, rows: Rows) -> None:
    body = bytes(range(256)) * 3
    await rows.entry(body=body)
    assert (await run("inbox", "show", *EVENT, "--payload")).stdout_bytes == body


async def test_a_stranger_cannot_command_the_terminal_by_an_id_or_a_header(
    file: Path, rows: Rows
) -> None:
    await rows.entry(
        "e\x1b[31m[bold]\u202e", why="\x07", headers=b"X:\x1b]0;t\x07\r\n", target="/\x1b[2J"
    )
    key = ("--key", key_of("e\x1b[31m[bold]\u202e").hex())
    for words in (["list"], ["list", "--json"], ["show", *key], ["show", *key, "--json"]):
        said = (await run("inbox", *words)).stdout
        assert not set(said) & set("\x1b\x07\u202e"), words
        assert "[bold]" in said


async def test_an_event_without_an_entry_is_exit_code_1(file: Path, rows: Rows) -> None:
    await rows.claim()
    for verb in (["show"], ["drop", *WHO], ["drop", "--dry-run"]):
        assert "the inbox has no entry of this event" in await refused("inbox", *verb, *EVENT)


@pytest.mark.parametrize(
    ("verb", "entry", "claim"),
    [("redrive", "p", "s"), ("drop", "o", "d"), ("complete", "d", "d")],
)
async def test_one_event_is_acted_on_without_a_question_and_told_of(
    file: Path, rows: Rows, verb: str, entry: str, claim: str
) -> None:
    await rows.entry()
    dry = await run("inbox", verb, *EVENT, "--dry-run")
    assert (dry.exit_code, "entry       dead" in dry.stdout) == (0, True)
    assert dry.stdout.endswith("\n\n1 entry; nothing was done\n")
    dry_too = await told("inbox", verb, *EVENT, "--dry-run")
    assert (dry_too["action"], dry_too["done"], dry_too["refused"]) == (verb, 0, None)
    assert await rows.recorded() == []
    done = await told("inbox", verb, *EVENT, *WHO)
    assert (done["action"], done["done"], done["refused"]) == (verb, 1, None)
    assert done["event"]["actions"][0]["action"] == verb
    states = await rows.sql.fetchrow(
        "select e.state, c.state from dedup.entries e join dedup.claims c using (key)"
    )
    assert tuple(states) == (entry.encode(), claim.encode())


async def test_what_is_refused_of_one_event_says_why(file: Path, rows: Rows) -> None:
    await rows.entry(state="l", due=20.0)
    said = await refused("inbox", "drop", *EVENT, *WHO)
    assert said.startswith("nothing was done: a worker is sending it right now")
    assert "at the latest" in said
    answer = json.loads((await run("inbox", "drop", *EVENT, *WHO, "--json")).stdout)
    assert (answer["done"], answer["refused"]) == (0, "leased")
    dry = await run("inbox", "drop", *EVENT, "--dry-run")
    assert "1 entry; nothing was done, nor would be: a worker is sending it" in dry.stdout
    assert (await told("inbox", "drop", *EVENT, "--dry-run"))["refused"] == "leased"


async def test_many_are_counted_first_and_only_counted_in_a_dry_run(file: Path, rows: Rows) -> None:
    await backlog(rows)
    counted = await told("inbox", "drop", *ALL_DEAD, "--dry-run")
    assert counted == {
        "action": "drop",
        "matching": 3,
        "groups": [
            {"route": "orders", "state": "dead", "entries": 2},
            {"route": "billing", "state": "dead", "entries": 1},
        ],
    }
    dry = await run("inbox", "drop", *ALL_DEAD, "--dry-run")
    assert "3 entries; nothing was done" in dry.stdout
    assert await rows.recorded() == []


async def test_many_are_acted_on_and_only_those_that_were_meant(file: Path, rows: Rows) -> None:
    await backlog(rows)
    meant = (*ALL_DEAD, "--state", "held", "--route", "orders")
    ended = await run("inbox", "redrive", *meant, *WHO, "--yes")
    assert (ended.exit_code, ended.stdout) == (0, "redriven    3\n")
    found = await rows.sql.fetch("select event_id, state, doubtful from dedup.entries")
    assert {row[0].decode(): (row[1], row[2]) for row in found} == {
        "old": (b"p", False), "young": (b"p", False), "held": (b"p", True),
        "other": (b"x", False), "busy": (b"l", False), "done": (b"d", False),
    }  # fmt: skip
    again = await told("inbox", "redrive", *meant, *WHO, "--yes")
    assert again == {"action": "redrive", "done": 0, "refused": {}, "matching": 0}


async def test_of_many_those_that_are_refused_are_counted_by_why(file: Path, rows: Rows) -> None:
    await rows.entry("fine")
    await rows.entry("beside", claim="d")
    ended = await run("inbox", "redrive", *ALL_DEAD, *WHO, "--yes")
    assert ended.exit_code == 1
    assert ended.stdout.splitlines()[:2] == ["redriven    1", "refused     1"]
    assert "completed 1: its claim is completed" in ended.stdout


async def test_work_that_is_interrupted_says_how_far_it_got(
    file: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backlog(rows)

    async def broken_off(*_: Any) -> None:
        tally: Tally = _[-1]
        tally.done = 1
        tally.refused[Refusal.LEASED] += 1
        raise KeyboardInterrupt

    monkeypatch.setattr(bulk, "act_on_all", broken_off)
    ended = await run("inbox", "drop", *ALL_DEAD, *WHO, "--yes")
    assert ended.exit_code == 130
    assert "dropped     1\nrefused     1\n" in ended.stdout


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 3)])
async def test_at_a_terminal_a_question_is_asked_and_the_answer_is_followed(
    file: Path, rows: Rows, answer: bytes, code: int, left: int
) -> None:
    await backlog(rows)
    ended = await at_a_terminal("inbox", "drop", *ALL_DEAD, *WHO, answer=answer)
    assert ended == (code, True)
    dead = await rows.sql.fetchval("select count(*) from dedup.entries where state = 'x'")
    assert dead == left
