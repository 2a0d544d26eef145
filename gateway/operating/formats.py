"""Formats of files with rows: CSV under a line of column names, or JSON with one object a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gateway.failures import sentence
from gateway.sources import Unusable

_BOM = b"\xef\xbb\xbf"
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}


class Format(StrEnum):
    """How a file has its rows."""

    CSV = "csv"
    NDJSON = "ndjson"


class Row(NamedTuple):
    """One record."""

    number: int
    """The line that it begins on; of a query, its place in the result. The first is 1."""
    values: Mapping[str, object]
    """By column. Text, or what JSON and Postgres have besides; whole numbers of JSON are text."""
    wrong: str | None = None
    """Why it cannot be read; it has no values then."""
    exact: bool = True
    """Whether all white space in it is meant. A CSV may have it for its looks, or for quotes that
    nobody closed; a column of type char(20) is filled up with it."""


class Lines:
    """Lines of UTF-8, counted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ahead: list[bytes] = []
        self.number = 0
        self.bytes = 0

    def begin(self) -> bytes:
        """The first line that is not blank; it is read all the same."""
        for line in self._file:
            self._ahead.append(line)
            if begin := line.removeprefix(_BOM).strip():
                return begin
        return b""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in chain(self._ahead, self._file):
                self.number += 1
                self.bytes += len(line)
                yield line if self.number > 1 else line.removeprefix(_BOM)
        except OSError as error:
            raise Unusable(sentence(error)) from None

    def texts(self) -> Iterator[str]:
        """Raises Unusable."""
        for line in self:
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise Unusable(f"line {self.number} is not UTF-8; convert the file") from None


def format_of(name: str, lines: Lines) -> Format:
    """By the name, else by the first byte. Raises OSError."""
    if known := _SUFFIXES.get(Path(name).suffix.lower()):
        return Format(known)
    return Format.NDJSON if lines.begin()[:1] in (b"{", b"[") else Format.CSV


def _csv(lines: Lines) -> Iterator[Row]:
    texts = lines.texts()
    header = next(texts, "")
    names = _header(header)
    reader = csv.reader(texts, delimiter=_delimiter(header), strict=True)
    number = lines.number + 1
    try:
        for fields in reader:
            if len(fields) == len(names):
                yield Row(number, dict(zip(names, fields, strict=True)), exact=False)
            elif fields:
                wrong = f"has {len(fields)} fields, and the header {len(names)}"
                yield Row(number, {}, wrong)
            number = lines.number + 1
    except csv.Error as error:
        raise Unusable(f"line {number} is no CSV: {error}") from None


def _header(line: str) -> Sequence[str]:
    if not line.strip():
        raise Unusable("line 1 has no column names; a CSV begins with them")
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=_delimiter(line)))]
    except csv.Error as error:
        raise Unusable(f"line 1 is no CSV: {error}") from None
    return distinct(names)


def _delimiter(header: str) -> str:
    """Spreadsheets write semicolons or tabs in some countries."""
    return next((one for one in ",\t;" if one in header), ",")


def distinct(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if names.count(name) > 1:
            raise Unusable(f"there are two columns {name!r}; give each a name of its own")
    return names


def _ndjson(lines: Lines) -> Iterator[Row]:
    read = json.JSONDecoder(
        object_pairs_hook=_members, parse_int=_integer, parse_float=float
    ).decode
    for line in lines:
        if not (line := line.strip()):
            continue
        try:
            found = read(line.decode())
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield Row(lines.number, found)
            continue
        if line.startswith(b"[") and lines.number == 1:
            raise Unusable("line 1 begins a list; write one object a line, as jq -c '.[]' does")
        yield Row(lines.number, {}, "is no JSON object")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A name that occurs twice has no value that everybody would agree on."""
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        members |= {name: None for name in members if names.count(name) > 1}
    return members


def _integer(text: str) -> str:
    return "0" if text == "-0" else text


READERS = {Format.CSV: _csv, Format.NDJSON: _ndjson}
