"""Key sets: public keys as they are published, and where a check gets them from.

PEM has keys or certificates, one or several; JSON has a JWK set, a single JWK, or one under `key`,
as Plaid answers. Nothing in here reads a file or a socket: whoever makes verifiers brings a
`Keyring`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from gateway.core.signature import Checked, Flaw, Invalid, Signature, Unchecked, Valid

PublicKey: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey

# Entra publishes about ten, Google three. What has more is no key set of a provider's.
MOST_KEYS = 64
# NIST SP 800-131A: what is shorter has not been good enough since 2013.
SHORTEST_RSA = 2048


@dataclass(frozen=True, slots=True)
class Key:
    """One public key."""

    public: PublicKey
    kid: str | None = None
    """What tokens call it; None for one without a name, which may be anybody's."""
    algorithm: str | None = None
    """The only one that it is for, as JOSE names them; None where it does not say."""
    since: float | None = None
    until: float | None = None
    """A certificate's dates, in epoch seconds; None for a bare key."""

    def is_valid(self, now: float) -> bool:
        """Whether its dates allow it. `now`: epoch seconds."""
        return (self.since is None or self.since <= now) and (
            self.until is None or now <= self.until
        )


Keys: TypeAlias = tuple[Key, ...]


class Source(Protocol):
    """Keys that are kept somewhere."""

    async def find(self, kid: str | None) -> Keys | Unchecked:
        """All keys that are there, as new as it takes to tell whether one is called `kid`.

        Unchecked where they cannot be had, or are too old to tell. Never raises.
        """
        ...


class Keyring(Protocol):
    """Gets keys for the verifiers."""

    def source(self, place: str) -> Source:
        """What is in a PEM or JWKS file, or at an https URL.

        A file is read now. Raises OSError when it cannot be, ValueError when there is no key in it.
        """
        ...

    async def certificate(self, url: str) -> Keys | Unchecked:
        """The keys of a certificate that a delivery names, whose URL was found to be allowed."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Keys that are in the configuration or in a file."""

    keys: Keys

    async def find(self, kid: str | None) -> Keys:
        """They stay as they are until the configuration is loaded again."""
        del kid
        return self.keys


def sources(
    signature: Signature, keyring: Keyring, read: Callable[[str], Keys]
) -> tuple[Source, ...]:
    """A route's keys: those written as text, then those of its files and URLs.

    The place of one here is what `Valid.secret` says. Raises OSError and ValueError.
    """
    written = (Fixed(read(text)) for text in signature.secrets)
    return (*written, *(keyring.source(place) for place in signature.keys))


async def search(places: Iterable[Source], kid: str | None, fits: Callable[[Key], bool]) -> Checked:
    """Valid for the first place that has the key; what is public needs no constant time.

    Wrong only where every place could be asked.
    """
    answer: Checked = Invalid(Flaw.WRONG)
    for place, source in enumerate(places):
        found = await source.find(kid)
        if isinstance(found, Unchecked):
            answer = found
        elif any(fits(key) for key in named(found, kid)):
            return Valid(place)
    return answer


def named(keys: Keys, kid: str | None) -> Keys:
    """Those that may be meant by a key id: the ones of that name, and those without any."""
    return keys if kid is None else tuple(key for key in keys if key.kid in (kid, None))


def parse(content: bytes) -> Keys:
    """The keys of a PEM or JSON document. Raises ValueError that says what is wrong with it."""
    keys = _from_json(content) if content.lstrip()[:1] == b"{" else _from_pem(content)
    if not keys:
        raise ValueError("has no public key that signatures can be checked with")
    if len(keys) > MOST_KEYS:
        raise ValueError(f"has {len(keys)} keys; {MOST_KEYS} are the most that are taken")
    return keys


def _from_json(content: bytes) -> Keys:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("begins like JSON and is none") from None
    if isinstance(document.get("keys"), list):
        written = document["keys"]
    else:
        written = [document.get("key", document)]
    if len(written) > MOST_KEYS:
        raise ValueError(f"has {len(written)} keys; {MOST_KEYS} are the most that are taken")
    return tuple(key for one in written if (key := _from_jwk(one)) is not None)


# What the library says of a member that is missing, of another type, or of a kind that it knows
# only half of. One odd key must not take away the others of its set.
_NO_KEY = (
    jwt.PyJWTError,
    UnsupportedAlgorithm,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    NotImplementedError,
)


def _from_jwk(written: Any) -> Key | None:
    """None for what is no key for us: RFC 7517 wants a set to be read past such ones."""
    if not isinstance(written, dict) or written.get("use", "sig") != "sig":
        return None
    kid, algorithm = written.get("kid"), written.get("alg")
    # Plaid says when a key was taken out of use.
    if written.get("expired_at") is not None or not isinstance(kid, str | None):
        return None
    try:
        public = jwt.PyJWK(written).key
    except _NO_KEY:
        return None
    return Key(public, kid, algorithm) if _is_usable(public) else None


def _is_usable(public: object) -> bool:
    match public:
        case RSAPublicKey():
            return public.key_size >= SHORTEST_RSA
        case EllipticCurvePublicKey():
            return isinstance(public.curve, SECP256R1)
        case _:
            return isinstance(public, Ed25519PublicKey)


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


def _from_pem(content: bytes) -> Keys:
    keys = []
    for block in _PEM.finditer(content):
        label = block[1].decode()
        if label.endswith("PRIVATE KEY"):
            raise ValueError("has a private key, which is nobody's but the provider's")
        if label == "CERTIFICATE":
            keys.append(_from_certificate(block[0]))
        elif label.endswith("PUBLIC KEY"):
            keys.append(Key(_checked(_loaded(load_pem_public_key, block[0]))))
        if len(keys) > MOST_KEYS:
            break
    return tuple(keys)


def _from_certificate(block: bytes) -> Key:
    certificate = _loaded(x509.load_pem_x509_certificate, block)
    dates: tuple[datetime, datetime] = (
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )
    since, until = (date.timestamp() for date in dates)
    return Key(_checked(_loaded(certificate.public_key)), since=since, until=until)


def _loaded(load: Callable[..., Any], *content: bytes) -> Any:
    try:
        return load(*content)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise ValueError("has a key or certificate that cannot be read") from None


def _checked(public: Any) -> PublicKey:
    if not _is_usable(public):
        raise ValueError(
            "has a key of another kind: Ed25519, ECDSA on P-256 and RSA from 2048 bits are taken"
        )
    key: PublicKey = public
    return key


def from_text(text: str) -> Keys:
    """Keys written into the configuration: a PEM or JSON document, or a DER key in base64.

    Raises ValueError.
    """
    text = text.strip()
    if text.startswith(("{", "-----BEGIN ")):
        return parse(text.encode("utf-8", "surrogateescape"))
    der = from_base64(text.encode("utf-8", "surrogateescape"))
    if der is None:
        raise ValueError("is no public key; write it as PEM, or as base64 of its DER form")
    return (Key(_checked(_loaded(load_der_public_key, der))),)


def ed25519(raw: bytes) -> Keys:
    """A key that is written as its 32 bytes. Raises ValueError for other bytes."""
    try:
        return (Key(Ed25519PublicKey.from_public_bytes(raw)),)
    except ValueError:
        raise ValueError("is no Ed25519 public key, which has 32 bytes") from None


def from_base64(text: bytes) -> bytes | None:
    """The bytes of standard base64 with padding; None for any other spelling of them.

    A text that decodes to the right signature and is spelled in another way was changed.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return raw if base64.b64encode(raw) == text else None
