"""Requests as bytes, replies from bytes: without a socket."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.outcome import Reply
from gateway.upstream.cause import Cause
from gateway.upstream.wire import (
    HEAD_LIMIT,
    IDLE_SECONDS,
    LONGEST_IDLE_SECONDS,
    BadReply,
    ReplyReader,
    request_head,
)

Result = tuple[Reply | Cause | None, float]


def read(data: bytes, cuts: list[int], *, bodiless: bool = False, max_body: int = 50) -> Result:
    """What comes of the bytes when they are read in pieces and the consumer then closes."""
    reader = ReplyReader(bodiless=bodiless, max_body=max_body)
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    try:
        for start, end in itertools.pairwise(edges):
            if start < end and reader.feed(data[start:end]):
                return reader.reply(), reader.idle_seconds
    except BadReply as error:
        return error.cause, 0.0
    return reader.end(clean=True), 0.0


FRAMED = [
    b"",
    b"Content-Length: 5\r\n",
    b"Content-Length: 60\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n",
]
LINES = [
    b"X: y\r\n",
    b"X:\r\n",
    b"X: \x01\r\n",
    b"X: a\r\n b\r\n",
    b"X y: z\r\n",
    b"Keep-Alive: timeout=3\r\n",
    b"Connection: close\r\n",
    b"X: \xff \r\n",
    b"X: y\n",
]
BODIES = [
    b"",
    b"hello",
    b"hel",
    b"x" * 60,
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nT: t\r\n\r\n",
    b"5\r\nhel",
    b"zz\r\n",
    b"1\r\nx\r\n" * 51 + b"0\r\n\r\n",
]
STARTS = [b"HTTP/1.1 %d Why\r\n" % n for n in (200, 204, 304, 404, 503, 99, 600, 101)] + [
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 200\r\n",
    b"HTTP/1.1 200 a\x00b\r\n",
    b"nonsense\r\n",
]
INTERIMS = [b"", b"HTTP/1.1 100 Go on\r\n\r\n", b"HTTP/1.1 103 Hint\r\nLink: l\r\n\r\n", b"\r\n"]
REPLIES = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from(INTERIMS),
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(LINES), max_size=3).map(b"".join),
    st.sampled_from(FRAMED),
    st.just(b"\r\n"),
    st.sampled_from(BODIES),
)


@given(REPLIES, st.lists(st.integers(0, 2**31), max_size=6), st.booleans())
@example(b"HTTP/1.1 204 No\r\n\r\nbody", [len(b"HTTP/1.1 204 No\r\n\r\n")], False)
def test_a_reply_does_not_depend_on_how_its_bytes_were_cut(
    data: bytes, cuts: list[int], bodiless: bool
) -> None:
    whole, _ = read(data, [], bodiless=bodiless)
    assert read(data, cuts, bodiless=bodiless)[0] == whole
    assert read(data, list(range(len(data))), bodiless=bodiless)[0] == whole


@given(REPLIES, st.binary(max_size=30), st.integers(0, 2**31))
def test_whatever_comes_no_line_holds_what_must_not_be_written(
    data: bytes, noise: bytes, place: int
) -> None:
    place %= len(data)
    got, _ = read(data[:place] + noise + data[place:], [])
    if isinstance(got, Reply):
        text = got.reason + b"".join(itertools.chain.from_iterable(got.headers))
        assert not any((byte < 32 and byte != 9) or byte == 127 for byte in text)
        assert all(name and b" " not in name and b":" not in name for name, _ in got.headers)
        assert 200 <= got.status <= 599


@pytest.mark.parametrize("step", [1, 7, 4096, 2**20])
@pytest.mark.parametrize("over", [0, 1])
def test_the_limit_of_a_head_is_exact_however_it_comes(step: int, over: int) -> None:
    start, end = b"HTTP/1.1 200 OK\r\nX: ", b"\r\nContent-Length: 2\r\n\r\n"
    data = start + b"x" * (HEAD_LIMIT + over - len(start) - len(end)) + end + b"ok"
    got, _ = read(data, list(range(0, len(data), step)))
    if over:
        assert got is Cause.HEAD_TOO_LARGE
    else:
        assert isinstance(got, Reply)
        assert got.body == b"ok"


def test_a_body_of_exactly_the_most_that_we_take_is_complete() -> None:
    for size in (50, 51):
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
        got, _ = read(data, [])
        assert isinstance(got, Reply)
        assert (got.complete, len(got.body)) == ((True, 50) if size == 50 else (False, 0))


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"X: y", IDLE_SECONDS),
        (b"Keep-Alive: timeout=5", 4.0),
        (b"Keep-Alive: max=100, Timeout = 3", 2.0),
        (b"Keep-Alive: max=100", IDLE_SECONDS),
        (b"Keep-Alive: timeout=0", 0.0),
        (b"Keep-Alive: timeout=86400", LONGEST_IDLE_SECONDS),
        (b"Connection: close", 0.0),
    ],
)
def test_a_connection_is_let_go_before_the_consumer_lets_go(line: bytes, seconds: float) -> None:
    data = b"HTTP/1.1 200 OK\r\n" + line + b"\r\nContent-Length: 0\r\n\r\n"
    assert read(data, [])[1] == seconds


def test_bytes_behind_a_reply_end_its_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert read(data, [])[1] == IDLE_SECONDS
    assert read(data + b"x", [])[1] == 0.0


HOST = (b"Host", b"a")


def test_a_request_is_written_as_it_came() -> None:
    headers = (HOST, (b"X-b", b" two  "), (b"x-B", b"\xff"), (b"X-Empty", b""))
    head = request_head("PATCH", "/a/../b?%7e&?", headers, b"")
    assert head == (
        b"PATCH /a/../b?%7e&? HTTP/1.1\r\nHost: a\r\nX-b:  two  \r\nx-B: \xff\r\nX-Empty: \r\n\r\n"
    )


@pytest.mark.parametrize(
    ("target", "headers", "body"),
    [
        ("/ HTTP/1.1\r\nX: y\r\n\r\n", (HOST,), b""),
        ("/a b", (HOST,), b""),
        ("/é", (HOST,), b""),
        ("/", (HOST, (b"X", b"a\r\nY: b")), b""),
        ("/", (HOST, (b"X", b"a\nb")), b""),
        ("/", (HOST, (b"X", b"a\rb")), b""),
        ("/", (HOST, (b"X\r\nY", b"b")), b""),
        ("/", (HOST, (b"Transfer-Encoding", b"chunked")), b""),
        ("/", (HOST, (b"Content-Length", b"1")), b"ok"),
        ("/", (HOST, (b"content-length", b"+2")), b"ok"),
        ("/", (HOST, (b"content-length", b"2")), b""),
        ("/", (HOST,), b"ok"),
    ],
)
def test_a_request_that_could_be_read_as_another_one_is_not_written(
    target: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes
) -> None:
    with pytest.raises(ValueError, match=r".+"):
        request_head("POST", target, headers, body)
