"""Request files: a request that somebody saved, head and body or the body alone."""

from __future__ import annotations

import re

from gateway.core.event import Delivery, RawHeaders

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (/[!-~]*) HTTP/1\.[01]\r?\n")


def read_request(raw: bytes) -> tuple[Delivery, tuple[str, ...]]:
    """The request in a file, and what to say about how it was read."""
    line = _REQUEST_LINE.match(raw)
    if line is None:
        note = "taken as a body: POST, no headers, no query"
        return Delivery("POST", "/", (), raw, "127.0.0.1", "http"), (note,)
    head, *rest = re.split(rb"\r?\n\r?\n", raw[line.end() - 1 :], maxsplit=1)
    lines, body = _lines(head), rest[0] if rest else b""
    delivery = Delivery(line[1].decode(), line[2].decode(), lines, body, "127.0.0.1", "http")
    if (delivery.header(b"transfer-encoding") or b"").strip().lower() == b"chunked":
        note = "chunked: the body is read as it stands; save it without the chunk sizes"
        return delivery, (note,)
    length = delivery.header(b"content-length")
    if length is not None and length.isdigit() and int(length) != len(body):
        note = f"Content-Length says {int(length)} bytes, the file has {len(body)} after the head"
        return delivery._replace(body=body[: int(length)]), (note,)
    return delivery, ()


def _lines(head: bytes) -> RawHeaders:
    found = []
    for line in re.split(rb"\r?\n", head):
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name, value.strip(b" \t")))
    return tuple(found)
