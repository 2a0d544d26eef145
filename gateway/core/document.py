"""A JSON body, read for single members.

A member that occurs twice has no value on which gateway and consumer would agree; whole numbers
are exact at any size and read as their decimal text; a fraction is told apart from text.

Most bodies need none of that care, and it costs more than the rest of keying together. So the
quick way comes first: the plain parser, and an answer only where it cannot differ from the careful
one. For the members on the pointer's way that is when each name is spelled at most once in the
body; names of letters, digits, `_` and `-` have one spelling unless there is a `\\u` escape.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Bytes that a body may take once it is parsed. One of 20 MiB with 2,000 commits takes 94 MiB, one
# of nothing but `{"":0},` 576 MiB and `[],` four seconds: that is an attack on the parser.
MOST_PARSED = 160 * 2**20
# Shorter ones cannot take that much, so nobody has to count.
ALWAYS_READ = 4 * 2**20


Parse = Callable[[bytes], object]
"""A plain JSON parser for UTF-8.

Raises ValueError or RecursionError for what it cannot read or could only read in part. It may
say what it likes about members that occur twice, fractions, and whole numbers it makes floats of.
"""


def parse_plainly(body: bytes) -> object:
    """The standard library's."""
    return json.loads(body.decode())


def text_of(body: bytes) -> str:
    """A JSON body as text, in whichever of its encodings it is: as `json.loads` takes it.

    Half of a pair of surrogates stays one. Raises ValueError.
    """
    return body.decode(json.detect_encoding(body), "surrogatepass")


def bytes_of(text: str) -> bytes:
    """A text, or a part of it, in plain UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def is_plain(body: bytes) -> bool:
    """Whether a JSON body is in UTF-8 without a mark of its byte order."""
    return json.detect_encoding(body) == "utf-8"


class Document:
    """One body, parsed at most once in each way and only when asked for.

    A body that would grow out of all proportion says nothing.
    """

    __slots__ = ("_body", "_careful", "_parse", "_plain")

    def __init__(self, body: bytes, parse: Parse = parse_plainly) -> None:
        self._body = b"" if is_out_of_proportion(body) else body
        self._parse = parse
        self._plain: object = _UNREAD
        self._careful: object = _UNREAD

    def text(self, pointer: tuple[str, ...], *, fractions: bool) -> str | None:
        """The text or whole number at a JSON pointer (RFC 6901); None without, or if it is blank.

        `fractions`: whether numbers that are not whole count too, as they were written.
        """
        value = self._quickly(pointer)
        if value is _CANNOT_SAY:
            if self._careful is _UNREAD:
                self._careful = _read_carefully(self._body)
            value = _walk(self._careful, pointer)
        if not isinstance(value, str) or not value.strip():
            return None
        return value if fractions or not isinstance(value, _Fraction) else None

    def _quickly(self, pointer: tuple[str, ...]) -> object:
        root = self._plain
        if root is _UNREAD:
            root = self._plain = self._read_plainly()
        spellings = _spellings(pointer)
        if root is _CANNOT_SAY or spellings is None:
            return _CANNOT_SAY
        for spelling in spellings:
            if self._body.count(spelling) > 1:
                return _CANNOT_SAY
        value = _walk(root, pointer)
        if type(value) is int:
            return str(value)
        return _CANNOT_SAY if type(value) is float else value

    def _read_plainly(self) -> object:
        if b"\\u" in self._body:
            return _CANNOT_SAY
        try:
            return self._parse(self._body)
        except (
            ValueError,
            RecursionError,
        ):  # another encoding, an integer of 4,301 digits, no JSON
            return _CANNOT_SAY


def is_out_of_proportion(body: bytes) -> bool:
    """Whether a body would take too much memory once it is parsed."""
    return len(body) > ALWAYS_READ and _would_take(body) > MOST_PARSED


def _would_take(body: bytes) -> int:
    """A rough measure of the bytes that a body takes once it is parsed."""
    return 184 * body.count(b"{") + 72 * body.count(b"[") + 40 * body.count(b",")


class _Fraction(str):
    """A JSON number that is not whole, or NaN and its kin; text as it was written."""


# Not functools.cached_property: before Python 3.12 it takes a lock for each first reading.
_UNREAD = object()
_CANNOT_SAY = object()


def _read_carefully(body: bytes) -> object:
    try:
        return json.loads(
            body,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_Fraction,
            parse_constant=_Fraction,
        )
    except (ValueError, RecursionError):  # UnicodeDecodeError, JSONDecodeError: ValueErrors
        return None


@lru_cache(maxsize=1024)  # pointers come from the configuration
def _spellings(pointer: tuple[str, ...]) -> tuple[bytes, ...] | None:
    if not all(map(_PLAIN_NAME.fullmatch, pointer)):
        return None
    return tuple(f'"{step}"'.encode() for step in pointer)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        members |= {name: None for name, count in counts.items() if count > 1}
    return members


def _integer(text: str) -> str:
    # As text: exact at any size, and not subject to Python's limit on int digits. -0 is 0.
    return "0" if text == "-0" else text


def _walk(value: object, pointer: tuple[str, ...]) -> object:
    for step in pointer:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
