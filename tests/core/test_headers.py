"""What crosses the gateway, what ends at it, and what it adds."""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_network
from urllib.parse import unquote

import pytest

from gateway.core.event import Delivery, EventKey, RawHeaders
from gateway.core.headers import (
    LONGEST_ID_LINE,
    BadNomination,
    Marks,
    Networks,
    end_to_end,
    ends_here,
    idempotency_key,
    is_trusted,
    outbound,
    reply_lines,
)

NOBODY: Networks = ()
FRONT: Networks = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def delivery(*headers: tuple[bytes, bytes], body: bytes = b"", peer: str = "10.0.0.9") -> Delivery:
    return Delivery("POST", "/h", headers, body, peer, "http")


def sent(
    given: Delivery,
    *,
    host: bytes | None = None,
    trusted: Networks = NOBODY,
    marks: Marks | None = None,
    forwarding: bool = True,
) -> RawHeaders:
    return outbound(
        given,
        host=host,
        upstream_host=b"consumer:3000",
        trusted=trusted,
        marks=marks,
        forwarding=forwarding,
    )


def values(lines: RawHeaders, name: bytes) -> list[bytes]:
    return [value for line, value in lines if line.lower() == name]


def test_lines_cross_in_order_spelling_and_number() -> None:
    lines = (
        (b"Host", b"hooks.example.com:8443"),
        (b"X-Sig", b"old"),
        (b"x-LoWeR-case", b"V"),
        (b"X-Sig", b"new"),
        (b"X-Empty", b""),
        (b"X-Long", b"a" * 7000),
    )
    assert end_to_end(lines, frozenset()) == lines
    assert sent(delivery(*lines), forwarding=False) == lines


@pytest.mark.parametrize(
    "name",
    [
        b"Connection", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authorization", b"TE",
        b"Trailer", b"Transfer-Encoding", b"Upgrade", b"HTTP2-Settings", b"Expect",
        b"Dedup-Event-Id", b"dedup-anything", b"DEDUP_ATTEMPT",
    ],
)  # fmt: skip
def test_what_is_between_two_hops_ends_here(name: bytes) -> None:
    assert end_to_end(((name, b"x"), (b"X-Stays", b"1")), frozenset()) == ((b"X-Stays", b"1"),)
    assert ends_here(name)


def test_a_line_that_connection_names_ends_here_too() -> None:
    lines = ((b"Connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"X-Stays", b"1"))
    assert end_to_end(lines, frozenset()) == ((b"X-Stays", b"1"),)


@pytest.mark.parametrize(
    "named",
    [b"X-GitHub-Delivery", b"Host", b"content-length", b"X-Forwarded-For", b"Dedup-Event-Id"],
)
def test_a_sender_cannot_take_away_a_line_that_decides(named: bytes) -> None:
    lines = ((b"Connection", b"keep-alive, " + named), (named, b"1"))
    with pytest.raises(BadNomination, match=named.decode().lower()):
        end_to_end(lines, frozenset({b"x-github-delivery"}))


def test_the_host_is_preserved_or_replaced_or_filled_in() -> None:
    given = delivery((b"A", b"1"), (b"hOst", b"shop:8443"))
    assert sent(given, forwarding=False) == ((b"A", b"1"), (b"hOst", b"shop:8443"))
    assert sent(given, host=b"inner", forwarding=False) == ((b"A", b"1"), (b"hOst", b"inner"))
    assert sent(delivery(), forwarding=False) == ((b"Host", b"consumer:3000"),)
    assert sent(delivery(), host=b"inner", forwarding=False) == ((b"Host", b"inner"),)


def test_a_body_without_a_length_gets_one_and_an_empty_one_gets_none() -> None:
    assert values(sent(delivery(body=b"abc")), b"content-length") == [b"3"]
    assert values(sent(delivery((b"Content-Length", b"3"), body=b"abc")), b"content-length") == [
        b"3"
    ]
    assert values(sent(delivery()), b"content-length") == []


def test_a_length_is_written_in_one_way() -> None:
    padded = delivery((b"Content-Length", b"0005"), body=b"hello")
    assert values(sent(padded), b"content-length") == [b"5"]


def test_a_stranger_is_not_believed_about_where_it_comes_from() -> None:
    forged = delivery(
        (b"Host", b"shop:8443"),
        (b"X-Forwarded-For", b"1.2.3.4"),
        (b"X_Forwarded_For", b"1.2.3.4"),
        (b"X-Forwarded-Proto", b"https"),
        (b"X-Forwarded-Host", b"evil"),
        (b"X-Forwarded-Port", b"1"),
        (b"Forwarded", b"for=1.2.3.4"),
        (b"X-Real-IP", b"1.2.3.4"),
        peer="192.0.2.7",
    )
    assert sent(forged, trusted=FRONT) == (
        (b"Host", b"shop:8443"),
        (b"X-Forwarded-For", b"192.0.2.7"),
        (b"X-Forwarded-Proto", b"http"),
        (b"X-Forwarded-Host", b"shop:8443"),
    )


def test_a_trusted_hop_is_extended_and_not_contradicted() -> None:
    lines = sent(
        delivery(
            (b"Host", b"shop"),
            (b"X-Forwarded-For", b"1.2.3.4"),
            (b"x-forwarded-for", b"5.6.7.8"),
            (b"X-Forwarded-Proto", b"https"),
            (b"X-Real-IP", b"1.2.3.4"),
        ),
        trusted=FRONT,
    )
    assert values(lines, b"x-forwarded-for") == [b"1.2.3.4, 5.6.7.8, 10.0.0.9"]
    assert values(lines, b"x-forwarded-proto") == [b"https"]
    assert values(lines, b"x-forwarded-host") == [b"shop"]
    assert values(lines, b"x-real-ip") == [b"1.2.3.4"]


def test_a_replaced_host_is_still_told_as_the_forwarded_one() -> None:
    lines = sent(delivery((b"Host", b"shop")), host=b"inner")
    assert values(lines, b"host") == [b"inner"]
    assert values(lines, b"x-forwarded-host") == [b"shop"]


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1%eth0", True),
        ("2001:db9::1", False),
        ("", False),
        ("unix:", False),
    ],
)
def test_trust_goes_by_the_address_of_the_peer(peer: str, trusted: bool) -> None:
    assert is_trusted(peer, FRONT) is trusted
    assert not is_trusted(peer, NOBODY)


def test_a_forward_says_which_event_and_which_attempt_it_is() -> None:
    first = sent(delivery(), marks=Marks("evt 1/ü", 1, possible_duplicate=False), forwarding=False)
    assert first[1:] == ((b"Dedup-Event-Id", b"evt%201%2F%C3%BC"), (b"Dedup-Attempt", b"1"))
    again = sent(delivery(), marks=Marks("e", 2, possible_duplicate=True), forwarding=False)
    assert again[2:] == ((b"Dedup-Attempt", b"2"), (b"Dedup-Possible-Duplicate", b"1"))


def test_an_id_cannot_break_out_of_its_header() -> None:
    marks = Marks("a\r\nX: 1\x00\ud800", 1, possible_duplicate=False)
    (value,) = values(sent(delivery(), marks=marks), b"dedup-event-id")
    assert value == b"a%0D%0AX%3A%201%00%ED%A0%80"


def test_an_id_too_long_for_a_header_is_told_by_its_digest_and_never_cut() -> None:
    fits = "x" * LONGEST_ID_LINE
    (value,) = values(
        sent(delivery(), marks=Marks(fits, 1, possible_duplicate=False)), b"dedup-event-id"
    )
    assert unquote(value.decode()) == fits
    marks = Marks(fits + "y", 1, possible_duplicate=False)
    (value,) = values(sent(delivery(), marks=marks), b"dedup-event-id")
    assert value == b"sha256:" + sha256(f"{fits}y".encode()).hexdigest().encode()


def test_an_idempotency_key_is_added_unless_the_sender_has_one() -> None:
    marks = Marks("e", 1, possible_duplicate=False, idempotency_key="k")
    assert values(sent(delivery(), marks=marks), b"idempotency-key") == [b"k"]
    given = delivery((b"idempotency-KEY", b"theirs"))
    assert values(sent(given, marks=marks), b"idempotency-key") == [b"theirs"]


@pytest.mark.parametrize(
    ("event_id", "parts", "plain"),
    [
        ("evt_1", 1, True),
        ("a" * 64, 1, True),
        ("a" * 65, 1, False),
        ("a b", 1, False),
        ('a"b', 1, False),
        ("a\\b", 1, False),
        ("ü", 1, False),
        ("a,b", 2, False),
    ],
)
def test_an_idempotency_key_is_the_id_where_every_consumer_can_read_it(
    event_id: str, parts: int, plain: bool
) -> None:
    key = EventKey(b"\x01" * 16, event_id)
    assert idempotency_key(key, parts) == (event_id if plain else "01" * 16)


def test_a_reply_crosses_in_order_and_ends_where_the_hop_does() -> None:
    lines = (
        (b"Set-Cookie", b"a=1"),
        (b"Connection", b"close, X-Hop"),
        (b"set-cookie", b"b=2"),
        (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Dedup-Verdict", b"first"),
        (b"Content-Encoding", b"gzip"),
    )
    assert reply_lines(lines, body=b"abc", bodiless=False, complete=True) == (
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"3"),
    )


def test_a_reply_has_one_length_and_it_is_the_bodys() -> None:
    lines = ((b"content-length", b"9"), (b"A", b"1"), (b"Content-Length", b"9"))
    assert reply_lines(lines, body=b"abc", bodiless=False, complete=True) == (
        (b"content-length", b"3"),
        (b"A", b"1"),
    )


def test_a_reply_without_a_body_keeps_the_length_it_speaks_of() -> None:
    lines = ((b"Content-Length", b"512"),)
    assert reply_lines(lines, body=b"", bodiless=True, complete=True) == lines
    assert reply_lines((), body=b"", bodiless=True, complete=True) == ()


def test_a_body_that_broke_off_is_not_called_packed() -> None:
    lines = ((b"Content-Encoding", b"gzip"), (b"Content-Length", b"512"))
    assert reply_lines(lines, body=b"", bodiless=False, complete=False) == (
        (b"Content-Length", b"0"),
    )
