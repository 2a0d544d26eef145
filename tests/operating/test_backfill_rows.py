"""Rows of files, of standard input and of queries."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from gateway.operating.formats import Row
from gateway.operating.rows import SourceAway, opened, source
from gateway.sources import Unusable

Write = Callable[[str, bytes], str]


async def read(
    file: str | None, query: str | None = None, dsn: str | None = None, format_: str | None = None
) -> list[Row]:
    async with opened(source(file, query, dsn, format_)) as rows:
        return [row async for row in rows]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return written


def cells(number: int, values: dict[str, object]) -> Row:
    """Of a CSV, whose white space may not be meant."""
    return Row(number, values, exact=False)


async def test_a_csv_has_its_columns_from_its_first_line(write: Write) -> None:
    file = write("a.csv", b'\xef\xbb\xbfid,json:/order\r\n7,x\r\n\r\n8,"a,\nb"\r\n9,y')
    assert await read(file) == [
        cells(2, {"id": "7", "json:/order": "x"}),
        cells(4, {"id": "8", "json:/order": "a,\nb"}),
        cells(6, {"id": "9", "json:/order": "y"}),
    ]


async def test_spreadsheets_of_other_countries_are_read_too(write: Write) -> None:
    assert await read(write("a.csv", b"id;time\n7;1\n")) == [cells(2, {"id": "7", "time": "1"})]
    assert await read(write("a.tsv", b"id\ttime\n7\t1\n")) == [cells(2, {"id": "7", "time": "1"})]


async def test_a_row_with_too_few_or_too_many_fields_is_told_and_the_next_is_read(
    write: Write,
) -> None:
    short, long, good = await read(write("a.csv", b"id,time\n7\n8,1,2\n9,3\n"))
    assert short == Row(2, {}, "has 1 fields, and the header 2")
    assert long.wrong == "has 3 fields, and the header 2"
    assert good == cells(4, {"id": "9", "time": "3"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1 has no column names"),
        (b"id,id\n1,2\n", "two columns 'id'"),
        (b'id\n7\n"8\n9\n', "line 3 is no CSV"),
        (b"id\n7\nM\xfcller\n", "line 3 is not UTF-8"),
    ],
)
async def test_a_csv_that_cannot_be_trusted_ends_the_reading(
    write: Write, content: bytes, said: str
) -> None:
    with pytest.raises(Unusable, match=said):
        await read(write("a.csv", content))


async def test_json_has_an_object_a_line(write: Write) -> None:
    lines = b'{"id":7,"n":1.5}\n\n{"id":"8","x":{"a":1}}\r\n{"id":1,"id":2}\n'
    assert await read(write("a.ndjson", lines)) == [
        Row(1, {"id": "7", "n": 1.5}),
        Row(3, {"id": "8", "x": {"a": "1"}}),
        Row(4, {"id": None}),
    ]


async def test_whole_numbers_of_any_size_are_exact(write: Write) -> None:
    number = "9" * 5000
    (row,) = await read(write("a.jsonl", b'{"id":%s}' % number.encode()))
    assert row.values == {"id": number}


async def test_a_line_that_is_no_object_is_told_and_the_next_is_read(write: Write) -> None:
    cut, number, good = await read(write("a.jsonl", b'{"id":"7\n8\n{"id":"\xc3\xbc"}\n'))
    assert cut == Row(1, {}, "is no JSON object")
    assert number == Row(2, {}, "is no JSON object")
    assert good.values == {"id": "ü"}


async def test_a_list_of_objects_is_to_be_one_object_a_line(write: Write) -> None:
    with pytest.raises(Unusable, match="one object a line"):
        await read(write("a.json", b'[{"id":1}]'))


async def test_the_first_byte_tells_the_format_where_the_name_does_not(write: Write) -> None:
    assert await read(write("a.txt", b'\n{"id":"7"}')) == [Row(2, {"id": "7"})]
    assert await read(write("b.txt", b"id\n7\n")) == [cells(2, {"id": "7"})]
    assert await read(write("c.csv", b'{"id":"7"}\n'), format_="ndjson") == [Row(1, {"id": "7"})]


async def test_standard_input_is_read_as_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b'{"id":"7"}\n', b"id\n7\n"):
        piped = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
        monkeypatch.setattr(sys, "stdin", piped)
        (row,) = await read("-")
        assert row.values == {"id": "7"}


async def test_a_query_streams_through_a_cursor_and_may_only_read(database: str) -> None:
    query = (
        "select n as id, to_timestamp(n) as time, n::numeric as amount"
        " from generate_series(1, 5000) as n order by n"
    )
    rows = await read(None, query, database)
    assert len(rows) == 5000
    assert rows[6].number == 7
    assert rows[6].values["id"] == 7
    assert rows[6].values["time"] == datetime.fromtimestamp(7, UTC)
    with pytest.raises(Unusable, match="read-only transaction"):
        await read(None, "delete from dedup.claims returning key", database)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nothing", "does not exist"),
        ("select 1; select 2", "multiple commands"),
        ("select 1 as id, 2 as id", "two columns 'id'"),
        ("select 1 / (n - 3) as id from generate_series(1, 9) as n", "division by zero"),
    ],
)
async def test_a_query_that_fails_says_why(database: str, query: str, said: str) -> None:
    with pytest.raises(Unusable, match=said):
        await read(None, query, database)


async def test_a_database_that_is_not_there_or_goes_away_is_no_mistake_of_the_query(
    database: str,
) -> None:
    with pytest.raises(SourceAway):
        await read(None, "select 1", "postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(SourceAway):
        await _read_and_be_cut_off(database)


async def _read_and_be_cut_off(database: str) -> None:
    other = await asyncpg.connect(database)
    query = "select n as id, pg_backend_pid() as pid from generate_series(1, 100000) as n"
    try:
        async with opened(source(None, query, database)) as rows:
            async for row in rows:
                if row.number == 1:
                    await other.execute("select pg_terminate_backend($1)", row.values["pid"])
    finally:
        await other.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((None,), "write one source"),
        (("a.csv", "select 1", "postgresql://h/d"), "write one source"),
        ((None, "select 1"), "go together"),
        (("a.csv", None, "postgresql://h/d"), "go together"),
        ((None, "select 1", "mysql://h/d"), "--dsn: is not a Postgres URL"),
        (("a.csv", None, None, "xml"), "write csv or ndjson"),
        ((None, "select 1", "postgresql://h/d", "csv"), "--format is for files"),
    ],
)
def test_what_does_not_go_together_is_told(words: tuple[str | None, ...], said: str) -> None:
    with pytest.raises(Unusable, match=said):
        source(*words)


async def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(Unusable, match=r"nowhere\.csv: no such file"):
        await read("nowhere.csv")


def test_files_are_told_apart_by_what_is_in_them(write: Write) -> None:
    one, two = write("a.csv", b"id\n7\n"), write("b.csv", b"id\n7\n")
    assert source(one).digest() == source(two).digest() is not None
    assert source(write("a.csv", b"id\n8\n")).digest() != source(two).digest()
    assert source("-").digest() is None
    assert source(None, "select 1", "postgresql://h/d").digest() is None
