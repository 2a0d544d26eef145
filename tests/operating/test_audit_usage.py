"""What `audit` wants, and what it says where it cannot do its work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.core.auditing import Against, Asked
from gateway.core.claim import StoreAway
from gateway.store import copying
from gateway.store.audit import Listing, Question, compare
from gateway.store.operator import desk
from tests.operating.audited import DAY, Audited
from tests.operating.lines import refused, run
from tests.operating.rows import FILE, Rows
from tests.operating.test_desk import ROLES

PASSING = """\
  - name: passing
    path: /hooks/passing
    upstream: {url: "http://127.0.0.1:3000"}
    pass_through: nothing here is an event
"""


@pytest.fixture
async def audited(file: Path, rows: Rows) -> Audited:
    made = Audited(file, rows.sql)
    await made.begin()
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "write one list: --effects FILE, or --query SQL --dsn DSN, or --provider-log FILE"),
        (("--effects", "a.csv", "--provider-log", "b.csv"), "write one list"),
        (("--effects", "a.csv", "--query", "select 1", "--dsn", "x"), "write one list"),
        (("--query", "select 1"), "go together"),
        (("--effects", "a.csv", "--dsn", "postgresql://h/d"), "go together"),
        (("--effects", "absent.csv"), "absent.csv: no such file"),
        (("--effects", "a.csv", "--format", "xml"), "write csv or ndjson"),
        (("--effects", "a.csv", "--json", "--csv"), "write one of them"),
        (("--effects", "a.csv", "--since", "yesterday"), "is no time"),
        (("--effects", "a.csv", "--since", "9999999d"), "--since: '9999999d' is no time"),
        (("--effects", "a.csv", "--until", "9" * 29), "is no time"),
    ],
)
async def test_a_command_line_that_means_nothing_is_told_what_to_write(
    audited: Audited, words: tuple[str, ...], said: str
) -> None:
    audited.csv(("evt_1", DAY), name="a.csv")
    assert said in await refused("audit", "--route", "orders", *words, code=2)


async def test_a_column_that_is_missing_ends_the_audit_at_the_first_row(audited: Audited) -> None:
    effects = audited.ndjson([{"order": "1"}, {"order": "2"}])
    told = await refused("audit", "--route", "orders", "--effects", effects, code=2)
    assert told.startswith("line 1: ")
    assert "write a column 'json:/event_id' or 'id'" in told


@pytest.mark.parametrize("option", ["--effects", "--provider-log"])
async def test_a_list_without_rows_is_no_audit(audited: Audited, option: str) -> None:
    await audited.claim("evt_1")
    told = await refused("audit", "--route", "orders", option, audited.csv(), code=2)
    assert told == "the list has no rows, so there is nothing to compare\n"


async def test_rows_of_which_none_can_be_used_are_no_audit(audited: Audited) -> None:
    effects = audited.csv(("", DAY), (" ", DAY))
    told = await refused("audit", "--route", "orders", "--effects", effects, code=2)
    assert told.startswith("no row can be used; line 2: ")


async def test_an_unknown_route_and_one_that_never_claimed_are_told_apart(
    audited: Audited,
) -> None:
    effects = audited.csv(("evt_1", DAY))
    told = await refused("audit", "--route", "order", "--effects", effects, code=2)
    assert "no route is called 'order'; there is orders, " in told
    await audited.sql.execute("delete from dedup.routes where name = 'orders'")
    told = await refused("audit", "--route", "orders", "--effects", effects, code=2)
    assert "route orders never claimed an event here" in told


async def test_a_route_without_ids_has_nothing_to_audit(audited: Audited) -> None:
    audited.configure(FILE + PASSING)
    effects = audited.csv(("evt_1", DAY))
    told = await refused("audit", "--route", "passing", "--effects", effects, code=2)
    assert "route passing passes everything on" in told


async def test_a_store_that_is_away_and_a_consumer_s_database_are_told_apart(
    audited: Audited, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("--query", "select '1' as id", "--dsn", "postgresql://nobody@127.0.0.1:1/shop")
    told = await refused("audit", "--route", "orders", *query, code=3)
    assert told.startswith("the database of --dsn cannot be asked: ")
    wrong = ("--query", "select nothing from nowhere", "--dsn", database)
    assert "nowhere" in await refused("audit", "--route", "orders", *wrong, code=2)
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/dedup")
    effects = audited.csv(("evt_1", DAY))
    told = await refused("audit", "--route", "orders", "--effects", effects, code=3)
    assert told.startswith("the store postgresql://nobody@127.0.0.1:1/dedup cannot be asked: ")


async def test_a_store_that_goes_away_meanwhile_is_told_by_what_happened(
    audited: Audited, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "COPIED", 200_000)
    monkeypatch.setattr(copying, "COPY_TIMEOUT", 2.0)

    async def kill() -> None:
        session = await asyncpg.connect(database)
        await session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query like 'COPY%'"
        )
        await session.close()

    def rows() -> Iterator[Listing]:
        for number in range(200_000):
            if number == 150_000:
                other = threading.Thread(target=lambda: asyncio.run(kill()))
                other.start()
                other.join()
            yield Listing(number.to_bytes(16), f"evt_{number}", audited.now, number)

    question = Question(
        "orders", b"", Against.EFFECTS, Asked(None, None, False), partial=False,
        began=audited.now, retention=DAY, lease=37.0, sample=None, seed=1,
    )  # fmt: skip
    async with desk(database) as at:
        with pytest.raises(
            StoreAway, match=r"terminating connection|closed in the middle|no answer"
        ):
            await compare(at, question, rows(), lambda _: None)


async def test_standard_input_is_read(audited: Audited) -> None:
    await audited.claim("evt_1")
    rows = f"id,time\nevt_1,{audited.at(DAY)}\n".encode()
    ended = await run("audit", "--route", "orders", "--effects", "-", stdin=rows)
    assert ended.exit_code == 0, ended.output
    assert "route       orders, against the effects in standard input\n" in ended.stdout


async def test_the_role_that_a_gateway_runs_as_may_audit(
    audited: Audited, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = urlsplit(database).path.removeprefix("/")
    await audited.sql.execute(f"revoke temporary on database {name} from public")
    await audited.sql.execute(ROLES.read_text())
    await audited.claim("evt_1")
    parts = urlsplit(database)
    host = parts.netloc.rpartition("@")[2]
    role = parts._replace(netloc=f"dedup_gateway@{host}").geturl()
    monkeypatch.setenv("DATABASE_URL", role)
    effects = audited.csv(("evt_0", 2 * DAY), ("evt_1", DAY))
    said = await audited.audit("--effects", effects)
    assert said["by_kind"] == {"leak": ["evt_0"]}
