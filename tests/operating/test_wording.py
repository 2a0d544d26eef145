"""How times, secrets and refusals read."""

from __future__ import annotations

import pytest

from gateway.core.operating import Refusal
from gateway.operating.refused import sentence
from gateway.operating.wording import is_secret, span, stamp, visible, when
from gateway.providers import schemes


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0s"), (59.6, "1m"), (61, "1m 1s"), (3600, "1h"), (86_399, "23h 59m"),
     (273_600, "3d 4h"), (86_460, "1d"), (-3, "0s")],
)  # fmt: skip
def test_a_span_is_told_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_a_time_is_told_with_its_distance() -> None:
    assert when(1_800_000_000, 1_800_000_060) == "2027-01-15T08:00:00Z, 1m ago"
    assert when(1_800_000_060, 1_800_000_000) == "2027-01-15T08:01:00Z, in 1m"


def test_what_no_calendar_has_is_told_as_its_first_or_last_second() -> None:
    assert stamp(-1e26) == stamp(-62_135_600_400) == "0001-01-01T00:00:00Z"
    assert stamp(1e26) == "9999-12-31T23:59:59Z"


def test_what_is_not_printable_is_escaped_and_the_rest_is_left() -> None:
    assert visible("évt\n\x1b\udc80\u202e") == "évt\\n\\x1b\\udc80\\u202e"


@pytest.mark.parametrize("name", [b"Cookie", b"AUTHORIZATION", b"X-Api-Key", b"Stripe-Signature"])
def test_a_header_that_opens_doors_is_a_secret(name: bytes) -> None:
    assert is_secret(name)
    assert not is_secret(b"Content-Type")


def test_what_a_scheme_reads_as_proof_is_a_secret_and_what_it_says_besides_is_not() -> None:
    for name in schemes.names():
        known = schemes.scheme(name)
        for header in known.carriers:
            assert is_secret(header.title())
            assert is_secret(header.replace(b"-", b"_"))
        assert known.carriers <= known.headers
    assert is_secret(b"Plaid-Verification")
    assert is_secret(b"PAYPAL-TRANSMISSION-SIG")
    assert not is_secret(b"PAYPAL-TRANSMISSION-TIME")
    assert not is_secret(b"webhook-id")


def test_every_refusal_has_words() -> None:
    assert all(map(sentence, Refusal))
