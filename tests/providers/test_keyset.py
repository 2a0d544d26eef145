"""Key sets: what is taken for a public key, and what is not."""

from __future__ import annotations

import json
from base64 import b64encode, encodebytes

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm

from gateway.providers.keyset import MOST_KEYS, from_base64, from_text, named, parse
from tests.providers.publishers import (
    certificate,
    der,
    ec_key,
    ed_key,
    jwk,
    jwks,
    pem,
    private_pem,
    rsa_key,
)

RSA, EC, ED = rsa_key("one"), ec_key("one"), ed_key("one")
SET = jwks(jwk(RSA, kid="r", alg="RS256", use="sig"), jwk(EC, kid="e"))


@pytest.mark.parametrize(
    ("content", "kids"),
    [
        (pem(RSA), [None]),
        (b"# rotated in May\n" + pem(RSA) + b"\n" + pem(EC) + pem(ED), [None, None, None]),
        (certificate(RSA) + certificate(rsa_key("two")), [None, None]),
        (SET, ["r", "e"]),
        (b"\n " + SET, ["r", "e"]),
        (json.dumps(jwk(EC, kid="e")).encode(), ["e"]),
        (json.dumps({"key": jwk(EC, kid="e", expired_at=None), "request_id": "x"}).encode(), ["e"]),
    ],
    ids=["PEM", "several", "certificates", "set", "blanks before", "one JWK", "Plaid's answer"],
)
def test_keys_are_read_in_every_form_in_which_they_are_published(
    content: bytes, kids: list[str | None]
) -> None:
    assert [key.kid for key in parse(content)] == kids


@pytest.mark.parametrize(
    "unusable",
    [
        jwk(EC, kid="x", use="enc"),
        jwk(EC, kid="x", expired_at=1_700_000_000),
        jwk(EC, kid=7),
        jwk(rsa_key("short", 1024), kid="x"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "x"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "x"},
        {"kty": "RSA", "n": 5, "e": "AQAB", "kid": "x"},
        {"kty": "new", "kid": "x"},
        {"kid": "x"},
        "no object",
        None,
        {"kty": "oct"},
    ],
    ids=[
        "for encryption",
        "expired",
        "its name is a number",
        "short",
        "shared",
        "no point of the curve",
        "a number for a text",
        "another kind",
        "no kind",
        "no object",
        "nothing",
        "lacks its value",
    ],
)
def test_what_is_no_key_for_us_is_passed_over(unusable: object) -> None:
    content = json.dumps({"keys": [unusable, jwk(EC, kid="good")]}).encode()
    assert [key.kid for key in parse(content)] == ["good"]


def of_version_18(certificate: bytes) -> bytes:
    """X.509 has three."""
    der = load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
    version = b"\xa0\x03\x02\x01"
    changed = der.replace(version + b"\x02", version + b"\x11", 1)
    return b"-----BEGIN CERTIFICATE-----\n%b-----END CERTIFICATE-----\n" % encodebytes(changed)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no public key"),
        (b"<html>502 Bad Gateway</html>", "no public key"),
        (b'{"keys": []}', "no public key"),
        (b'{"keys": {"a": 1}}', "no public key"),
        (b'{"keys": [', "is none"),
        (b"{" * 100_000, "is none"),
        (b'{"\xff": 1}', "is none"),
        (private_pem(RSA), "a private key"),
        (certificate(RSA) + private_pem(RSA), "a private key"),
        (pem(rsa_key("short", 1024)), "another kind"),
        (pem(RSA).replace(b"MII", b"AAA"), "cannot be read"),
        (of_version_18(certificate(RSA)), "cannot be read"),
        (jwks(*[jwk(EC, kid="e")] * (MOST_KEYS + 1)), "the most"),
        (pem(EC) * (MOST_KEYS + 1), "the most"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_document_without_keys_says_what_is_wrong_with_it(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(content)


def test_a_private_key_is_no_key_to_check_with_even_as_a_jwk() -> None:
    with pytest.raises(ValueError, match="no public key"):
        parse(jwks(ECAlgorithm.to_jwk(EC, as_dict=True)))


def test_another_curve_is_refused() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    with pytest.raises(ValueError, match="another kind"):
        parse(pem(other))


def test_a_key_id_means_the_keys_of_that_name_and_those_without_any() -> None:
    keys = parse(SET) + parse(pem(ED))
    assert [key.kid for key in named(keys, "e")] == ["e", None]
    assert [key.kid for key in named(keys, None)] == ["r", "e", None]


def test_a_certificate_is_good_between_its_dates_and_a_bare_key_for_good() -> None:
    (dated,) = parse(certificate(RSA, since=1000, until=2000))
    assert [dated.is_valid(now) for now in (999, 1000, 2000, 2001)] == [False, True, True, False]
    assert parse(pem(RSA))[0].is_valid(0)


@pytest.mark.parametrize(
    "text",
    [pem(EC).decode(), b64encode(der(EC)).decode(), " " + b64encode(der(EC)).decode() + "\n"],
)
def test_a_key_can_be_written_into_the_configuration(text: str) -> None:
    assert len(from_text(text)) == 1


@given(st.binary(max_size=300))
def test_whatever_is_published_is_keys_or_a_value_error(content: bytes) -> None:
    for document in (content, b"{" + content, b"-----BEGIN CERTIFICATE-----\n" + content):
        with pytest.raises(ValueError, match=r"."):
            parse(document)


@given(st.text(max_size=100))
def test_whatever_is_written_is_a_key_or_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_text(text)


@pytest.mark.parametrize(
    "text", [b"YQ", b"YQ==\n", b"YR==", b"Y Q==", b"YQ==YQ==", b"_-==", b"\xff"]
)
def test_bytes_have_one_spelling_in_base64(text: bytes) -> None:
    assert from_base64(b"YQ==") == b"a"
    assert from_base64(text) is None
