"""Headers: what crosses the gateway, what ends at it, and the few lines that it adds.

End-to-end lines cross in order, spelling and number. Hop-by-hop lines (RFC 9110, 7.6.1) end here,
and so does each line that `Connection` names; because gateway and consumer must see the same
message, they are taken away *before* an id or a signature is read. A sender that nominates a line
on which our decision rests is refused.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import quote

from gateway.core.event import Delivery, EventKey, RawHeaders

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
# Expect ends here too: the gateway answers `100 Continue` itself and sends the body at once.
_REQUEST_ONLY_HERE = HOP_BY_HOP | {b"expect"}
_FORWARDING = frozenset(
    {
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"forwarded",
        b"x-real-ip",
    }
)
_OURS_IN_REPLY = frozenset({b"dedup-verdict", b"dedup-first-seen"})
_NEVER_NOMINATED = frozenset({b"host", b"content-length"}) | _FORWARDING

Networks = tuple[IPv4Network | IPv6Network, ...]


class BadNomination(Exception):
    """`Connection` names a header that decides about the delivery."""


class Marks(NamedTuple):
    """What a forward says about itself."""

    event_id: str
    attempt: int
    possible_duplicate: bool
    idempotency_key: str | None = None


def end_to_end(headers: RawHeaders, decisive: Container[bytes]) -> RawHeaders:
    """An inbound request's lines without those that end here.

    `decisive`: lower-case names on which the route's decision rests (its id's header, say).
    Raises BadNomination when `Connection` names one of them.
    """
    lines = [line for line in headers if not ends_here(line[0])]
    if len(lines) == len(headers):
        return headers  # no line ends here, so there is no Connection either
    nominated = nominations(headers)
    for name in nominated:
        if name in decisive or name in _NEVER_NOMINATED or name.startswith(b"dedup-"):
            raise BadNomination(name.decode("latin-1"))
    if nominated:
        lines = [line for line in lines if line[0].lower() not in nominated]
    return tuple(lines)


def nominations(headers: RawHeaders) -> frozenset[bytes]:
    """The lower-case names that the Connection lines list."""
    return frozenset(
        token.strip().lower()
        for name, value in headers
        if len(name) == len(b"connection") and name.lower() == b"connection"
        for token in value.split(b",")
        if token.strip()
    )


def outbound(
    delivery: Delivery,
    *,
    host: bytes | None,
    upstream_host: bytes,
    trusted: Networks,
    marks: Marks | None,
    forwarding: bool,
) -> RawHeaders:
    """The complete header lines of a forward, framing included.

    `delivery.headers` are end-to-end lines already. `host`: None keeps the provider's Host (the
    upstream's address stands in when there is none). `forwarding`: are X-Forwarded-* written?
    """
    # Without forwarding lines of our own, a sender's are none of our business.
    known = is_trusted(delivery.peer, trusted) if forwarding else True
    length = b"%d" % len(delivery.body)
    lines, said = _own_lines(delivery.headers, host, length, trusted=known)
    if b"host" not in said:
        lines.insert(0, (b"Host", host or upstream_host))
    if delivery.body and b"content-length" not in said:
        lines.append((b"Content-Length", length))
    if forwarding:
        lines = _with_forwarding(lines, delivery, said)
    if marks is not None:
        lines += _mark_lines(marks)
        if marks.idempotency_key and b"idempotency-key" not in said:
            lines.append((b"Idempotency-Key", marks.idempotency_key.encode()))
    return tuple(lines)


def _own_lines(
    headers: RawHeaders, host: bytes | None, length: bytes, *, trusted: bool
) -> tuple[list[tuple[bytes, bytes]], dict[bytes, bytes]]:
    """The sender's lines as they go on, and what it said in those that decide something."""
    lines: list[tuple[bytes, bytes]] = []
    said: dict[bytes, bytes] = {}
    for line in headers:
        low = _decisive_name(line[0])
        if low is not None:
            if not trusted and low in _FORWARDING:
                continue
            said.setdefault(low, line[1])
            if low == b"content-length":
                line = (line[0], length)  # a length of 007 is the same, and not to every parser
            elif low == b"host" and host is not None:
                line = (line[0], host)
        lines.append(line)
    return lines, said


def is_trusted(peer: str, networks: Networks) -> bool:
    """Whether a peer is one whose X-Forwarded-* are believed and extended."""
    if not networks:
        return False
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in networks)


def reply_lines(headers: RawHeaders, *, body: bytes, bodiless: bool, complete: bool) -> RawHeaders:
    """The consumer's header lines as the provider gets them, framed anew.

    `bodiless`: a reply to HEAD, a 204 or a 304, whose Content-Length (if any) describes what is
    not sent.
    """
    lines = [line for line in headers if not _ends_in_reply(line[0])]
    if len(lines) != len(headers) and (nominated := nominations(headers)):
        lines = [line for line in lines if line[0].lower() not in nominated]
    if not complete:  # an empty body is not a valid gzip stream
        lines = [line for line in lines if line[0].lower() != b"content-encoding"]
    return tuple(lines if bodiless else _with_one_length(lines, b"%d" % len(body)))


@lru_cache(maxsize=512)  # as for `ends_here`
def _ends_in_reply(name: bytes) -> bool:
    low = name.lower()
    return low in HOP_BY_HOP or low in _OURS_IN_REPLY


def _with_one_length(lines: list[tuple[bytes, bytes]], length: bytes) -> list[tuple[bytes, bytes]]:
    framed: list[tuple[bytes, bytes]] = []
    had = False
    for line in lines:
        if len(line[0]) != len(b"content-length") or line[0].lower() != b"content-length":
            framed.append(line)
        elif not had:
            had = True
            framed.append((line[0], length))
    if not had:
        framed.append((b"Content-Length", length))
    return framed


# Many servers take 8 KiB of header lines in all, so one of ours must stay far below that.
LONGEST_ID_LINE = 1024
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]+")  # what percent-encoding leaves as it is
_PLAIN_KEY = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,64}")


def idempotency_key(key: EventKey, parts: int) -> str:
    """The id if it is one short part of visible ASCII without quote and backslash, else the key."""
    return key.event_id if parts == 1 and _PLAIN_KEY.fullmatch(key.event_id) else key.digest.hex()


# Senders use the same few names again and again; bounded, because strangers choose them.
@lru_cache(maxsize=512)
def ends_here(name: bytes) -> bool:
    """Whether a request line of that name never gets past `end_to_end`."""
    low = name.lower()
    return low in _REQUEST_ONLY_HERE or _ours(low)


def _ours(low: bytes) -> bool:
    return _dashed(low).startswith(b"dedup-")


def _dashed(low: bytes) -> bytes:
    # CGI consumers read X_Forwarded_For and X-Forwarded-For as one name, so here they are one.
    return low.replace(b"_", b"-")


def _mark_lines(marks: Marks) -> list[tuple[bytes, bytes]]:
    added = [
        (b"Dedup-Event-Id", _id_line(marks.event_id)),
        (b"Dedup-Attempt", b"%d" % marks.attempt),
    ]
    if marks.possible_duplicate:
        added.append((b"Dedup-Possible-Duplicate", b"1"))
    return added


def _id_line(event_id: str) -> bytes:
    """Percent-encoded; an id too long for a header as `sha256:` and a digest, never cut.

    A percent-encoded id has no colon, so the two cannot be mistaken for each other.
    """
    if len(event_id) <= LONGEST_ID_LINE and _UNRESERVED.fullmatch(event_id):
        return event_id.encode()
    raw = event_id.encode("utf-8", "surrogatepass")
    line = quote(raw, safe="").encode()
    return line if len(line) <= LONGEST_ID_LINE else b"sha256:" + sha256(raw).hexdigest().encode()


def _with_forwarding(
    lines: list[tuple[bytes, bytes]], delivery: Delivery, said: Mapping[bytes, bytes]
) -> list[tuple[bytes, bytes]]:
    """A trusted hop's X-Forwarded-For is extended, the rest it said is kept, gaps are filled."""
    peer = delivery.peer.encode()
    if b"x-forwarded-for" in said:
        chain = [value for name, value in lines if name.lower() == b"x-forwarded-for"]
        lines = [line for line in lines if line[0].lower() != b"x-forwarded-for"]
        peer = b", ".join([*chain, peer])
    lines.append((b"X-Forwarded-For", peer))
    if b"x-forwarded-proto" not in said:
        lines.append((b"X-Forwarded-Proto", delivery.scheme.encode()))
    if b"host" in said and said[b"host"] and b"x-forwarded-host" not in said:
        lines.append((b"X-Forwarded-Host", said[b"host"]))
    return lines


_DECISIVE = _FORWARDING | {b"host", b"content-length", b"idempotency-key"}


@lru_cache(maxsize=512)  # as for `ends_here`
def _decisive_name(name: bytes) -> bytes | None:
    """The lower-case name of a line on which `outbound` has an opinion; dashes for underscores."""
    low = name.lower()
    dashed = _dashed(low)
    return dashed if low in _DECISIVE or dashed in _FORWARDING else None
