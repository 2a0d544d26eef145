"""Publishers: providers' key pairs, in every form in which their public halves are published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gateway.core.signature import Signature
from gateway.keys import FetchError, KeyStore
from gateway.providers import schemes

NOW = 1_790_000_000.0

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def rsa_key(name: str, size: int = 2048) -> rsa.RSAPrivateKey:
    """One key for each name."""
    del name
    return rsa.generate_private_key(65537, size)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    """As above, on P-256."""
    del name
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    """As above, Ed25519."""
    del name
    return ed25519.Ed25519PrivateKey.generate()


def raw(key: ed25519.Ed25519PrivateKey) -> bytes:
    """The public half's 32 bytes."""
    return key.public_key().public_bytes_raw()


def pem(key: Private) -> bytes:
    """The public half as PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def private_pem(key: Private) -> bytes:
    """The private half as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def der(key: Private) -> bytes:
    """The public half as DER."""
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def certificate(
    key: rsa.RSAPrivateKey, since: float = NOW - 1e6, until: float = NOW + 1e6
) -> bytes:
    """A certificate for it as PEM, signed by itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(since, UTC))
        .not_valid_after(datetime.fromtimestamp(until, UTC))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def jwk(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **members: object
) -> dict[str, object]:
    """The public half as a JWK."""
    if isinstance(key, rsa.RSAPrivateKey):
        return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), **members}
    return {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), **members}


def jwks(*keys: Mapping[str, object]) -> bytes:
    """A set of them."""
    return json.dumps({"keys": keys}).encode()


class Web:
    """What there is to fetch, and a clock; counts the fetches."""

    def __init__(self, **documents: bytes) -> None:
        self.documents: dict[str, bytes] = dict(documents)
        self.fetched: list[str] = []
        self.time = 1000.0
        self.is_away = False

    async def fetch(self, url: str) -> bytes:
        """Raises FetchError for what is not there."""
        self.fetched.append(url)
        if self.is_away or url not in self.documents:
            raise FetchError("answered 503" if self.is_away else "answered 404")
        return self.documents[url]

    def store(self) -> KeyStore:
        """Keys from here."""
        return KeyStore(self.fetch, lambda: self.time)


def signature_of(
    scheme: str,
    *secrets: str,
    keys: tuple[str, ...] = (),
    tolerance: float | str | None = "default",
    **expected: str,
) -> Signature:
    """A route's signature; with the scheme's own tolerance if no other is said."""
    found = schemes.scheme(scheme)
    return Signature(
        scheme=scheme,
        secrets=secrets,
        keys=keys,
        tolerance=found.tolerance if isinstance(tolerance, str) else tolerance,
        public_url=None,
        expected=tuple(expected.items()),
        headers=found.headers,
        resign=False,
    )
