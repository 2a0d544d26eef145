"""Tokens: providers that send a JSON Web Token along, and what has to be in it.

Those of Google and Entra say who sends and to whom, and nothing about the body; those of Plaid (and
of Netlify, next door) carry its digest. A token names its algorithm itself, so each scheme takes
one only: a token without any, or one whose public key is used as a shared secret, is none.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers.certificates import expected
from gateway.providers.keyset import Key, Keyring, Source, from_text, search, sources
from gateway.providers.public_keys import fault_of
from gateway.providers.scheme import Scheme, Verifier
from gateway.providers.wire import lines

Claims = Mapping[str, Any]
InTime = Callable[[Claims, float], bool]

# What clocks may be apart; the libraries of Google and Microsoft allow between 0 and 300 s.
LEEWAY = 60.0
# Theirs have about one or two thousand characters.
LONGEST_TOKEN = 16 * 2**10

_BEARER = re.compile(rb"[Bb]earer +([A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+)")
COMPACT = re.compile(rb"([A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+)")


@dataclass(frozen=True, slots=True)
class Token:
    """A token that has the form of one, and is believed by nobody yet."""

    text: str
    kid: str | None


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a scheme's tokens are, and the only algorithm that they may have."""

    header: bytes
    written: re.Pattern[bytes]
    jws: jwt.PyJWS
    algorithm: str

    def read(self, delivery: Delivery) -> Token | None:
        """The token of a delivery; None where it has none, or none of this algorithm."""
        found = lines(delivery.headers, frozenset({self.header}))
        match = self.written.fullmatch((found or {}).get(self.header, b""))
        if match is None or len(match[1]) > LONGEST_TOKEN:
            return None
        text = match[1].decode()
        try:
            header = self.jws.get_unverified_header(text)
        except jwt.PyJWTError:
            return None
        # What a token calls critical nobody here understands, so RFC 7515 has it refused.
        if header.get("alg") != self.algorithm or "crit" in header or "b64" in header:
            return None
        return Token(text, header.get("kid"))

    def claims(self, token: Token, key: object) -> Claims | None:
        """What a token says; None where this key did not sign it."""
        try:
            payload = self.jws.decode(token.text, key, algorithms=[self.algorithm])  # type: ignore[arg-type]
            said = json.loads(payload)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return said if isinstance(said, dict) else None


class TokenVerifier:
    """Checks tokens that were signed with a private key."""

    def __init__(
        self,
        reader: Reader,
        places: tuple[Source, ...],
        agrees: Callable[[Claims, Delivery], bool],
        in_time: InTime,
    ) -> None:
        self._reader, self._places = reader, places
        self._agrees, self._in_time = agrees, in_time

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether the owner of one of the keys signed it, and for this delivery."""
        token = self._reader.read(delivery)
        if token is None:
            return Invalid(Flaw.MISSING)
        said: list[Claims] = []

        def fits(key: Key) -> bool:
            if key.algorithm not in (None, self._reader.algorithm):
                return False
            claims = self._reader.claims(token, key.public)
            if claims is None or not self._agrees(claims, delivery):
                return False
            said.append(claims)
            return True

        checked = await search(self._places, token.kid, fits)
        late = isinstance(checked, Valid) and not self._in_time(said[0], now)
        return Invalid(Flaw.EXPIRED) if late else checked


def _identity(signature: Signature, issuers: tuple[str, ...]) -> Callable[[Claims, Delivery], bool]:
    """Whether the right one made it for us; whoever knows an audience can have a token for it."""
    audiences = expected(signature, "audience")
    email = dict(signature.expected).get("email")

    def agrees(claims: Claims, delivery: Delivery) -> bool:
        del delivery  # such a token says nothing of it
        told = claims.get("aud")
        aimed_at = told if isinstance(told, list) else [told]
        if claims.get("iss") not in issuers or not any(one in aimed_at for one in audiences):
            return False
        if email is None:
            return True
        return claims.get("email") == email and claims.get("email_verified") is True

    return agrees


def _number(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _lives(tolerance: float | None) -> InTime:
    """From when it was made to when it ends; nobody takes one that never does."""

    longest = math.inf if tolerance is None else tolerance

    def in_time(claims: Claims, now: float) -> bool:
        made, ends = _number(claims, "iat"), _number(claims, "exp")
        begins = _number(claims, "nbf") if "nbf" in claims else made
        if made is None or ends is None or begins is None:
            return False
        earliest, latest = now - LEEWAY, now + LEEWAY
        return earliest - longest <= made <= latest and begins <= latest and earliest <= ends

    return in_time


def _around(tolerance: float | None) -> InTime:
    """Made within the tolerance of now."""

    def in_time(claims: Claims, now: float) -> bool:
        made = _number(claims, "iat")
        if made is None:
            return False
        return tolerance is None or now - tolerance <= made <= now + tolerance

    return in_time


def digest(claim: str, **others: str) -> Callable[[Claims, Delivery], bool]:
    """Whether a claim is the SHA-256 of the raw body, in hex, and others are as they should be."""

    def agrees(claims: Claims, delivery: Delivery) -> bool:
        made = hashlib.sha256(delivery.body).hexdigest()
        return claims.get(claim) == made and all(
            claims.get(name) == value for name, value in others.items()
        )

    return agrees


def _places(signature: Signature, keyring: Keyring, usual: str) -> tuple[Source, ...]:
    """The route's own keys, or those that the provider publishes for everybody."""
    own = sources(signature, keyring, from_text)
    return own or (keyring.source(usual),)


_RS256 = jwt.PyJWS(algorithms=["RS256"])
_GOOGLE = Reader(b"authorization", _BEARER, _RS256, "RS256")
_GOOGLE_KEYS = "https://www.googleapis.com/oauth2/v3/certs"
_GOOGLE_ISSUERS = ("https://accounts.google.com", "accounts.google.com")
_ENTRA_KEYS = "https://login.microsoftonline.com/common/discovery/v2.0/keys"
_PLAID = Reader(b"plaid-verification", COMPACT, jwt.PyJWS(algorithms=["ES256"]), "ES256")


def _google(signature: Signature, keyring: Keyring) -> Verifier:
    expected(signature, "email")
    issuers = tuple(value for name, value in signature.expected if name == "issuer")
    return TokenVerifier(
        _GOOGLE,
        _places(signature, keyring, _GOOGLE_KEYS),
        _identity(signature, issuers or _GOOGLE_ISSUERS),
        _lives(signature.tolerance),
    )


def _entra(signature: Signature, keyring: Keyring) -> Verifier:
    return TokenVerifier(
        _GOOGLE,
        _places(signature, keyring, _ENTRA_KEYS),
        _identity(signature, expected(signature, "issuer")),
        _lives(signature.tolerance),
    )


def _plaid(signature: Signature, keyring: Keyring) -> Verifier:
    return TokenVerifier(
        _PLAID,
        sources(signature, keyring, from_text),
        digest("request_body_sha256"),
        _around(signature.tolerance),
    )


SCHEMES = (
    Scheme(
        name="gcp-oidc",
        headers=frozenset({_GOOGLE.header}),
        carriers=frozenset({_GOOGLE.header}),
        covered=frozenset(),
        covers_body=False,
        proof="google-auth 2.63",
        verifier=_google,
        dated=True,
        # Google's tokens live for so long, and Pub/Sub sends one again until it ends.
        tolerance=3600,
        needs=("audience", "email"),
        fault=fault_of(from_text),
    ),
    Scheme(
        name="entra-oidc",
        headers=frozenset({_GOOGLE.header}),
        carriers=frozenset({_GOOGLE.header}),
        covered=frozenset(),
        covers_body=False,
        proof=None,
        verifier=_entra,
        dated=True,
        # Those for services may live for a day.
        tolerance=86_400,
        needs=("audience", "issuer"),
        fault=fault_of(from_text),
    ),
    Scheme(
        name="plaid",
        headers=frozenset({_PLAID.header}),
        carriers=frozenset({_PLAID.header}),
        covered=frozenset(),
        covers_body=True,
        proof=None,
        verifier=_plaid,
        dated=True,
        tolerance=300,
        needs=("keys",),
        fault=fault_of(from_text),
    ),
)
